"""The exact repair budget of equation (3), section 7.1: B(S, b) = min(S, ceil(S b / 100)), 0 <= b <= 100."""

from decimal import Decimal
from fractions import Fraction


def budget(suffix_length: int, percent: int | float | str | Decimal | Fraction) -> int:
    """Return B in suffix positions. The percentage is read as the decimal it prints as, never as binary."""
    if suffix_length < 0:
        raise ValueError(f"suffix_length = {suffix_length}: must not be negative")
    b = percent if isinstance(percent, Fraction) else Fraction(str(percent))
    if not 0 <= b <= 100:
        raise ValueError(f"percent = {percent}: must lie in [0, 100]")
    exact = suffix_length * b / 100
    count = 0
    while count < exact:  # the smallest integer not below the exact value
        count += 1
    return min(suffix_length, count)
