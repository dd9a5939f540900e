"""Features by name, groups and outcomes of the same items, checked before anything is fitted to them."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray


def feature_matrix(features: ArrayLike, names: Sequence[str], n: int) -> NDArray[np.float64]:
    """Return features as floats, shape ``[n, len(names)]``.

    Raises:
        ValueError: another shape, no names, or a value that is not finite.
    """
    x = np.asarray(features, dtype=np.float64)
    if x.ndim != 2 or x.shape != (n, len(names)) or not names:
        raise ValueError(f"features have shape {x.shape}; {n} items and {len(names)} names need ({n}, {len(names)})")
    for name, column in zip(names, x.T, strict=True):
        if not np.isfinite(column).all():
            raise ValueError(f"feature {name!r} holds a value that is not finite")
    return x


def one_each(name: str, values: ArrayLike, n: int) -> NDArray[Any]:
    """Return values as an array of shape ``[n]``.

    Raises:
        ValueError: another shape.
    """
    array = np.asarray(values)
    if array.shape != (n,):
        raise ValueError(f"{name} has shape {array.shape}; it must name one for each of the {n} items")
    return array
