"""The stage after a routing run: from a pool's records to operating points, tests, ablations and quality tables."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cachemend.calibration.certified.learn_then_test import DELTA
from cachemend.calibration.routing.regions import REGENERATE, REUSE, VERIFY
from cachemend.calibration.splits import FRACTIONS, Split, repeated_splits
from cachemend.calibration.verdicts import Verdict
from cachemend.tasks.routing.analyse_certified import RISK_CONTROL, Certified, certifiable, replay_certified
from cachemend.tasks.routing.analyse_frozen import frozen_rows
from cachemend.tasks.routing.analyse_parts import ablation_rows, order_rows
from cachemend.tasks.routing.analyse_points import REFERENCE, Measured, family_rows, point_rows, risk_rows, test_rows
from cachemend.tasks.routing.analyse_signals import map_rows, quality_rows, signal_rows
from cachemend.tasks.routing.analyse_stress import stress_rows
from cachemend.tasks.routing.identity import RouteIdentity
from cachemend.tasks.routing.pool import RoutedPool, other_verdicts
from cachemend.tasks.routing.replaying import SAFECACHE, Series, check_pool, replay_methods
from cachemend.tasks.routing.stacked import Counts, Exposures
from cachemend.tasks.stage import stage
from cachemend.warehouse.parts import write_part
from cachemend.warehouse.schemas import table

STRESS = "stress"
_CALIBRATED_ON = (
    "reconstruction",
    "seed",
    "hard",
)  # the pool that policies for the stress set come from, by preference
_ACTIONS = {REGENERATE: "regenerate", REUSE: "reuse", VERIFY: "verify"}


class Measurement(NamedTuple):
    """A measured pool: what its records share, and the digests of its pairs in order."""

    identity: RouteIdentity
    digests: list[str]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How pools are analysed.

    Attributes:
        n_splits: repeated splits.
        seed: of the splits.
        own_guards: whether this project's further guards count as conflicts.
    """

    n_splits: int
    seed: int
    own_guards: bool

    @property
    def text(self) -> str:
        """The splits in canonical text."""
        shares = "/".join(f"{100 * share:g}" for share in FRACTIONS)
        return f"{self.n_splits} x {shares} seed {self.seed}"

    @property
    def columns(self) -> dict[str, Any]:
        """The columns that tell rows of this plan from those of others."""
        return {"split_plan": self.text, "own_guards": self.own_guards}

    def splits(self, pool: RoutedPool) -> list[Split]:
        """The splits of a pool: by cluster, stratified by source."""
        return repeated_splits(
            pool.clusters.astype(str), pool.columns["source"].astype(str), self.n_splits, seed=self.seed
        )


@stage(name="analyse")
def analyse_routing(results: Path, measured: Sequence[Measurement], plan: Plan, *, run_id: str) -> None:
    """Analyse every pool, once with the verifier's verdicts and once with the labels' (the ceiling of any verifier).

    The same records give the same rows, which are then stored once.

    Raises:
        CalibrationError: a pool that nothing can be calibrated on.
    """
    pools = {each.identity.pool: RoutedPool.read(results, each.identity, each.digests) for each in measured}
    for name, pool in pools.items():
        if name == STRESS:
            continue
        check_pool(pool)
        splits = plan.splits(pool)
        for diagnostic in (False, True):
            judged = pool.with_verdicts(pool.valid) if diagnostic else pool
            shared = judged.identity.group(diagnostic=diagnostic) | plan.columns
            writer = _Writer(results, f"{run_id}-{name}", shared)
            others = {} if diagnostic else other_verdicts(results, pool)
            _analyse(writer, judged, splits, plan, others, diagnostic)
    base = next((name for name in _CALIBRATED_ON if name in pools), None)
    if STRESS in pools and base is not None and len(pools[STRESS]):
        stress, calibrated_on = pools[STRESS], pools[base]
        first = plan.splits(calibrated_on)[0]
        rows = stress_rows(calibrated_on, first, stress, own_guards=plan.own_guards)
        writer = _Writer(results, f"{run_id}-{STRESS}", stress.identity.group(diagnostic=False) | plan.columns)
        writer.write("routing_stress_rows", [{**row, "calibrated_on": base} for row in rows])


def _analyse(
    writer: "_Writer",
    pool: RoutedPool,
    splits: list[Split],
    plan: Plan,
    others: dict[str, NDArray[np.bool_]],
    diagnostic: bool,
) -> None:
    exposures = Exposures.of(pool, splits)
    series = replay_methods(pool, splits, own_guards=plan.own_guards)
    certified = replay_certified(pool, splits, own_guards=plan.own_guards)
    everyone = [*series, *(each.series for each in certified)]
    measured = [Measured(each, Counts.of(each, exposures)) for each in everyone]
    plain = measured[: len(series)]
    writer.write("routing_point_rows", point_rows(measured, exposures))
    writer.write("routing_risk_rows", risk_rows(measured, pool, exposures))
    writer.write("routing_test_rows", test_rows(plain, exposures))
    writer.write("routing_family_rows", family_rows(plain, pool, exposures))
    writer.write("routing_ablation_rows", ablation_rows(pool, splits, exposures, own_guards=plan.own_guards))
    writer.write("routing_order_rows", order_rows(pool, splits, exposures, own_guards=plan.own_guards))
    guards = plan.own_guards
    writer.write("routing_frozen_rows", frozen_rows(pool, splits, exposures, others, own_guards=guards))
    writer.write("routing_certified_rows", _certified_rows(certified, measured, exposures))
    if not diagnostic:
        writer.write("route_exposures", _exposure_rows(everyone, pool, exposures))
        routers = [each for each in series if each.point is not None and each.method == SAFECACHE]
        writer.write("signal_rows", signal_rows(pool, splits, exposures, own_guards=plan.own_guards))
        writer.write("routing_map_rows", map_rows(pool, splits, routers[0], own_guards=plan.own_guards))
        verdicts = [None if text is None else Verdict[text] for text in pool.columns["verdict"]]
        writer.write("verifier_quality_rows", quality_rows(pool, verdicts, routers, exposures))


def _certified_rows(
    certified: Sequence[Certified], measured: Sequence[Measured], exposures: Exposures
) -> list[dict[str, Any]]:
    counts = {(each.series.method, each.series.setting): each.counts for each in measured}
    plain = counts[SAFECACHE, REFERENCE].macro["vchr"]
    rows = []
    for each in certified:
        own = counts[each.series.method, each.series.setting]
        rows.append(
            {
                "method": each.series.method,
                "setting": each.series.setting,
                "procedure": each.procedure,
                "alpha": each.alpha,
                "delta": None if each.procedure == RISK_CONTROL else DELTA,
                "n_splits": len(exposures.n_test),
                "n_abstained": len(each.series.abstained),
                "mean_clusters": each.mean_clusters,
                "certifiable": certifiable(each.mean_clusters),
                **own.macro,
                "d_vchr": own.macro["vchr"] - plain,
                "n_violations": None if each.procedure == RISK_CONTROL else int((own.rates.fh > each.alpha).sum()),
            }
        )
    return rows


def _exposure_rows(everyone: Sequence[Series], pool: RoutedPool, exposures: Exposures) -> list[dict[str, Any]]:
    digests = pool.columns["case_digest"][exposures.rows].tolist()
    rows = []
    for series in everyone:
        action = np.concatenate([served.action for served in series.served]).tolist()
        accepted = np.concatenate([served.accepted for served in series.served]).tolist()
        for at, digest in enumerate(digests):
            rows.append(
                {
                    "method": series.method,
                    "setting": series.setting,
                    "split": int(exposures.split[at]),
                    "case_digest": digest,
                    "cluster": str(exposures.clusters[at]),
                    "valid": bool(exposures.valid[at]),
                    "action": _ACTIONS[action[at]],
                    "accepted": accepted[at],
                }
            )
    return rows


@dataclass(frozen=True)
class _Writer:
    """Writes analysis rows with what they share."""

    results: Path
    run_id: str
    shared: dict[str, Any]

    def write(self, name: str, rows: Sequence[dict[str, Any]]) -> None:
        known = table(name)
        shared = {key: value for key, value in self.shared.items() if known.has(key)}
        shared |= {"run_id": self.run_id, "recorded_at": datetime.now(UTC)}
        if rows:
            write_part(self.results, name, [{**shared, **row} for row in rows])
