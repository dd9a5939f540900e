"""Testing policies in an order fixed beforehand (Angelopoulos et al. 2021, "Learn then Test", fixed sequence)."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray


def fixed_sequence(p: ArrayLike, delta: float, starts: Sequence[int] = (0,)) -> NDArray[np.bool_]:
    """Return which hypotheses are rejected; wrongly rejecting any of them has probability at most `delta`.

    From each start the hypotheses are tested one after another at ``delta / len(starts)`` until the first that is
    kept. Order and starts must not depend on the data behind `p`.

    Args:
        p: p-values in their order, shape ``[..., policies]``.
        delta: family-wise error level.
        starts: distinct places in the order.

    Raises:
        ValueError: no start, one that is given twice or outside the order.
    """
    values = np.asarray(p, dtype=np.float64)
    n = values.shape[-1]
    if not starts or len(set(starts)) != len(starts) or not all(0 <= start < n for start in starts):
        raise ValueError(f"starts {tuple(starts)} must be distinct places from 0 to {n - 1}, at least one")
    passed = values <= delta / len(starts)
    rejected = np.zeros(values.shape, dtype=bool)
    for start in starts:
        rejected[..., start:] |= np.logical_and.accumulate(passed[..., start:], axis=-1)
    return rejected
