"""Intervals: percentile bootstrap over sources (paper section 8.3) and Wilson's score interval."""

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from statsmodels.stats.proportion import proportion_confint

REPLICATES = 10_000
SEED = 20260928
_DRAWS_AT_ONCE = 4_000_000


class Interval(NamedTuple):
    """A point estimate, its interval's ends and the number of values behind it."""

    point: float
    low: float
    high: float
    n: int


def bootstrap_mean(x: ArrayLike, replicates: int = REPLICATES, seed: int = SEED) -> Interval:
    """Return the mean of `x` (shape ``[n]``) with its 95 % percentile bootstrap interval.

    Raises:
        ValueError: no values, a value that is not finite, or not one dimension.
    """
    values = finite_values("x", x)
    return paired_bootstrap(values, np.zeros_like(values), replicates=replicates, seed=seed)


def paired_bootstrap(
    a: ArrayLike,
    b: ArrayLike,
    strata: ArrayLike | None = None,
    sources: ArrayLike | None = None,
    *,
    replicates: int = REPLICATES,
    seed: int = SEED,
) -> Interval:
    """Return the mean of ``a - b`` with its stratified, source-paired 95 % bootstrap interval (section 8.3).

    Every replicate draws, inside each stratum, as many sources as the stratum has, with replacement, and
    carries all values of every drawn source. Ends are the linearly interpolated 2.5th and 97.5th percentiles.

    Args:
        a, b: paired values, shape ``[n]``; the unit of the result is theirs.
        strata: the stratum (dataset) of each pair; None for one stratum.
        sources: the source of each pair, within its stratum; None when each pair is a source of its own.
        replicates: number of bootstrap replicates.
        seed: seed of NumPy's default generator.

    Raises:
        ValueError: no pairs, lengths that differ, a value that is not finite, or no replicates.
    """
    left, right = finite_values("a", a), finite_values("b", b)
    n = len(left)
    stratum = _labels("strata", strata, n, np.zeros(n, dtype=int))
    source = _labels("sources", sources, n, np.arange(n))
    if len(right) != n:
        raise ValueError(f"a has {n} values and b has {len(right)}; pairs need equal lengths")
    if replicates < 1:
        raise ValueError(f"replicates {replicates} is below 1")
    difference = left - right
    rng = np.random.default_rng(seed)
    totals, counts = np.zeros(replicates), np.zeros(replicates)
    n_strata = stratum.max() + 1
    for key in range(n_strata):
        inside = stratum == key
        _, member = np.unique(source[inside], return_inverse=True)
        sums = np.bincount(member, weights=difference[inside])
        sizes = np.bincount(member).astype(float)
        n_sources = len(sums)
        draws = resamples(n_sources, replicates, seed) if n_strata == 1 else _in_blocks(rng, n_sources, replicates)
        for block, drawn in draws:
            totals[block] += sums[drawn].sum(axis=1)
            counts[block] += n_sources if (sizes == 1).all() else sizes[drawn].sum(axis=1)
    low, high = np.percentile(totals / counts, [2.5, 97.5], method="linear")
    return Interval(float(difference.mean()), float(low), float(high), n)


def wilson_interval(successes: int, n: int, confidence: float = 0.95) -> Interval:
    """Return a proportion as a fraction with its two-sided Wilson score interval.

    Raises:
        ValueError: counts that are not ``0 <= successes <= n``, ``n >= 1``; a confidence outside (0, 1).
    """
    if not 0 <= successes <= n or n < 1:
        raise ValueError(f"{successes} successes of {n} are not a proportion")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence {confidence} is outside 0 to 1")
    low, high = proportion_confint(successes, n, alpha=1 - confidence, method="wilson")
    point = successes / n
    # Rounding may put an end of exactly 0 or 1 on the wrong side of the point.
    return Interval(point, min(max(float(low), 0.0), point), max(min(float(high), 1.0), point), n)


def resamples(n: int, replicates: int = REPLICATES, seed: int = SEED) -> Iterator[tuple[slice, NDArray[np.intp]]]:
    """Yield which of `n` values each replicate of one stratum draws.

    Yields:
        the replicates as a slice of ``range(replicates)`` and their draws, shape ``[len(slice), n]``.
    """
    if replicates * n <= _DRAWS_AT_ONCE:
        yield slice(0, replicates), _drawn_once(n, replicates, seed)
    else:
        yield from _in_blocks(np.random.default_rng(seed), n, replicates)


@lru_cache(maxsize=4)
def _drawn_once(n: int, replicates: int, seed: int) -> NDArray[np.intp]:
    """Draw what `_in_blocks` would; remembered, since tables of many arms resample equally many items each time."""
    drawn = np.random.default_rng(seed).integers(0, n, size=(replicates, n))
    drawn.flags.writeable = False
    return drawn


def _in_blocks(rng: np.random.Generator, n: int, replicates: int) -> Iterator[tuple[slice, NDArray[np.intp]]]:
    """Draw the next `replicates` rows of `n` values, as many at once as memory allows."""
    rows = max(1, _DRAWS_AT_ONCE // n)
    for start in range(0, replicates, rows):
        stop = min(start + rows, replicates)
        yield slice(start, stop), rng.integers(0, n, size=(stop - start, n))


def finite_values(name: str, values: ArrayLike) -> NDArray[np.float64]:
    """Return `values` as FP64, shape ``[n]``.

    Raises:
        ValueError: no values, a value that is not finite, or not one dimension.
    """
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or array.size == 0:
        raise ValueError(f"{name} has shape {array.shape}; it must be one-dimensional and not empty")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} holds a value that is not finite; leave undefined pairs out before")
    return array


def _labels(name: str, labels: ArrayLike | None, n: int, default: NDArray[Any]) -> NDArray[np.intp]:
    """Return labels as consecutive integers in their sorted order."""
    array = default if labels is None else np.asarray(labels)
    if array.shape != (n,):
        raise ValueError(f"{name} has shape {array.shape}; it must label each of the {n} pairs")
    _, codes = np.unique(array, return_inverse=True)
    return codes
