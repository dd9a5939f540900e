"""All methods on repeated splits: calibrated on two subsets, replayed on the third (paper appendix A)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cachemend.calibration.baselines import BASELINES, Baseline
from cachemend.calibration.baselines.evidence import abstain
from cachemend.calibration.errors import CalibrationError
from cachemend.calibration.routing.ablations import ABLATIONS, Ablation
from cachemend.calibration.routing.exact import Rate
from cachemend.calibration.routing.grid import DEFAULT_GRID
from cachemend.calibration.routing.outcome import LOCAL_COST
from cachemend.calibration.routing.policy import REGENERATE_ALL, Thresholds
from cachemend.calibration.routing.regions import REGENERATE, REUSE, VERIFY, route
from cachemend.calibration.routing.replay import Replay, replay
from cachemend.calibration.routing.risk_map import RiskMap
from cachemend.calibration.routing.scores import RoutingScores, routing_scores
from cachemend.calibration.routing.selection import Selection, select_policy
from cachemend.calibration.splits import Split
from cachemend.tasks.routing.pool import RoutedPool

SAFECACHE = "safecache"


class Point(NamedTuple):
    """An operating point of the router: accepted-unsafe target and verifier calls per request."""

    alpha: Rate
    budget: Rate

    @property
    def setting(self) -> str:
        """As in the result tables."""
        return f"alpha={float(self.alpha):g} B={float(self.budget):g}"


POINTS = (Point(0.0, 0.16), Point(0.0, 0.30), Point(0.025, 0.30))
ABLATED = Point(0.0, 0.30)


class Served(NamedTuple):
    """What one method did with the test subset of one split, shape ``[test rows]``."""

    action: NDArray[np.int8]
    accepted: NDArray[np.bool_]
    verified: NDArray[np.bool_]
    demand: int


@dataclass(frozen=True, kw_only=True)
class Series:
    """One method and setting over all splits.

    Attributes:
        method, setting: as in the result tables.
        point: the operating point; None for methods without one.
        local_cost: what it costs per request beside calls, with a regeneration as 1.
        served: one per split.
        calibration_vchr: valid hits per calibration candidate of each split.
        abstained: splits in which no policy was feasible.
        observations: of a method that learns while it serves, those of each cached entry, an array per split.
    """

    method: str
    setting: str
    point: Point | None
    local_cost: float
    served: list[Served] = field(default_factory=list)
    calibration_vchr: list[float] = field(default_factory=list)
    abstained: list[int] = field(default_factory=list)
    observations: list[NDArray[np.intp]] = field(default_factory=list)


class SplitScores(NamedTuple):
    """What the router sees of one split: subsets of the pool, the risk map and the scores by it."""

    dev: RoutedPool
    cal: RoutedPool
    test: RoutedPool
    risk_map: RiskMap
    cal_scores: RoutingScores
    test_scores: RoutingScores


def split_scores(pool: RoutedPool, split: Split, *, own_guards: bool) -> SplitScores:
    """Fit the risk map on the development subset and score the other two.

    Raises:
        CalibrationError: a subset that holds valid or invalid pairs only.
    """
    dev, cal, test = (pool.take(index) for index in split)
    risk_map = RiskMap.fit(dev.signals.d_match, dev.valid)
    scores = [
        routing_scores(part.columns["similarity"], part.signals, risk_map, own_guards=own_guards)
        for part in (cal, test)
    ]
    return SplitScores(dev, cal, test, risk_map, scores[0], scores[1])


def replay_methods(pool: RoutedPool, splits: Sequence[Split], *, own_guards: bool = True) -> list[Series]:
    """Replay the router at every operating point, its ablations left out, and every baseline.

    Returns:
        The router's settings first, in the order of `POINTS`, then the baselines in that of their registry.
    """
    routers = [Series(method=SAFECACHE, setting=point.setting, point=point, local_cost=LOCAL_COST) for point in POINTS]
    rivals = [
        Series(method=each.method, setting=each.setting, point=_point_of(each.setting), local_cost=0.0)
        for each in measured_baselines(pool)
    ]
    for number, split in enumerate(splits):
        at = split_scores(pool, split, own_guards=own_guards)
        for series in routers:
            if series.point is not None:
                _add(series, number, *routed(at, series.point))
        cal, test = at.cal.evidence(), at.test.evidence()
        for series in rivals:
            rule = BASELINES[series.method, series.setting].fit(cal, at.cal.valid)
            before, after = rule(cal), rule(test)
            action = np.where(after.accepted, REUSE, REGENERATE).astype(np.int8)
            action[after.verifier_called] = VERIFY
            series.served.append(
                Served(action, after.accepted, after.verifier_called, int(after.verifier_called.sum()))
            )
            series.calibration_vchr.append(float((before.accepted & at.cal.valid).mean()))
            if rule is abstain:
                series.abstained.append(number)
            if after.observations is not None:
                series.observations.append(after.observations)
    return routers + rivals


def measured_baselines(pool: RoutedPool) -> list[Baseline]:
    """The baselines whose inputs were measured: one that nobody was asked for has no result."""
    asked = {
        "cache-me": any(answer is not None for answer in pool.columns["query_filter"].tolist()),
        "conditional-ppl": bool(np.isfinite(pool.columns["likelihood"]).any()),
        "similarity-verifier": pool.judged,
    }
    return [each for each in BASELINES.values() if asked.get(each.method, True)]


def replay_ablations(
    pool: RoutedPool, splits: Sequence[Split], point: Point = ABLATED, *, own_guards: bool = True
) -> dict[str, Series]:
    """Replay the full router and each ablation at one operating point, reselected on every split."""
    names = ("full", *(ablation.name for ablation in ABLATIONS))
    if own_guards:
        names = (*names, OWN_GUARDS)
    made = {name: Series(method=SAFECACHE, setting=point.setting, point=point, local_cost=LOCAL_COST) for name in names}
    for number, split in enumerate(splits):
        at = split_scores(pool, split, own_guards=own_guards)
        _add(made["full"], number, *routed(at, point))
        for ablation in ABLATIONS:
            _add(made[ablation.name], number, *routed(at, point, ablation))
        if own_guards:
            plain = split_scores(pool, split, own_guards=False)
            _add(made[OWN_GUARDS], number, *routed(plain, point))
    return made


OWN_GUARDS = "guards beyond the paper's"


def routed(at: SplitScores, point: Point, ablation: Ablation | None = None) -> tuple[Selection, Replay]:
    """Choose a policy on the calibration subset and replay it on the test subset."""
    change = ablation or Ablation(name="full")
    cal, test = change.scores(at.cal_scores), change.scores(at.test_scores)
    chosen = select_policy(
        cal,
        at.cal.valid,
        at.cal.verified,
        alpha=change.alpha(point.alpha),
        budget=point.budget,
        order=at.cal.order(),
        grid=change.grid(DEFAULT_GRID),
    )
    return chosen, played(at.test, test, chosen.thresholds, point.budget)


def played(
    test: RoutedPool, scores: RoutingScores, limits: Thresholds, budget: Rate, order: NDArray[np.intp] | None = None
) -> Replay:
    """Replay a policy on a subset, in the canonical order unless another is given."""
    return replay(route(scores, limits), test.verified, test.order() if order is None else order, budget)


def _add(series: Series, number: int, chosen: Selection, done: Replay) -> None:
    series.served.append(Served(*done))
    series.calibration_vchr.append(chosen.valid / chosen.n)
    if chosen.thresholds == REGENERATE_ALL:
        series.abstained.append(number)


def orders(test: RoutedPool) -> Iterator[tuple[str, NDArray[np.intp]]]:
    """The request orders of appendix J: canonical, reversed, three fixed permutations."""
    canonical = test.order()
    yield "canonical", canonical
    yield "reverse", canonical[::-1].copy()
    for number in (1, 2, 3):
        yield f"permutation {number}", test.order(number)


def _point_of(setting: str) -> Point | None:
    return next((point for point in POINTS if point.setting == setting), None)


def check_pool(pool: RoutedPool) -> None:
    """Refuse a pool that nothing can be calibrated on.

    Raises:
        CalibrationError: no pairs, or pairs of one label only.
    """
    if not len(pool) or pool.valid.all() or not pool.valid.any():
        n = int(pool.valid.sum())
        raise CalibrationError(
            f"pool {pool.identity.pool!r} has {n} valid and {len(pool) - n} invalid pairs; calibration needs both kinds"
        )
