"""How well a predicted rate of invalid reuse fits what was seen (paper appendix H.1)."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cachemend.calibration.arrays import check_lengths, flags
from cachemend.calibration.intervals import finite_values

N_BINS = 10


class ReliabilityBin(NamedTuple):
    """Exposures of one bin: how many, their mean predicted and their observed share of invalid reuse."""

    n: int
    predicted: float
    observed: float


class Reliability(NamedTuple):
    """Fit of predicted rates.

    Attributes:
        ece: expected calibration error, the mean over exposures of their bin's ``|predicted - observed|``.
        brier: mean squared difference of prediction and outcome.
        bins: in the order of their labels.
    """

    ece: float
    brier: float
    bins: tuple[ReliabilityBin, ...]


def reliability(predicted: ArrayLike, valid: ArrayLike, bins: ArrayLike) -> Reliability:
    """Compare predicted rates of invalid reuse with outcomes.

    Args:
        predicted: rates from 0 to 1, shape ``[n]``.
        valid: whether reuse is valid.
        bins: the bin of each exposure: the risk map's merged block, or `equal_width_bins`.

    Raises:
        ValueError: no exposures, lengths that differ, or a rate outside 0 to 1.
    """
    rate, label = _rates(predicted), np.asarray(bins)
    invalid = ~flags("valid", valid)
    check_lengths(predicted=rate, valid=invalid, bins=label)
    _, code = np.unique(label, return_inverse=True)
    n = np.bincount(code)
    mean, observed = np.bincount(code, weights=rate) / n, np.bincount(code, weights=invalid) / n
    return Reliability(
        ece=float((n * np.abs(mean - observed)).sum() / len(rate)),
        brier=float(np.mean((rate - invalid) ** 2)),
        bins=tuple(ReliabilityBin(int(k), float(p), float(y)) for k, p, y in zip(n, mean, observed, strict=True)),
    )


def equal_width_bins(predicted: ArrayLike, n_bins: int = N_BINS) -> NDArray[np.intp]:
    """Return the number of each rate's bin, from 0; a rate at an edge is in the upper bin, 1 in the last.

    Raises:
        ValueError: no rates, a rate outside 0 to 1, or no bins.
    """
    rate = _rates(predicted)
    if n_bins < 1:
        raise ValueError(f"n_bins {n_bins} is below 1")
    return np.minimum((rate * n_bins).astype(np.intp), n_bins - 1)


def _rates(predicted: ArrayLike) -> NDArray[np.float64]:
    rate = finite_values("predicted", predicted)
    if not ((rate >= 0) & (rate <= 1)).all():
        raise ValueError("a predicted rate is outside 0 to 1")
    return rate
