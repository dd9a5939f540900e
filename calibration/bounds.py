"""One-sided upper bounds of a rate of errors: Wilson's score bound (paper table 7) and the exact binomial bound."""

from typing import overload

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import beta
from statsmodels.stats.proportion import proportion_confint

CONFIDENCE = 0.95


@overload
def wilson_upper(k: int, n: int, confidence: float = ...) -> float: ...
@overload
def wilson_upper(k: ArrayLike, n: ArrayLike, confidence: float = ...) -> NDArray[np.float64]: ...
def wilson_upper(k: ArrayLike, n: ArrayLike, confidence: float = CONFIDENCE) -> float | NDArray[np.float64]:
    """Return Wilson's one-sided upper bound of a proportion, as a fraction.

    Args:
        k: errors, an integer or an array of them.
        n: trials; `k` and `n` are broadcast. Nothing is known of no trials: their bound is 1.
        confidence: one-sided, from 0.5 up to below 1.

    Raises:
        ValueError: counts that are not whole numbers with ``0 <= k <= n``, or another confidence.
    """
    errors, trials = _counts(k, n, confidence)
    tried = np.maximum(trials, 1)
    upper = proportion_confint(errors, tried, alpha=2 * (1 - confidence), method="wilson")[1]
    # Rounding may put a bound of exactly the rate, or of 1, on its wrong side.
    bound: NDArray[np.float64] = np.where(trials > 0, np.clip(upper, errors / tried, 1.0), 1.0)[()]
    return bound


@overload
def exact_upper(k: int, n: int, confidence: float = ...) -> float: ...
@overload
def exact_upper(k: ArrayLike, n: ArrayLike, confidence: float = ...) -> NDArray[np.float64]: ...
def exact_upper(k: ArrayLike, n: ArrayLike, confidence: float = CONFIDENCE) -> float | NDArray[np.float64]:
    """Return the one-sided upper bound of Clopper and Pearson: the largest rate not rejected by an exact test.

    Args and errors are those of `wilson_upper`; no trials, and nothing but errors, give 1.
    """
    errors, trials = _counts(k, n, confidence)
    right = trials - errors
    bound: NDArray[np.float64] = np.where(right > 0, beta.ppf(confidence, errors + 1, np.maximum(right, 1)), 1.0)[()]
    return bound


def _counts(k: ArrayLike, n: ArrayLike, confidence: float) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    if not 0.5 <= confidence < 1:
        raise ValueError(f"confidence {confidence} is outside 0.5 to 1")
    errors, trials = np.broadcast_arrays(np.asarray(k), np.asarray(n))
    fits = (errors >= 0) & (errors <= trials) & (errors == np.floor(errors)) & (trials == np.floor(trials))
    if not fits.all():
        at = np.flatnonzero(~fits.ravel())[0]
        raise ValueError(f"{errors.ravel()[at]} errors of {trials.ravel()[at]} are not a proportion")
    return errors.astype(np.int64), trials.astype(np.int64)
