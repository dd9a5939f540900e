"""What the conflict cue and the matching uncertainty say about reuse (paper appendix I)."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cachemend.calibration.arrays import check_lengths, flags
from cachemend.calibration.intervals import finite_values

N_STRATA = 4


class ConflictTable(NamedTuple):
    """Exposures by conflict cue and label; both arrays are indexed ``[conflict, valid]``, shape ``[2, 2]``.

    Attributes:
        exposures: counts.
        accepted: those whose cached response was returned.
    """

    exposures: NDArray[np.int64]
    accepted: NDArray[np.int64]


class StratumHalves(NamedTuple):
    """One stratum of mismatch, halved at its median uncertainty; exposures at the median are in the lower half.

    Attributes:
        d_low, d_high: smallest and largest mismatch in it.
        n_low, n_high: exposures in the half of low and of high uncertainty.
        invalid_low, invalid_high: share of them that is invalid; NaN of an empty half.
    """

    d_low: float
    d_high: float
    n_low: int
    n_high: int
    invalid_low: float
    invalid_high: float


def conflict_table(conflict: ArrayLike, valid: ArrayLike, accepted: ArrayLike) -> ConflictTable:
    """Cross conflict cue, label and decision.

    Args:
        conflict, valid, accepted: 0/1 of each exposure, shape ``[n]``.

    Raises:
        ValueError: no exposures, lengths that differ, or values that are not 0 and 1.
    """
    h, good, hit = flags("conflict", conflict), flags("valid", valid), flags("accepted", accepted)
    check_lengths(conflict=h, valid=good, accepted=hit)
    cell = 2 * h + good
    exposures = np.bincount(cell, minlength=4).reshape(2, 2)
    return ConflictTable(exposures, np.bincount(cell[hit], minlength=4).reshape(2, 2))


def uncertainty_halves(
    d: ArrayLike, u: ArrayLike, valid: ArrayLike, n_strata: int = N_STRATA
) -> tuple[StratumHalves, ...]:
    """Compare the invalid shares of low and high uncertainty within strata of mismatch.

    Strata end at the quantiles of `d`; equal values stay together, so that strata may differ in size and fewer than
    `n_strata` may remain.

    Args:
        d: mismatch of each exposure, shape ``[n]``.
        u: matching uncertainty.
        valid: label.
        n_strata: number of strata.

    Raises:
        ValueError: no exposures, lengths that differ, values that are not finite, or no strata.
    """
    mismatch, uncertainty, good = finite_values("d", d), finite_values("u", u), flags("valid", valid)
    check_lengths(d=mismatch, u=uncertainty, valid=good)
    if n_strata < 1:
        raise ValueError(f"n_strata {n_strata} is below 1")
    # A value at an edge belongs below it.
    edges = np.quantile(mismatch, np.arange(1, n_strata) / n_strata, method="inverted_cdf")
    stratum = np.searchsorted(edges, mismatch, side="left")
    return tuple(
        _halves(mismatch[inside], uncertainty[inside], good[inside])
        for inside in (stratum == code for code in np.unique(stratum))
    )


def _halves(d: NDArray[np.float64], u: NDArray[np.float64], valid: NDArray[np.bool_]) -> StratumHalves:
    high = u > np.median(u)
    low_share, high_share = (float((~valid[half]).mean()) if half.any() else float("nan") for half in (~high, high))
    return StratumHalves(float(d.min()), float(d.max()), int((~high).sum()), int(high.sum()), low_share, high_share)
