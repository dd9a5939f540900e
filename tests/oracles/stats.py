"""Paired tests, bootstrap and distribution recovery by their definitions.

Total variation and NR_TV: equation (14), section 11. Percentile bootstrap (linear-interpolated 2.5 and
97.5, seed 20260928): section 8.3, whose transition counts (repaired, regressed) are the (b, c) of
McNemar's exact test. Holm's correction: section 10.
"""

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np


class Band(NamedTuple):
    """A mean with the ends of its 95 % percentile interval."""

    point: float
    low: float
    high: float


def mcnemar_exact_p(b: int, c: int) -> float:
    """Two-sided exact binomial p of b against c discordant pairs; 1 without any."""
    n = b + c
    tail = sum(Fraction(math.comb(n, k), 2**n) for k in range(min(b, c) + 1))
    return float(min(Fraction(1), 2 * tail))


def holm(ps: Sequence[float]) -> list[float]:
    """Return step-down adjusted p-values in the order given."""
    order = sorted(range(len(ps)), key=lambda k: ps[k])
    adjusted = [0.0] * len(ps)
    for rank, k in enumerate(order):
        adjusted[k] = max(min(1.0, (len(ps) - j) * ps[order[j]]) for j in range(rank + 1))
    return adjusted


def tv(p: Sequence[float], q: Sequence[float]) -> float:
    """Return half the summed absolute difference of two distributions over the same vocabulary."""
    return 0.5 * math.fsum(abs(float(a) - float(b)) for a, b in zip(p, q, strict=True))


def nr_tv(p_a: Sequence[float], p_clean: Sequence[float], p_dirty: Sequence[float]) -> float | None:
    """Return 1 - TV(p_a, p_clean) / TV(p_dirty, p_clean), unclipped; None where the denominator is 0."""
    denominator = tv(p_dirty, p_clean)
    return None if denominator == 0 else 1 - tv(p_a, p_clean) / denominator


def linear_percentile(values: Iterable[float], percent: float) -> float:
    """Return the percentile that interpolates linearly between order statistics at (n - 1) percent / 100."""
    ordered = sorted(float(v) for v in values)
    at = (len(ordered) - 1) * percent / 100
    below = math.floor(at)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (at - below) * (ordered[above] - ordered[below])


def percentile_bootstrap_mean(
    values: Sequence[float],
    replicates: int = 1000,
    seed: int = 20260928,
    draws: Iterable[Sequence[int]] | None = None,
) -> Band:
    """Resample values with replacement and return the mean with its 95 % percentile interval.

    draws: the index list of every replicate, in place of NumPy's default generator seeded with `seed`.
    """
    n = len(values)
    if draws is None:
        rng = np.random.default_rng(seed)
        draws = [rng.integers(0, n, size=n).tolist() for _ in range(replicates)]
    means = []
    for indices in draws:
        means.append(math.fsum(values[int(i)] for i in indices) / len(indices))
    return Band(math.fsum(values) / n, linear_percentile(means, 2.5), linear_percentile(means, 97.5))
