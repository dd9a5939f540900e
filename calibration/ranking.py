"""How well a signal ranks invalid reuse above valid reuse (paper appendix I, table 14).

Needs scikit-learn, which takes long to load: import this module by its own name.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.metrics import average_precision_score, roc_auc_score

from cachemend.calibration.arrays import check_lengths, flags
from cachemend.calibration.errors import CalibrationError
from cachemend.calibration.intervals import REPLICATES, SEED, Interval

_WEIGHTS_AT_ONCE = 2_000_000


class Ranking(NamedTuple):
    """Ranking quality of one signal, invalid reuse being what it should rank high.

    Attributes:
        auroc, auprc: point (AUPRC is the average precision), 95 % percentile interval over clusters, number of them.
        prevalence: share of invalid exposures, the AUPRC of a signal without information.
        replicates: draws behind the intervals; those with one label only have no ranking and are left out.
    """

    auroc: Interval
    auprc: Interval
    prevalence: float
    replicates: int


def ranking(
    signal: ArrayLike, valid: ArrayLike, clusters: ArrayLike, *, replicates: int = REPLICATES, seed: int = SEED
) -> Ranking:
    """Return AUROC and AUPRC of a signal with cluster-bootstrap intervals.

    Args:
        signal: larger where reuse looks less valid (a similarity must be negated), shape ``[exposures]``; infinite
            values rank, NaN does not.
        valid: whether reuse is valid.
        clusters: the cluster of each exposure; drawn whole.
        replicates: number of draws.
        seed: seed of NumPy's default generator.

    Raises:
        CalibrationError: exposures of one label only.
        ValueError: no exposures, lengths that differ, a signal that is NaN, or no replicates.
    """
    score, good, names = np.asarray(signal, dtype=np.float64), flags("valid", valid), np.asarray(clusters)
    check_lengths(signal=score, valid=good, clusters=names)
    if np.isnan(score).any():
        raise ValueError(f"signal is NaN at exposure {int(np.flatnonzero(np.isnan(score))[0])}")
    if replicates < 1:
        raise ValueError(f"replicates {replicates} is below 1")
    if good.all() or not good.any():
        raise CalibrationError(f"valid: all exposures are {'valid' if good.all() else 'invalid'}; a ranking needs both")
    _, place = np.unique(-score, return_inverse=True)  # finite stand-ins of the same order
    draws = _cluster_draws(place, good, names, replicates, seed)
    draws = draws[:, ~np.isnan(draws).any(axis=0)]
    if not draws.shape[1]:
        raise CalibrationError("clusters: no draw of clusters has valid and invalid exposures; give more clusters")
    n_clusters = len(np.unique(names))
    points = (roc_auc_score(~good, -place), average_precision_score(~good, -place))
    low, high = np.percentile(draws, [2.5, 97.5], axis=1)
    auroc, auprc = (Interval(float(points[i]), float(low[i]), float(high[i]), n_clusters) for i in range(2))
    return Ranking(auroc, auprc, float((~good).mean()), draws.shape[1])


def _cluster_draws(
    place: NDArray[np.intp], valid: NDArray[np.bool_], clusters: NDArray[np.generic], replicates: int, seed: int
) -> NDArray[np.float64]:
    """Return AUROC and AUPRC of each draw, shape ``[2, replicates]``; NaN where one label is missing.

    Equal (place, cluster) rows are one weighted row: repeated exposures of a pair cost nothing.
    """
    _, code = np.unique(clusters, return_inverse=True)
    n = int(code.max()) + 1
    rows, row_of = np.unique(place * n + code, return_inverse=True)
    row_place, row_cluster = np.divmod(rows, n)
    invalid, good = np.bincount(row_of, weights=~valid), np.bincount(row_of, weights=valid)
    starts = np.flatnonzero(np.r_[True, np.diff(row_place) > 0])
    rng = np.random.default_rng(seed)
    found = np.empty((2, replicates))
    at_once = max(1, _WEIGHTS_AT_ONCE // max(len(rows), n))
    for first in range(0, replicates, at_once):
        last = min(first + at_once, replicates)
        drawn = rng.integers(0, n, size=(last - first, n)) + n * np.arange(last - first)[:, None]
        times = np.bincount(drawn.ravel(), minlength=n * (last - first)).reshape(-1, n)[:, row_cluster]
        wrong, right = (np.add.reduceat(times * weight, starts, axis=1) for weight in (invalid, good))
        found[:, first:last] = _areas(wrong, right)
    return found


def _areas(wrong: NDArray[np.float64], right: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return AUROC and average precision per row, from the weight of each label at each distinct signal, descending."""
    above_wrong, above_right = wrong.cumsum(axis=1), right.cumsum(axis=1)
    n_wrong, n_right = above_wrong[:, -1], above_right[:, -1]
    with np.errstate(invalid="ignore", divide="ignore"):
        # An invalid exposure beats every valid one below it, and half of those level with it.
        auroc = (wrong * (n_right[:, None] - above_right + right / 2)).sum(axis=1) / (n_wrong * n_right)
        seen = above_wrong + above_right
        precision = np.divide(above_wrong, seen, out=np.zeros_like(seen), where=seen > 0)
        auprc = np.where(n_right > 0, (wrong * precision).sum(axis=1) / n_wrong, np.nan)
    return np.stack([auroc, auprc])
