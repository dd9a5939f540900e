"""Checks of the two numbers every certificate needs."""


def check_levels(alpha: float, delta: float) -> None:
    """Refuse a risk or an error level outside its range; a risk of 0 is allowed, and never certified.

    Raises:
        ValueError: ``alpha`` outside ``[0, 1)`` or ``delta`` outside ``(0, 1)``.
    """
    if not 0 <= alpha < 1:
        raise ValueError(f"alpha {alpha} is outside 0 to 1")
    if not 0 < delta < 1:
        raise ValueError(f"delta {delta} is outside 0 to 1")
