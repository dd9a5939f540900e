"""Two methods on the same exposures, with clusters as the units of chance (paper appendix G)."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cachemend.calibration.arrays import check_lengths, flags
from cachemend.calibration.intervals import REPLICATES, SEED, Interval, resamples

_SWAPS_AT_ONCE = 4_000_000
# Columns of the counts of a cluster.
_N, _VALID_A, _HITS_A, _VALID_B, _HITS_B = range(5)


class BootstrapTest(NamedTuple):
    """Differences of pooled rates, a minus b, with 95 % percentile intervals over clusters (``n`` of them).

    Attributes:
        vchr: valid hits per exposure.
        fh: invalid hits per hit; 0 without hits.
        p_vchr: ``(1 + #) / (1 + B)`` over the draws at or below minus the margin.
        p_fh: the same over the draws at or above 0: a claims fewer false hits.
        p: the larger of both.
    """

    vchr: Interval
    fh: Interval
    p_vchr: float
    p_fh: float
    p: float


class SwapTest(NamedTuple):
    """Differences of pooled rates, a minus b, and their one-sided p-values under exchangeable methods.

    Attributes:
        vchr, fh: as for `BootstrapTest`.
        p_vchr: ``(1 + #) / (1 + B)`` over the swaps with a difference at least as large.
        p_fh: over those with one at least as small.
        p: the larger of both.
    """

    vchr: float
    fh: float
    p_vchr: float
    p_fh: float
    p: float


def cluster_bootstrap(
    accepted_a: ArrayLike,
    accepted_b: ArrayLike,
    valid: ArrayLike,
    clusters: ArrayLike,
    *,
    margin: float = 0.0,
    replicates: int = REPLICATES,
    seed: int = SEED,
) -> BootstrapTest:
    """Draw whole clusters, with all their exposures of all splits, with replacement.

    Args:
        accepted_a, accepted_b: whether each method returned the cached response, shape ``[exposures]``.
        valid: whether it may be returned.
        clusters: the cluster of each exposure.
        margin: how much lower the valid-hit rate of a may be; 0 claims superiority.
        replicates: number of draws.
        seed: seed of NumPy's default generator.

    Raises:
        ValueError: no exposures, lengths that differ, values that are not 0 and 1, or no replicates.
    """
    counts = _counts(accepted_a, accepted_b, valid, clusters)
    _check_replicates(replicates)
    drawn = np.empty((replicates, counts.shape[1]))
    for block, members in resamples(len(counts), replicates, seed):
        for column, values in enumerate(counts.T):
            drawn[block, column] = values[members].sum(axis=1)
    vchr, fh = _differences(drawn)
    point_vchr, point_fh = _differences(counts.sum(axis=0, keepdims=True))
    p_vchr, p_fh = _p(vchr <= -margin), _p(fh >= 0)
    return BootstrapTest(
        _interval(point_vchr, vchr, len(counts)), _interval(point_fh, fh, len(counts)), p_vchr, p_fh, max(p_vchr, p_fh)
    )


def label_swap(
    accepted_a: ArrayLike,
    accepted_b: ArrayLike,
    valid: ArrayLike,
    clusters: ArrayLike,
    *,
    replicates: int = REPLICATES,
    seed: int = SEED,
) -> SwapTest:
    """Swap the two methods within each cluster by a fair coin; tests superiority on both rates, no margin.

    Args and errors are those of `cluster_bootstrap`.
    """
    counts = _counts(accepted_a, accepted_b, valid, clusters)
    _check_replicates(replicates)
    total = counts.sum(axis=0, keepdims=True)
    change = counts[:, [_VALID_B, _HITS_B]] - counts[:, [_VALID_A, _HITS_A]]
    swapped = np.repeat(total, replicates, axis=0)
    for block, swaps in _swaps(len(counts), replicates, seed):
        moved = swaps @ change
        swapped[block, _VALID_A : _HITS_A + 1] += moved
        swapped[block, _VALID_B : _HITS_B + 1] -= moved
    # The sums are whole numbers: a swap that changes nothing gives exactly the observed difference, and counts.
    (vchr,), (fh,) = _differences(total)
    all_vchr, all_fh = _differences(swapped)
    p_vchr, p_fh = _p(all_vchr >= vchr), _p(all_fh <= fh)
    return SwapTest(float(vchr), float(fh), p_vchr, p_fh, max(p_vchr, p_fh))


def _counts(a: ArrayLike, b: ArrayLike, valid: ArrayLike, clusters: ArrayLike) -> NDArray[np.float64]:
    """Return exposures, valid hits and hits of a, valid hits and hits of b of each cluster, shape ``[clusters, 5]``."""
    names = np.asarray(clusters)
    left, right, good = (flags(name, x) for name, x in (("accepted_a", a), ("accepted_b", b), ("valid", valid)))
    check_lengths(accepted_a=left, accepted_b=right, valid=good, clusters=names)
    _, code = np.unique(names, return_inverse=True)
    columns = (np.ones(len(good)), left & good, left, right & good, right)
    return np.stack([np.bincount(code, weights=column) for column in columns], axis=1)


def _differences(counts: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the differences of the valid-hit and of the false-hit rate; `counts` has shape ``[draws, 5]``."""
    n, valid_a, hits_a, valid_b, hits_b = counts.T
    return (valid_a - valid_b) / n, _false_hits(valid_a, hits_a) - _false_hits(valid_b, hits_b)


def _false_hits(valid: NDArray[np.float64], hits: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.divide(hits - valid, hits, out=np.zeros_like(hits), where=hits > 0)


def _swaps(n: int, replicates: int, seed: int) -> Iterator[tuple[slice, NDArray[np.float64]]]:
    rng = np.random.default_rng(seed)
    rows = max(1, _SWAPS_AT_ONCE // n)
    for start in range(0, replicates, rows):
        stop = min(start + rows, replicates)
        yield slice(start, stop), rng.integers(0, 2, size=(stop - start, n), dtype=np.int8).astype(np.float64)


def _interval(point: NDArray[np.float64], draws: NDArray[np.float64], n: int) -> Interval:
    low, high = np.percentile(draws, [2.5, 97.5], method="linear")
    return Interval(float(point[0]), float(low), float(high), n)


def _p(extreme: NDArray[np.bool_]) -> float:
    return (1 + int(extreme.sum())) / (1 + len(extreme))


def _check_replicates(replicates: int) -> None:
    if replicates < 1:
        raise ValueError(f"replicates {replicates} is below 1")
