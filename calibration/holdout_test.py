"""Tests over repeated, overlapping splits: the corrected t of Nadeau and Bengio (paper appendix G, table 10)."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import t as student

from cachemend.calibration.intervals import finite_values

SUPERIORITY, NON_INFERIORITY = CLAIMS = ("superiority", "non-inferiority")
MARGIN = 0.01
_NO_SPREAD = 1e-12


class SplitRates(NamedTuple):
    """Rates of each split, as fractions, shape ``[splits]``; macro figures are their means.

    Attributes:
        vchr: valid hits per exposure.
        fh: invalid hits per hit; 0 in a split without hits.
        n_without_hits: splits whose false-hit rate is that 0.
    """

    vchr: NDArray[np.float64]
    fh: NDArray[np.float64]
    n_without_hits: int


class HoldoutTest(NamedTuple):
    """One corrected test of a mean difference over splits.

    Attributes:
        mean: of the differences.
        standard_error: corrected for the overlap of the training subsets.
        t, df: the statistic (NaN without spread) and its degrees of freedom.
        p: one-sided.
        no_spread: all splits differ by the same amount, so that there is no error to judge the mean by; p is then 1.
    """

    mean: float
    standard_error: float
    t: float
    df: int
    p: float
    no_spread: bool


class JointTest(NamedTuple):
    """A claim on valid hits together with fewer false hits; `p` is the larger of the two, hence of level 5 % at .05."""

    claim: str
    vchr: HoldoutTest
    fh: HoldoutTest
    p: float


def split_rates(valid_hits: ArrayLike, invalid_hits: ArrayLike, exposures: ArrayLike) -> SplitRates:
    """Return the rates of each split from its counts, all of shape ``[splits]``.

    Raises:
        ValueError: no splits, lengths that differ, a split without exposures or with more hits than exposures.
    """
    right, wrong = finite_values("valid_hits", valid_hits), finite_values("invalid_hits", invalid_hits)
    n = finite_values("exposures", exposures)
    if not len(right) == len(wrong) == len(n):
        raise ValueError(f"counts of {len(right)}, {len(wrong)} and {len(n)} splits are given; give one of each split")
    hits = right + wrong
    if (right < 0).any() or (wrong < 0).any() or (n <= 0).any() or (hits > n).any():
        raise ValueError("a split has no exposures, or a number of hits that is negative or above its exposures")
    fh = np.divide(wrong, hits, out=np.zeros_like(hits), where=hits > 0)
    return SplitRates(right / n, fh, int((hits == 0).sum()))


def corrected_holdout_test(
    difference: ArrayLike, *, n_train: ArrayLike, n_test: ArrayLike, null: float = 0.0, alternative: str = "greater"
) -> HoldoutTest:
    """Test whether the mean of a per-split difference is above (or below) `null`.

    ``t = (mean - null) / sqrt((1/J + n_test/n_train) * s^2)`` with ``J - 1`` degrees of freedom: repeated splits share
    rows, and the plain ``s^2 / J`` would be far too small.

    Args:
        difference: one value per split, shape ``[J]``.
        n_train: clusters a split trains on (dev and cal together), a number or shape ``[J]``.
        n_test: clusters a split is tested on.
        null: the value to beat.
        alternative: "greater" or "less".

    Raises:
        ValueError: fewer than two splits, values that are not finite, no clusters, or another alternative.
    """
    values = finite_values("difference", difference)
    n = len(values)
    if n < 2:
        raise ValueError(f"{n} split has no spread; give at least two")
    if alternative not in ("greater", "less"):
        raise ValueError(f"alternative {alternative!r} is neither 'greater' nor 'less'")
    train, test = (float(np.asarray(count, dtype=np.float64).mean()) for count in (n_train, n_test))
    if not (train > 0 and test > 0):
        raise ValueError(f"{train:g} training and {test:g} test clusters give no ratio")
    mean, df = float(values.mean()), n - 1
    # Equal differences may not be equal to the last bit.
    if np.ptp(values) <= _NO_SPREAD * max(1.0, float(np.abs(values).max())):
        return HoldoutTest(mean, 0.0, float("nan"), df, 1.0, True)
    error = float(np.sqrt((1 / n + test / train) * values.var(ddof=1)))
    t = (mean - null) / error
    return HoldoutTest(mean, error, t, df, float(student.sf(t if alternative == "greater" else -t, df)), False)


def choose_claim(calibration_difference: ArrayLike) -> str:
    """Return which claim to test, from the calibration subsets alone.

    Args:
        calibration_difference: valid-hit rate on calibration, method minus comparator, one per split.

    Returns:
        superiority where the mean is above 0, else non-inferiority.
    """
    mean = finite_values("calibration_difference", calibration_difference).mean()
    return SUPERIORITY if mean > 0 else NON_INFERIORITY


def joint_holdout_test(
    vchr_difference: ArrayLike,
    fh_difference: ArrayLike,
    *,
    n_train: ArrayLike,
    n_test: ArrayLike,
    claim: str,
    margin: float = MARGIN,
) -> JointTest:
    """Test a claim on valid hits together with a lower false-hit rate, method minus comparator.

    Args:
        vchr_difference, fh_difference: per split, as fractions, shape ``[J]``.
        n_train, n_test: clusters, as for `corrected_holdout_test`.
        claim: one of `CLAIMS`; see `choose_claim`.
        margin: how much lower the valid-hit rate may be under non-inferiority.

    Raises:
        ValueError: an unknown claim, lengths that differ, and as for `corrected_holdout_test`.
    """
    if claim not in CLAIMS:
        raise ValueError(f"claim {claim!r} is not one of {', '.join(CLAIMS)}")
    if np.shape(vchr_difference) != np.shape(fh_difference):
        raise ValueError(f"differences have shapes {np.shape(vchr_difference)} and {np.shape(fh_difference)}")
    null = 0.0 if claim == SUPERIORITY else -margin
    vchr = corrected_holdout_test(vchr_difference, n_train=n_train, n_test=n_test, null=null)
    fh = corrected_holdout_test(fh_difference, n_train=n_train, n_test=n_test, alternative="less")
    return JointTest(claim, vchr, fh, max(vchr.p, fh.p))
