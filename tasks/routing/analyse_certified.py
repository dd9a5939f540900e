"""Certified selection on the same splits: what it accepts, how often it abstains, whether it keeps its level."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cachemend.calibration.certified.advice import ALPHAS, error_free_hits
from cachemend.calibration.certified.candidates import policies_to_test
from cachemend.calibration.certified.certification import Certification
from cachemend.calibration.certified.e_values import bet_on_dev, certify_by_e_values
from cachemend.calibration.certified.learn_then_test import DELTA, certify_by_binomial_tests
from cachemend.calibration.certified.risk_control import control_risk
from cachemend.calibration.routing.outcome import LOCAL_COST
from cachemend.calibration.routing.policy import NO_VERIFICATION, REGENERATE_ALL, Thresholds
from cachemend.calibration.routing.scores import RoutingScores, routing_scores
from cachemend.calibration.splits import Split
from cachemend.tasks.routing.pool import RoutedPool
from cachemend.tasks.routing.replaying import SAFECACHE, Point, Series, Served, SplitScores, played, split_scores

BUDGET = 0.30
RISK_CONTROL = "risk-control"
PROCEDURES = ("learn-then-test", "e-values", RISK_CONTROL)
_PATH = tuple(Thresholds(step / 100, 0.20, 0.90, *NO_VERIFICATION) for step in range(100, 69, -1))
"""Direct reuse alone, from the strictest similarity on: a nested family of one threshold."""


class Certified(NamedTuple):
    """A certified setting over all splits."""

    series: Series
    procedure: str
    alpha: float
    mean_clusters: float


class _Candidates(NamedTuple):
    """Policies in their order, and what they do with the development and calibration subsets."""

    policies: tuple[Thresholds, ...]
    regions: NDArray[np.bool_]
    dev: tuple[NDArray[np.bool_], NDArray[np.bool_]]
    cal: tuple[NDArray[np.bool_], NDArray[np.bool_]]


def replay_certified(
    pool: RoutedPool, splits: Sequence[Split], alphas: Sequence[float] = ALPHAS, *, own_guards: bool
) -> list[Certified]:
    """Certify on the calibration subset of every split at each alpha, and replay on its test subset."""
    made = {
        (procedure, alpha): Series(
            method=SAFECACHE,
            setting=f"{procedure} alpha={alpha:g} B={BUDGET:g}",
            # What bounds an expectation per request has no rate among the returned to keep to.
            point=None if procedure == RISK_CONTROL else Point(alpha, BUDGET),
            local_cost=LOCAL_COST,
        )
        for procedure in PROCEDURES
        for alpha in alphas
    }
    clusters = []
    for number, split in enumerate(splits):
        at = split_scores(pool, split, own_guards=own_guards)
        dev_scores = _dev_scores(at, own_guards)
        tried = _ordered(at, dev_scores)
        path = _paths(at, dev_scores)
        clusters.append(len(np.unique(at.cal.clusters.astype(str))))
        for alpha in alphas:
            for procedure in PROCEDURES:
                limits = _certified(procedure, at, tried, path, alpha)
                series = made[procedure, alpha]
                series.served.append(Served(*played(at.test, at.test_scores, limits, BUDGET)))
                if limits == REGENERATE_ALL:
                    series.abstained.append(number)
    return [
        Certified(series, procedure, alpha, float(np.mean(clusters))) for (procedure, alpha), series in made.items()
    ]


def _certified(procedure: str, at: SplitScores, tried: _Candidates, path: _Candidates, alpha: float) -> Thresholds:
    cal = at.cal
    names, ids = cal.clusters.astype(str), cal.keys.astype(str)
    if procedure == RISK_CONTROL:
        controlled = control_risk(path.cal[0], cal.valid, names, alpha=alpha)
        return REGENERATE_ALL if controlled.chosen is None else path.policies[controlled.chosen]
    if not tried.policies:
        return REGENERATE_ALL
    found: Certification
    if procedure == "learn-then-test":
        found = certify_by_binomial_tests(*tried.cal, cal.valid, names, ids, alpha=alpha, regions=tried.regions)
    else:
        dev = at.dev
        bets = bet_on_dev(tried.dev[0], dev.valid, dev.clusters.astype(str), dev.keys.astype(str), alpha=alpha)
        found = certify_by_e_values(tried.cal[0], cal.valid, names, ids, alpha=alpha, bets=bets)
    return REGENERATE_ALL if found.chosen is None else tried.policies[found.chosen]


def _dev_scores(at: SplitScores, own_guards: bool) -> RoutingScores:
    return routing_scores(at.dev.columns["similarity"], at.dev.signals, at.risk_map, own_guards=own_guards)


def _ordered(at: SplitScores, dev_scores: RoutingScores) -> _Candidates:
    """The policies worth testing in the order that the development subset gives."""
    dev = at.dev
    tried = policies_to_test(dev_scores, dev.valid, dev.verified, budget=BUDGET, order=dev.order())
    return _Candidates(
        tried.policies,
        tried.regions,
        _served(dev, dev_scores, tried.policies),
        _served(at.cal, at.cal_scores, tried.policies),
    )


def _paths(at: SplitScores, dev_scores: RoutingScores) -> _Candidates:
    direct = np.tile([True, False], (len(_PATH), 1))
    return _Candidates(_PATH, direct, _served(at.dev, dev_scores, _PATH), _served(at.cal, at.cal_scores, _PATH))


def _served(
    part: RoutedPool, scores: RoutingScores, policies: Sequence[Thresholds]
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Accepted and verified of every policy, each of shape ``[policies, pairs]``."""
    done = [played(part, scores, policy, BUDGET) for policy in policies]
    empty = np.zeros((0, len(part)), dtype=bool)
    if not done:
        return empty, empty
    return np.stack([each.accepted for each in done]), np.stack([each.verified for each in done])


def certifiable(n_clusters: float) -> float | None:
    """The smallest of `ALPHAS` that this many clusters can certify without an error; None for none."""
    needed = {alpha: error_free_hits(alpha, DELTA) for alpha in ALPHAS}
    return min((alpha for alpha, n in needed.items() if n is not None and n <= n_clusters), default=None)
