"""vCache's online policy: each cached entry learns its own threshold (Schroeder et al. 2025, arXiv:2502.03771).

For an entry with observations (similarity, correct), the probability that its response is correct at similarity s is
``L(s) = 1 / (1 + exp(-g (s - t)))`` with t and g fitted by maximum likelihood. A request is answered from the cache
with probability ``1 - tau``; otherwise the response is generated, compared with the cached one, and observed. To err
with probability at most delta, ``tau = 1 - delta / (1 - a)`` is enough where a is a lower bound of the probability of
being correct; it is taken as ``(1 - e) L(s; t')`` with t' the upper ``1 - e`` quantile of the estimate of t, and tau
as the least one over a grid of e.
"""

from math import inf
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from scipy.stats import norm

from cachemend.calibration.baselines.evidence import Decisions, Evidence, Flags, Floats

DELTA = 0.01
SEED = 20_260_928
LEAST = 6
"""Observations below which an entry always explores, the two anchors included."""

_ANCHORS = ((0.0, 0.0), (1.0, 1.0))
LEAST_COMPARISONS = LEAST - len(_ANCHORS)
"""Explorations of an entry before it can answer from the cache at all."""

_EPSILONS = np.linspace(1e-6, 1 - 1e-6, 50)
_QUANTILES = norm.ppf(1 - _EPSILONS)
# The released code tabulates the variance of t for separable observations: .035 for 6, .019 for 10, .009 for 15,
# .013 for 20, .008 for 30, .005 for 40. This is its trend.
_SEPARABLE_VARIANCE = 0.21


class OnlineReplay(NamedTuple):
    """A replay of the online policy.

    Attributes:
        accepted: answered from the cache, bool ``[n]``.
        explored: generated, and compared with the cached response, bool ``[n]``.
        entries: the entries, sorted, shape ``[m]``.
        observations: comparisons made for each of them, shape ``[m]``.
    """

    accepted: Flags
    explored: Flags
    entries: NDArray[np.intp]
    observations: NDArray[np.intp]


class _Fit(NamedTuple):
    """The threshold t of an entry, its variance, and the slope g."""

    t: float
    variance: float
    slope: float


def vcache_online(evidence: Evidence) -> Decisions:
    """Replay the online policy; each exploration asks a language model whether the two responses agree."""
    played = replay_online(evidence)
    return Decisions(played.accepted, played.explored, played.observations)


def replay_online(evidence: Evidence, *, delta: float = DELTA, seed: int = SEED) -> OnlineReplay:
    """Run through candidates in `order`, entry by entry learning from those that were regenerated.

    As in the released code, each entry starts with the observations (0, wrong) and (1, correct). Different from it:
    a wrong exploration adds no new entry, since each candidate names the entry it is offered; similarities are not
    rounded; and observations that a threshold separates have that threshold's step function as their likelihood,
    the limit that its optimiser approaches.

    Args:
        evidence: with similarity, order, entry and regenerated. An entry with few candidates explores throughout: the
            observations per entry say how much there was to learn from.
        delta: allowed probability of a wrong answer; 0.01 is the released default.
        seed: of the exploration.
    """
    similarity, entry = evidence.similarity, evidence.column("entry")
    regenerated = evidence.column("regenerated")
    chances = np.random.default_rng(seed).random(len(evidence))
    explored = np.zeros(len(evidence), dtype=bool)
    seen: dict[int, list[tuple[float, float]]] = {}
    fits: dict[int, _Fit] = {}
    for index in evidence.column("order").tolist():
        key = int(entry[index])
        observed = seen.setdefault(key, list(_ANCHORS))
        if len(observed) >= LEAST and key not in fits:
            fits[key] = _fitted(np.array(observed))
        tau = exploration(float(similarity[index]), fits[key], delta) if key in fits else 1.0
        explored[index] = chances[index] < tau
        if explored[index]:
            observed.append((float(similarity[index]), float(regenerated(index))))
            fits.pop(key, None)
    entries = np.array(sorted(seen), dtype=np.intp)
    counts = np.array([len(seen[key]) - len(_ANCHORS) for key in entries.tolist()], dtype=np.intp)
    return OnlineReplay(~explored, explored, entries, counts)


def exploration(similarity: float, fit: _Fit, delta: float) -> float:
    """Return tau, the probability to explore; 0 or less means never."""
    upper = np.clip(fit.t + _QUANTILES * np.sqrt(fit.variance), 0.0, 1.0)
    distance = similarity - upper
    likelihood = np.heaviside(distance, 0.5) if fit.slope == inf else expit(fit.slope * distance)
    return float(np.min(1 - delta / (1 - (1 - _EPSILONS) * likelihood)))


def _fitted(observed: Floats) -> _Fit:
    similarity, correct = observed.T
    wrong, right = similarity[correct == 0].max(), similarity[correct == 1].min()
    if wrong <= right:
        return _Fit((wrong + right) / 2, _SEPARABLE_VARIANCE / len(observed), inf)
    design = np.column_stack([np.ones_like(similarity), similarity])
    intercept, slope = weights = _logistic(design, correct)
    slope = max(slope, 1e-6)
    # Delta method for t = -intercept / slope.
    chance = expit(design @ weights)
    covariance = np.linalg.inv(design.T @ ((chance * (1 - chance))[:, None] * design))
    gradient = np.array([-1 / slope, intercept / slope**2])
    return _Fit(float(np.clip(-intercept / slope, 0, 1)), float(gradient @ covariance @ gradient), float(slope))


def _logistic(design: Floats, correct: Floats) -> NDArray[Any]:
    """Return the maximum-likelihood weights by Newton's method, halving steps that overshoot."""

    def loss(weights: Floats) -> float:
        score = design @ weights
        return float(np.sum(np.logaddexp(0, score) - correct * score))

    weights = np.zeros(design.shape[1])
    for _ in range(100):
        chance = expit(design @ weights)
        hessian = design.T @ ((chance * (1 - chance))[:, None] * design)
        step = np.linalg.solve(hessian, design.T @ (correct - chance))
        while loss(weights + step) > loss(weights) and np.abs(step).max() > 1e-12:
            step = step / 2
        weights = weights + step
        if np.abs(step).max() < 1e-9:
            break
    return weights
