"""Checks of the arrays that describe exposures."""

import numpy as np
from numpy.typing import ArrayLike, NDArray


def flags(name: str, values: ArrayLike) -> NDArray[np.bool_]:
    """Return 0/1 values as booleans, shape ``[n]``.

    Raises:
        ValueError: no values, others than 0 and 1, or not one dimension.
    """
    array = np.asarray(values)
    if array.ndim != 1 or array.size == 0:
        raise ValueError(f"{name} has shape {array.shape}; it must be one-dimensional and not empty")
    if array.dtype != bool and not np.isin(array, (0, 1)).all():
        raise ValueError(f"{name} must be 0 or 1")
    return array.astype(bool)


def check_lengths(**arrays: NDArray[np.generic]) -> None:
    """Refuse arrays that do not have one value of each per row.

    Raises:
        ValueError: shapes that differ.
    """
    if len({array.shape for array in arrays.values()}) > 1:
        shapes = ", ".join(f"{name} {array.shape}" for name, array in arrays.items())
        raise ValueError(f"arrays must have one shape; found {shapes}")
