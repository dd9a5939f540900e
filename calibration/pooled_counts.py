"""Hits pooled over repeated splits, with bounds (paper table 7), and false hits at other shares of invalid pairs."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cachemend.calibration.arrays import check_lengths, flags
from cachemend.calibration.bounds import CONFIDENCE, exact_upper, wilson_upper
from cachemend.calibration.errors import CalibrationError


class HitBounds(NamedTuple):
    """False hits and two one-sided upper bounds of their rate, as fractions.

    Attributes:
        invalid, hits: counts.
        rate: invalid per hit; 0 without hits, whose bounds are 1.
        wilson, exact: upper bounds.
    """

    invalid: int
    hits: int
    rate: float
    wilson: float
    exact: float


class PooledRisk(NamedTuple):
    """The same hits counted twice.

    Attributes:
        exposures: every hit of every split. A pair is in several test subsets, so that these are not independent
            trials and their bounds are too low.
        distinct: pairs returned in at least one split. Pairs of one cluster may still go wrong together.
    """

    exposures: HitBounds
    distinct: HitBounds


class PrevalenceRates(NamedTuple):
    """Rates as fractions at each share of invalid candidates, shape ``[shares]``; `fh` is 0 without hits."""

    prevalence: NDArray[np.float64]
    vchr: NDArray[np.float64]
    fh: NDArray[np.float64]


def hit_bounds(invalid: int, hits: int, confidence: float = CONFIDENCE) -> HitBounds:
    """Return the rate of false hits with its bounds.

    Raises:
        ValueError: counts that are not ``0 <= invalid <= hits``, or a confidence outside 0.5 to 1.
    """
    rate = invalid / hits if hits else 0.0
    wilson, exact = wilson_upper(invalid, hits, confidence), exact_upper(invalid, hits, confidence)
    return HitBounds(invalid, hits, rate, float(wilson), float(exact))


def pooled_risk(
    accepted: ArrayLike, valid: ArrayLike, pair_ids: ArrayLike, confidence: float = CONFIDENCE
) -> PooledRisk:
    """Bound the false-hit rate over exposures and over distinct pairs.

    Args:
        accepted: whether the cached response was returned, shape ``[exposures]``.
        valid: whether it may be returned.
        pair_ids: the pair of each exposure.
        confidence: of each bound, one-sided.

    Raises:
        CalibrationError: a pair that is valid in one exposure and invalid in another.
        ValueError: no exposures, lengths that differ, or values that are not 0 and 1.
    """
    hit, good, ids = flags("accepted", accepted), flags("valid", valid), np.asarray(pair_ids)
    check_lengths(accepted=hit, valid=good, pair_ids=ids)
    names, code = np.unique(ids, return_inverse=True)
    share_valid = np.bincount(code, weights=good) / np.bincount(code)
    unclear = np.flatnonzero((share_valid > 0) & (share_valid < 1))
    if unclear.size:
        raise CalibrationError(f"pair {str(names[unclear[0]])!r} is valid in one exposure and invalid in another")
    ever = np.bincount(code, weights=hit) > 0
    return PooledRisk(
        hit_bounds(int((hit & ~good).sum()), int(hit.sum()), confidence),
        hit_bounds(int((ever & (share_valid == 0)).sum()), int(ever.sum()), confidence),
    )


def at_prevalence(accepted: ArrayLike, valid: ArrayLike, prevalence: ArrayLike) -> PrevalenceRates:
    """Reweight valid and invalid exposures to other shares of invalid candidates than the pool's.

    What is returned of valid and what of invalid candidates stays as measured; only their mixture changes.

    Args:
        accepted, valid: as for `pooled_risk`.
        prevalence: shares of invalid candidates, fractions.

    Raises:
        CalibrationError: no valid or no invalid exposure, whose rate is then unknown.
        ValueError: a share outside 0 to 1, and as for `pooled_risk`.
    """
    hit, good = flags("accepted", accepted), flags("valid", valid)
    check_lengths(accepted=hit, valid=good)
    shares = np.atleast_1d(np.asarray(prevalence, dtype=np.float64))
    if not ((shares >= 0) & (shares <= 1)).all():
        raise ValueError("a prevalence is outside 0 to 1")
    if good.all() or not good.any():
        kind = "invalid" if good.all() else "valid"
        raise CalibrationError(f"valid: no exposure is {kind}; reweighting needs some of both")
    wrong, right = shares * hit[~good].mean(), (1 - shares) * hit[good].mean()
    hits = wrong + right
    return PrevalenceRates(shares, right, np.divide(wrong, hits, out=np.zeros_like(hits), where=hits > 0))
