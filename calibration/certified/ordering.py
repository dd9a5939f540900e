"""The order in which policies are tested, from the development subset alone."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cachemend.calibration.bounds import exact_upper


def order_on_dev(invalid: ArrayLike, hits: ArrayLike, regions: ArrayLike | None = None) -> NDArray[np.intp]:
    """Return the policies worth testing, from the safest to the most useful.

    A policy is left out when another has at least as many valid hits and no larger upper bound of the risk: testing
    it could only end the sequence. What remains has more valid hits, and a larger bound, at each step.

    Args:
        invalid, hits: counts of each policy on the development subset, shape ``[policies]``, or
            ``[policies, kinds]`` to bound direct and verified hits separately; the largest bound of a policy counts,
            and a kind without hits has the bound 1.
        regions: whether each policy has each kind of hit switched on, of the shape of the counts; what is off has no
            bound. None for all on.

    Returns:
        numbers of policies.

    Raises:
        ValueError: shapes that differ, no policies, or counts that are not ``0 <= invalid <= hits``.
    """
    wrong, n = np.asarray(invalid), np.asarray(hits)
    if wrong.shape != n.shape or wrong.ndim not in (1, 2) or wrong.size == 0:
        raise ValueError(f"invalid and hits have shapes {wrong.shape} and {n.shape}; give one shape, not empty")
    on = np.ones(n.shape, dtype=bool) if regions is None else np.asarray(regions, dtype=bool)
    if on.shape != n.shape:
        raise ValueError(f"regions has shape {on.shape} and the counts {n.shape}; give one of each count")
    wrong, n, on = (array.reshape(len(n), -1) for array in (wrong, n, on))
    bound = np.where(on, exact_upper(wrong, n), 0.0).max(axis=1)
    valid = (n - wrong).sum(axis=1)
    order = np.lexsort((np.arange(len(n)), -valid, bound))
    best_before = np.maximum.accumulate(np.r_[-1, valid[order][:-1]])
    return order[valid[order] > best_before]
