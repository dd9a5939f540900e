"""Certified selection on clustered data of known risk: how often it errs, and how often it certifies."""

from collections.abc import Sequence
from math import sqrt
from typing import NamedTuple

import numpy as np
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
_REGENERATED, _DIRECT, _VERIFIED = range(3)


class SimulationRow(NamedTuple):
    """One method on one kind of data.

    Attributes:
        method: one of `METHODS`.
        alpha, delta: what was to be certified; delta is None for risk control.
        risk: true risk of the policy; None for risk control, which chooses its own.
        n_clusters, replicates: calibration clusters of each data set, and data sets.
        certified: share of data sets with a certified policy; where the risk is above `alpha`, each is a violation.
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


def simulate(
    *,
    alphas: Sequence[float] = ALPHAS,
    delta: float = DELTA,
    n_clusters: int = N_CLUSTERS,
    replicates: int = REPLICATES,
    seed: int = SEED,
) -> list[SimulationRow]:
    """Run every method on beta-binomial clusters with a risk just above, and a quarter of, each alpha.

    Clusters have 1 to 8 pairs, each number equally often; e-values use at most `MAX_PAIRS` of them. Their bets are
    fixed on three times as many development clusters, which always have the low risk: a bet that is too high may cost
    certificates, but no violations.

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
                certified = float(fixed_sequence(values[:, None], delta).mean())
                error = sqrt(delta * (1 - delta) / replicates)
                rows.append(SimulationRow(method, alpha, delta, risk, n_clusters, replicates, certified, error, None))
        rows.append(_risk_control(rng, alpha, n_clusters, replicates))
    return rows


def _p_values(
    rng: np.random.Generator, alpha: float, risk: float, n_clusters: int, replicates: int
) -> dict[str, NDArray[np.float64]]:
    """Return the p-value of each data set by method, shape ``[replicates]``.

    Every statistic is a count of clusters by kind: the counts are drawn at once, from the kinds' probabilities.
    """
    kinds, chances = _kinds(risk)
    route, wrong, hits, invalid = kinds.T
    counts = rng.multinomial(n_clusters, chances, size=replicates)

    def p_of_drawn(of_kind: NDArray[np.bool_]) -> NDArray[np.float64]:
        return binomial_p(counts[:, of_kind & (wrong == 1)].sum(axis=1), counts[:, of_kind].sum(axis=1), alpha)

    def table(counted: NDArray[np.int64]) -> NDArray[np.int64]:
        found = np.zeros((MAX_PAIRS + 1, MAX_PAIRS + 1, replicates), dtype=np.int64)
        np.add.at(found, (hits, invalid), counted.T)
        return np.moveaxis(found, 2, 0)

    dev_chances = _kinds(RISK_FACTORS[-1] * alpha)[1]
    bets = best_bets(table(rng.multinomial(_DEV_CLUSTERS * n_clusters, dev_chances, size=replicates)), alpha)
    log_e = log_e_values(table(counts), bets[:, None], alpha)[:, 0]
    return {
        DIRECT_ONLY: p_of_drawn(route != _REGENERATED),
        BOTH_KINDS: np.maximum(p_of_drawn(route == _DIRECT), p_of_drawn(route == _VERIFIED)),
        E_VALUES: np.exp(np.minimum(-log_e, 0.0)),
    }


def _kinds(risk: float) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return all kinds of cluster, shape ``[kinds, 4]``, and their probabilities.

    A kind is the route of the pair drawn, whether that pair is a wrong hit, and hits and invalid hits of the cluster.
    """
    spread = (1 - CORRELATION) / CORRELATION
    kinds, chances = [], []
    for size in range(1, MAX_PAIRS + 1):
        others = size - 1
        of_size = (1 if size < MAX_PAIRS else _LARGEST - others) / _LARGEST
        for route, share in enumerate((1 - DIRECT - VERIFIED, DIRECT, VERIFIED)):
            for more in range(others + 1):
                hits = more + (route != _REGENERATED)
                of_hits = of_size * share * binom.pmf(more, others, DIRECT + VERIFIED)
                for invalid in range(hits + 1):
                    chance = of_hits * betabinom.pmf(invalid, hits, risk * spread, (1 - risk) * spread)
                    # Pairs of a cluster are exchangeable: of its hits, the one drawn is wrong in invalid of hits cases.
                    wrong = invalid / hits if route != _REGENERATED else 0.0
                    kinds += [(route, 0, hits, invalid), (route, 1, hits, invalid)]
                    chances += [chance * (1 - wrong), chance * wrong]
    return np.array(kinds), np.array(chances)


def _risk_control(rng: np.random.Generator, alpha: float, n_clusters: int, replicates: int) -> SimulationRow:
    """Choose on a path of thresholds t; valid pairs score uniformly, invalid ones at most t with probability t^2."""
    spread = (1 - CORRELATION) / CORRELATION
    rate = rng.beta(INVALID * spread, (1 - INVALID) * spread, size=(replicates, n_clusters))
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
