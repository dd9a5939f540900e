"""Exact repair budgets (paper section 7.1, Eq. 3)."""

import re
from dataclasses import dataclass
from fractions import Fraction
from math import ceil

from cachemend.repair_core.errors import InputError
from cachemend.repair_core.whole import whole

# As `str` writes a float. Its exponents have three digits at most, and a longer one would take for ever.
_DECIMAL = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?")


@dataclass(frozen=True)
class Tokens:
    """A budget given as a number of positions instead of a percentage."""

    count: int

    def __post_init__(self) -> None:
        try:
            object.__setattr__(self, "count", whole(self.count))
        except TypeError as error:
            raise InputError(f"budget of {self.count!r} tokens is no whole number; give 0 or more") from error
        if self.count < 0:
            raise InputError(f"budget of {self.count} tokens is negative; give 0 or more")


def parse_percent(percent: float | str) -> Fraction:
    """Parse a percentage as the decimal the user wrote: ``Fraction(0.1)`` is already off.

    Raises:
        InputError: not a number in ASCII digits, or outside 0..100.
    """
    if not _DECIMAL.fullmatch(str(percent)):
        raise InputError(f"budget {percent!r} is not a number; give a percentage from 0 to 100")
    value = Fraction(str(percent))
    if not 0 <= value <= 100:
        raise InputError(f"budget {percent}% is outside 0 to 100; give a percentage from 0 to 100")
    return value


def repair_budget(suffix_length: int, percent: float | str | Tokens) -> int:
    """Return B(S, b) = min(S, ceil(S*b/100)), the number of suffix positions to recompute (Eq. 3).

    Args:
        suffix_length: S, the retained suffix in tokens; at least 0.
        percent: b, from 0 (Shift) to 100 (Replay), parsed as an exact decimal; or ``Tokens(n)``.

    Raises:
        InputError: a negative length, or a percentage outside 0..100.
    """
    if suffix_length < 0:
        raise InputError(f"suffix length {suffix_length} is negative; give the number of retained tokens")
    if isinstance(percent, Tokens):
        return min(suffix_length, percent.count)
    return min(suffix_length, ceil(suffix_length * parse_percent(percent) / 100))
