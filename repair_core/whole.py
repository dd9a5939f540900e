"""What counts as a whole number."""

from operator import index
from typing import Any


def whole(value: Any) -> int:
    """Return a whole number of any type, NumPy's too, as an int.

    Raises:
        TypeError: another type, or a truth value, which Python would count as 0 or 1.
    """
    if isinstance(value, bool):
        raise TypeError(f"{value} is a truth value")
    return index(value)
