"""Rates as exact fractions of their decimal text, so that a budget of 0.29 admits 29 of 100 and not 28."""

from fractions import Fraction
from math import floor

from cachemend.calibration.errors import CalibrationError

Rate = float | Fraction


def exact_rate(name: str, rate: Rate) -> Fraction:
    """Return `rate` as the fraction its decimal text says: 0.29 is 29/100, not the nearest binary fraction.

    Args:
        name: what the rate is, for the error.
        rate: from 0 to 1.

    Raises:
        CalibrationError: not a number from 0 to 1.
    """
    if not 0 <= rate <= 1:
        raise CalibrationError(f"{name} is {rate}; it must be a fraction from 0 to 1")
    return rate if isinstance(rate, Fraction) else Fraction(str(float(rate)))


def whole_part(rate: Fraction, n: int) -> int:
    """Return ``floor(rate * n)``: how many of `n` the rate admits."""
    return floor(rate * n)
