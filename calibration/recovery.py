"""How much of the clean answer a repair brings back (edit paper, "What counts as repaired")."""

from typing import NamedTuple, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import rel_entr

from cachemend.calibration.intervals import (
    REPLICATES,
    Interval,
    bootstrap_mean,
    finite_values,
    resamples,
    wilson_interval,
)

_SUM_TOLERANCE = 1e-3


class RecoverySummary(NamedTuple):
    """Margin recovery over items.

    Attributes:
        mean, low, high: mean with its 95 % percentile bootstrap interval over items.
        median: less moved than the mean by items whose gap is small.
        ratio_of_means, ratio_low, ratio_high: mean gain over mean gap, items resampled jointly; ends are NaN
            when the mean gap of a replicate is 0.
        n: items with a gap between the stale and the clean margin; all of the above is over them.
    """

    mean: float
    low: float
    high: float
    median: float
    ratio_of_means: float
    ratio_low: float
    ratio_high: float
    n: int


@overload
def margin_recovery(margin: float, stale: float, clean: float) -> float: ...
@overload
def margin_recovery(margin: ArrayLike, stale: ArrayLike, clean: ArrayLike) -> NDArray[np.float64]: ...
def margin_recovery(margin: ArrayLike, stale: ArrayLike, clean: ArrayLike) -> NDArray[np.float64] | float:
    """Return ``(margin - stale) / (clean - stale)``, unclipped (edit paper, equation 2).

    0 is the stale cache, 1 the clean one.

    Args:
        margin, stale, clean: log-probability per token of the new answer less that of the old, nats, under the
            repaired, the stale and the clean cache; shapes that broadcast.

    Returns:
        The common shape, a float for three numbers; NaN where the clean margin equals the stale one.

    Raises:
        ValueError: a margin that is not finite.
    """
    m, s, c = (_finite(name, x) for name, x in (("margin", margin), ("stale", stale), ("clean", clean)))
    return _ratio(m - s, c - s)


def kl_divergence(p: ArrayLike, q: ArrayLike) -> NDArray[np.float64] | float:
    """Return KL(p || q) in nats over the last axis; exactly 0 for equal distributions.

    What p holds to be impossible adds nothing; what only q holds to be impossible makes it infinite.

    Args:
        p, q: probabilities, shape ``[..., v]``; rounding of their sums is divided out.

    Raises:
        ValueError: shapes that differ, a negative or undefined probability, or a sum off 1 by more than 0.001.
    """
    left, right = _distribution("p", p), _distribution("q", q)
    if left.shape != right.shape:
        raise ValueError(f"p has shape {left.shape} and q has {right.shape}; both must cover the same vocabulary")
    # Never negative in exact arithmetic; rounding may put nearly equal ones a hair below.
    return np.maximum(rel_entr(left, right).sum(axis=-1), 0.0)[()]


def kl_recovery(kl_repaired: ArrayLike, kl_stale: ArrayLike) -> NDArray[np.float64] | float:
    """Return ``1 - KL(repaired || clean) / KL(stale || clean)``, unclipped.

    Args:
        kl_repaired, kl_stale: `kl_divergence` from the clean cache's next-token distribution, nats; shapes that
            broadcast.

    Returns:
        The common shape, a float for two numbers; NaN where the stale divergence is 0 or either is infinite.

    Raises:
        ValueError: a divergence that is negative or NaN.
    """
    repaired, stale = np.asarray(kl_repaired, dtype=np.float64), np.asarray(kl_stale, dtype=np.float64)
    for name, x in (("kl_repaired", repaired), ("kl_stale", stale)):
        if not (x >= 0).all():
            raise ValueError(f"{name} holds a value that is negative or undefined; a divergence is at least 0")
    defined = np.isfinite(repaired) & np.isfinite(stale)
    return 1 - _ratio(np.where(defined, repaired, np.nan), np.where(defined, stale, np.nan))


def summarise_recovery(margins: ArrayLike, stale: ArrayLike, clean: ArrayLike) -> RecoverySummary:
    """Summarise the margin recovery of one arm over items.

    The order of the items does not matter: they are sorted before they are resampled.

    Args:
        margins, stale, clean: as for `margin_recovery`, shape ``[n]``, the same item at the same place.

    Raises:
        ValueError: no items, lengths that differ, a margin that is not finite, or no item with a gap.
    """
    m, s, c = (finite_values(name, x) for name, x in (("margins", margins), ("stale", stale), ("clean", clean)))
    if not len(m) == len(s) == len(c):
        raise ValueError(f"{len(m)} margins, {len(s)} stale and {len(c)} clean ones; each item needs all three")
    gain, gap = (m - s)[c != s], (c - s)[c != s]
    if not len(gap):
        raise ValueError(f"none of the {len(m)} items has a gap between its stale and its clean margin")
    recovery = gain / gap
    order = np.lexsort((gap, recovery))
    recovery, gain, gap = recovery[order], gain[order], gap[order]
    mean = bootstrap_mean(recovery)
    ratio = _ratio_of_means(gain, gap)
    return RecoverySummary(*mean[:3], float(np.median(recovery)), *ratio[:3], mean.n)


def flip_rate(flips: ArrayLike) -> Interval:
    """Return the share of items whose answer shows only the new value, with Wilson's interval (edit paper, equation 3).

    Raises:
        ValueError: no items, or a flip other than 0 and 1.
    """
    values = finite_values("flips", flips)
    if not np.isin(values, (0, 1)).all():
        raise ValueError("flips must be 0 or 1; leave items without an answer out before")
    return wilson_interval(int(values.sum()), len(values))


def _ratio_of_means(gain: NDArray[np.float64], gap: NDArray[np.float64]) -> Interval:
    replicates = np.empty(REPLICATES)
    for block, drawn in resamples(len(gap)):
        replicates[block] = _ratio(gain[drawn].sum(axis=1), gap[drawn].sum(axis=1))
    low, high = np.percentile(replicates, [2.5, 97.5], method="linear")
    return Interval(float(_ratio(gain.sum(), gap.sum())), float(low), float(high), len(gap))


def _ratio(numerator: NDArray[np.float64], denominator: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the quotient, NaN where the denominator is 0; a scalar for two scalars."""
    top, bottom = np.broadcast_arrays(numerator, denominator)
    return np.divide(top, bottom, out=np.full(bottom.shape, np.nan), where=bottom != 0)[()]


def _finite(name: str, values: ArrayLike) -> NDArray[np.float64]:
    array = np.asarray(values, dtype=np.float64)
    if not np.isfinite(array).all():
        raise ValueError(f"{name} holds a value that is not finite; leave items without a margin out before")
    return array


def _distribution(name: str, values: ArrayLike) -> NDArray[np.float64]:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim == 0 or not (array >= 0).all():
        raise ValueError(f"{name} must hold probabilities of at least 0 along its last axis")
    total = array.sum(axis=-1, keepdims=True)
    if not (np.abs(total - 1) <= _SUM_TOLERANCE).all():
        raise ValueError(f"{name} does not sum to 1 over its last axis")
    return array / total
