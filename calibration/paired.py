"""Tests on paired outcomes: which differences are more than chance."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import binomtest
from statsmodels.stats.multitest import multipletests


class PairedTest(NamedTuple):
    """An exact McNemar test of right and wrong answers on the same cases.

    Attributes:
        n: number of pairs.
        repaired: pairs where `a` is right and `b` wrong.
        regressed: pairs where `a` is wrong and `b` right; ``sum(a) - sum(b) = repaired - regressed``.
        p: two-sided exact binomial p-value; 1 when no pair differs.
    """

    n: int
    repaired: int
    regressed: int
    p: float


def mcnemar_exact(a: ArrayLike, b: ArrayLike) -> PairedTest:
    """Compare two 0/1 outcomes on common cases.

    Args:
        a: outcomes of the method, shape ``[n]``.
        b: outcomes of the reference on the same cases.

    Raises:
        ValueError: lengths that differ, no pairs, or outcomes other than 0 and 1.
    """
    left, right = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
    if left.ndim != 1 or left.shape != right.shape or left.size == 0:
        raise ValueError(f"outcomes have shapes {left.shape} and {right.shape}; pairs need equal, non-zero lengths")
    if not (np.isin(left, (0, 1)).all() and np.isin(right, (0, 1)).all()):
        raise ValueError("outcomes must be 0 or 1; leave cases without an outcome out before")
    repaired = int(np.sum((left == 1) & (right == 0)))
    regressed = int(np.sum((left == 0) & (right == 1)))
    changed = repaired + regressed
    p = float(binomtest(repaired, changed, 0.5).pvalue) if changed else 1.0
    return PairedTest(int(left.size), repaired, regressed, p)


def holm(p: ArrayLike) -> NDArray[np.float64]:
    """Return Holm's adjusted p-values, in the order given; an empty family stays empty.

    Raises:
        ValueError: a p-value outside 0 to 1 or not one dimension.
    """
    values = np.asarray(p, dtype=np.float64)
    if values.ndim != 1:
        raise ValueError(f"p-values have shape {values.shape}; give one dimension")
    if not ((values >= 0) & (values <= 1)).all():
        raise ValueError("a p-value is outside 0 to 1")
    if values.size == 0:
        return values
    adjusted: NDArray[np.float64] = multipletests(values, method="holm")[1]
    return adjusted
