"""Certified selection on clustered data of known risk: how often it errs, and how often it certifies."""

from collections.abc import Sequence
from itertools import combinations, product
from math import sqrt
from typing import NamedTuple

import numpy as np
from numpy.polynomial import Polynomial
from numpy.typing import NDArray
from scipy.stats import betabinom, binom

from cachemend.calibration.certified.advice import ALPHAS
from cachemend.calibration.certified.e_values import MAX_PAIRS, best_bets, log_e_values
from cachemend.calibration.certified.fixed_sequence import fixed_sequence
from cachemend.calibration.certified.learn_then_test import DELTA, binomial_p
from cachemend.calibration.certified.levels import check_levels
from cachemend.calibration.certified.risk_control import last_controlled, risk_bound
from cachemend.calibration.intervals import SEED

DIRECT_ONLY, BOTH_KINDS, E_VALUES, RISK_CONTROL = METHODS = (
    "learn-then-test, direct hits only",
    "learn-then-test, direct and verified hits",
    "e-values",
    "risk control",
)
REPLICATES = 2000
N_CLUSTERS = 400
# True risks as multiples of alpha: just too high, and far below.
RISK_FACTORS = (1.001, 0.25)
# Correlation of errors within a cluster.
CORRELATION = 0.3
# Shares of pairs returned directly and returned after the verifier; the rest is regenerated.
DIRECT, VERIFIED = 0.6, 0.3
# Share of invalid pairs on the threshold path of risk control, and steps of that path.
INVALID, STEPS = 0.48, 200
_DEV_CLUSTERS = 3
_LARGEST = 8
_NONE, _RIGHT, _WRONG = range(3)


class SimulationRow(NamedTuple):
    """One method on one kind of data.

    Attributes:
        method: one of `METHODS`.
        alpha, delta: what was to be certified; delta is None for risk control.
        risk: true risk of the policy; where it is above `alpha` and two kinds of hit are tested, that of one kind, the
            other having the low risk. None for risk control, which chooses its own.
        n_clusters, replicates: calibration clusters of each data set, and data sets.
        certified: share of data sets with a certified policy; where the risk is above `alpha`, each is a
            violation, and `certified` is that of the kind whose risk is more often missed.
        standard_error: of that share, were it delta; for risk control of `mean_risk`.
        mean_risk: true invalid returns per request of the policy chosen, mean over data sets, 0 for an abstention;
            None but for risk control.
    """

    method: str
    alpha: float
    delta: float | None
    risk: float | None
    n_clusters: int
    replicates: int
    certified: float
    standard_error: float
    mean_risk: float | None


class Need(NamedTuple):
    """What the test of one kind of hit needs.

    Attributes:
        hits: clusters that have one, on average.
        allowed: how many of the hits drawn may be invalid; -1 where they are too few for any certificate.
        chance: that no more are, at a quarter of the risk.
    """

    hits: int
    allowed: int
    chance: float


def simulate(
    *,
    alphas: Sequence[float] = ALPHAS,
    delta: float = DELTA,
    n_clusters: int = N_CLUSTERS,
    replicates: int = REPLICATES,
    seed: int = SEED,
) -> list[SimulationRow]:
    """Run every method on beta-binomial clusters with a risk just above, and a quarter of, each alpha.

    Clusters have 1 to 8 pairs, each number equally often; a test draws one hit of each kind from a cluster, e-values
    use at most `MAX_PAIRS` of its pairs. Their bets are fixed on three times as many development clusters, which always
    have the low risk: a bet that is too high may cost certificates, but no violations.

    Args:
        alphas: risks to certify, above 0.
        delta: error level.
        n_clusters: clusters of each data set.
        replicates: data sets of each row.
        seed: seed of NumPy's default generator.

    Raises:
        ValueError: levels out of range, no clusters or no replicates.
    """
    if n_clusters < 1 or replicates < 1:
        raise ValueError(f"{n_clusters} clusters and {replicates} replicates; give at least 1 of each")
    rng = np.random.default_rng(seed)
    rows = []
    for alpha in alphas:
        check_levels(alpha, delta)
        if alpha == 0:
            raise ValueError("alpha is 0, which can never be certified; give risks above 0")
        for factor in RISK_FACTORS:
            risk = factor * alpha
            p = _p_values(rng, alpha, risk, n_clusters, replicates)
            for method, values in p.items():
                certified = max(float(fixed_sequence(way[:, None], delta).mean()) for way in values)
                error = sqrt(delta * (1 - delta) / replicates)
                rows.append(SimulationRow(method, alpha, delta, risk, n_clusters, replicates, certified, error, None))
        rows.append(_risk_control(rng, alpha, n_clusters, replicates))
    return rows


def needs(alpha: float, *, delta: float = DELTA, n_clusters: int = N_CLUSTERS) -> tuple[Need, Need]:
    """Return what the tests of direct and of verified hits come to on average, at a quarter of the risk.

    Args:
        alpha: risk to certify, above 0.
        delta: error level.
        n_clusters: clusters of a data set.
    """
    low = RISK_FACTORS[-1] * alpha
    outcomes, chances = _drawn((low, low), (DIRECT, VERIFIED))
    found = []
    for hits in np.rint(n_clusters * chances @ (outcomes != _NONE)).astype(int).tolist():
        allowed = int((binomial_p(np.arange(hits + 1), hits, alpha) <= delta).sum()) - 1
        found.append(Need(hits, allowed, float(binom.cdf(allowed, hits, low))))
    return found[0], found[1]


def _p_values(
    rng: np.random.Generator, alpha: float, risk: float, n_clusters: int, replicates: int
) -> dict[str, list[NDArray[np.float64]]]:
    """Return the p-value of each data set by method, shape ``[replicates]``, for each way of having the risk.

    Kinds of hit that are tested apart are each too risky in turn, with the other far below: were both too risky, both
    tests had to err at once, which hides a wrong level. Every statistic is a count of clusters by
    kind: the counts are drawn at once, from the kinds' probabilities.
    """
    low = RISK_FACTORS[-1] * alpha
    ways = [(risk, low), (low, risk)] if risk > alpha else [(risk, risk)]

    def p_of_drawn(risks: Sequence[float], shares: Sequence[float]) -> NDArray[np.float64]:
        outcomes, chances = _drawn(risks, shares)
        counts = rng.multinomial(n_clusters, chances, size=replicates)
        return binomial_p(counts @ (outcomes == _WRONG), counts @ (outcomes != _NONE), alpha).max(axis=1)

    def table(clusters: int, of_risk: float) -> NDArray[np.int64]:
        cells = _cells(of_risk)
        return rng.multinomial(clusters, cells.ravel(), size=replicates).reshape(replicates, *cells.shape)

    bets = best_bets(table(_DEV_CLUSTERS * n_clusters, low), alpha)
    log_e = log_e_values(table(n_clusters, risk), bets[:, None], alpha)[:, 0]
    return {
        DIRECT_ONLY: [p_of_drawn((risk,), (DIRECT + VERIFIED,))],
        BOTH_KINDS: [p_of_drawn(risks, (DIRECT, VERIFIED)) for risks in ways],
        E_VALUES: [np.exp(np.minimum(-log_e, 0.0))],
    }


def _drawn(risks: Sequence[float], shares: Sequence[float]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return what can become of the first hit of each kind in a cluster, ``[outcomes, kinds]``, and the probabilities.

    Args:
        risks: of each kind; in every cluster they stand in the same proportion.
        shares: of pairs that are hits of each kind.
    """
    sizes = np.arange(1, _LARGEST + 1)
    outcomes = list(product((_NONE, _RIGHT, _WRONG), repeat=len(shares)))
    chances = []
    for outcome in outcomes:
        there = [share for share, drawn in zip(shares, outcome, strict=True) if drawn != _NONE]
        never = sum(shares) - sum(there)
        # No pair of the kinds that are absent and one at least of each that is there, by inclusion and exclusion.
        seen = sum(
            (-1) ** n * ((1 - never - sum(left)) ** sizes).mean()
            for n in range(len(there) + 1)
            for left in combinations(there, n)
        )
        chances.append(seen * _mean_chance(outcome, risks))
    return np.array(outcomes), np.array(chances)


def _mean_chance(outcome: Sequence[int], risks: Sequence[float]) -> float:
    """Return the mean over clusters of the probability that the hits there are right and wrong as in `outcome`."""
    largest = max(risks)
    chance = Polynomial([1.0])  # of the cluster's largest risk
    for drawn, risk in zip(outcome, risks, strict=True):
        wrong = Polynomial([0.0, risk / largest])
        chance *= {_NONE: Polynomial([1.0]), _WRONG: wrong, _RIGHT: 1 - wrong}[drawn]
    a, b = _beta(largest)
    moments = np.cumprod([1.0, *((a + order) / (a + b + order) for order in range(chance.degree()))])
    return float(np.dot(np.asarray(chance.coef, dtype=np.float64), moments))


def _cells(risk: float) -> NDArray[np.float64]:
    """Return the probability of each number of hits and invalid hits of a cluster that count for an e-value."""
    cells = np.zeros((MAX_PAIRS + 1, MAX_PAIRS + 1))
    for size in range(1, _LARGEST + 1):
        counted = min(size, MAX_PAIRS)
        for hits in range(counted + 1):
            chance = binom.pmf(hits, counted, DIRECT + VERIFIED) / _LARGEST
            cells[hits, : hits + 1] += chance * betabinom.pmf(np.arange(hits + 1), hits, *_beta(risk))
    return cells


def _beta(risk: float) -> tuple[float, float]:
    """Return the parameters of the clusters' own risks."""
    spread = (1 - CORRELATION) / CORRELATION
    return risk * spread, (1 - risk) * spread


def _risk_control(rng: np.random.Generator, alpha: float, n_clusters: int, replicates: int) -> SimulationRow:
    """Choose on a path of thresholds t; valid pairs score uniformly, invalid ones at most t with probability t^2."""
    rate = rng.beta(*_beta(INVALID), size=(replicates, n_clusters))
    size = rng.integers(1, _LARGEST + 1, size=rate.shape)
    invalid = rng.binomial(size, rate).ravel()
    step = (np.sqrt(rng.random(invalid.sum())) * STEPS).astype(np.intp)
    data_set = np.repeat(np.arange(replicates), n_clusters)
    weight = np.repeat(1 / (size * n_clusters).ravel(), invalid)
    added = np.bincount(np.repeat(data_set, invalid) * STEPS + step, weights=weight, minlength=STEPS * replicates)
    loss = added.reshape(replicates, STEPS).cumsum(axis=1)
    chosen = last_controlled(risk_bound(loss, n_clusters), alpha)
    risk = INVALID * ((chosen + 1) / STEPS) ** 2
    error = float(risk.std(ddof=1) / sqrt(replicates)) if replicates > 1 else float("nan")
    return SimulationRow(
        RISK_CONTROL, alpha, None, None, n_clusters, replicates, float((chosen >= 0).mean()), error, float(risk.mean())
    )
