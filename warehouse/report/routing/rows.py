"""Reading the routing study of a results folder: pairs, decisions and analysis rows, in groups never pooled."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from cachemend.warehouse import store
from cachemend.warehouse.report.routing.analysis import (
    Ablation,
    Certified,
    Comparison,
    Decision,
    Frozen,
    MapRow,
    Order,
    Part,
    Point,
    Quality,
    Ranked,
    Risk,
    Stress,
)

ROUTER = "safecache"
_ORACLE = "label-oracle"

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True, order=True)
class PoolIdentity:
    """What the rows of one group share: the pool, and all that its signals and verdicts follow from."""

    experiment: str
    pool: str
    cohort_digest: str
    encoder: str
    lexicon_digest: str
    verifier: str
    engine_version: int


@dataclass(frozen=True, kw_only=True, slots=True)
class PairRow:
    """One record: a pair, its signals and its verdict, as in the view `route_records`."""

    case_digest: str
    case_id: str
    source: str
    family: str
    cluster: str
    rule: str
    valid: bool
    lexicon_version: str
    verifier_model: str
    similarity: float | None
    d_match: float | None
    u_match: float | None
    h_rule: bool | None
    h_ctx: bool | None
    h_own: bool | None
    n_cache: int | None
    n_request: int | None
    fired: list[str] | None
    verdict: str | None
    query_filter: str | None
    likelihood: float | None
    dialogue_similarity: float | None
    same_version: bool | None
    evidence_overlap: float | None
    response_support: float | None
    same_query: bool | None
    q_cache: str | None
    r_cache: str | None
    context_cache: str | None
    q_probe: str | None
    context_probe: str | None
    explanation: str | None
    run_id: str
    recorded_at: datetime
    outcome: str
    error: str | None

    @property
    def h(self) -> bool | None:
        """The paper's conflict: a rule on conditions or one on the raw inputs."""
        return None if self.h_rule is None or self.h_ctx is None else self.h_rule or self.h_ctx


class RoutingGroup(NamedTuple):
    """Everything that a results folder holds about one group; `ceiling` is what a perfect verifier would reach."""

    rows: Sequence[PairRow]
    points: Sequence[Point]
    risks: Sequence[Risk]
    tests: Sequence[Comparison]
    parts: Sequence[Part]
    ablations: Sequence[Ablation]
    orders: Sequence[Order]
    frozen: Sequence[Frozen]
    stress: Sequence[Stress]
    map_rows: Sequence[MapRow]
    certified: Sequence[Certified]
    quality: Sequence[Quality]
    signals: Sequence[Ranked]
    decisions: Sequence[Decision]
    ceiling: Sequence[Point]

    @property
    def written(self) -> list[tuple[str, datetime]]:
        """Run and time of every pair and point."""
        pairs = [(row.run_id, row.recorded_at) for row in self.rows]
        return pairs + [(point.run_id, point.recorded_at) for point in self.points]


def read_routing_groups(results: Path) -> dict[PoolIdentity, RoutingGroup]:
    """Return every group that has a record or a point, in a fixed order; none if there are none.

    The label oracle's rows are no group's: they appear as the ceiling of the groups they belong to.
    """
    rows = _read(results, "route_records", PairRow)
    points = _read(results, "routing_points", Point)
    if not rows and not points:
        return {}
    parts = (
        _analysed(results, "routing_heldout_risk", Risk),
        _analysed(results, "routing_tests", Comparison),
        _analysed(results, "routing_by_family", Part),
        _analysed(results, "routing_ablation", Ablation),
        _analysed(results, "routing_order", Order),
        _analysed(results, "routing_frozen", Frozen),
        _analysed(results, "routing_stress", Stress),
        _analysed(results, "routing_map", MapRow),
        _analysed(results, "routing_certified", Certified),
        _analysed(results, "verifier_quality", Quality),
        _analysed(results, "signal_ranking", Ranked),
        _decisions(results),
    )
    ceiling = _read(results, "routing_ceiling", Point)
    return {
        identity: RoutingGroup._make(
            (
                rows.get(identity, ()),
                points.get(identity, ()),
                *(part.get(identity, ()) for part in parts),
                ceiling.get(replace(identity, verifier=_ORACLE), ()),
            )
        )
        for identity in sorted(rows.keys() | points.keys())
    }


def _analysed(results: Path, view: str, kind: type[T]) -> dict[PoolIdentity, list[T]]:
    return _read(results, f"{view} WHERE NOT diagnostic", kind)


def _decisions(results: Path) -> dict[PoolIdentity, list[Decision]]:
    """Count the router's decisions by pair, in the latest plan of splits."""
    shared = ", ".join(field.name for field in fields(PoolIdentity))
    counts = ", ".join(f"count(*) FILTER (action = '{name}') AS {name}" for name in ("reuse", "verify", "regenerate"))
    source = (
        f"(SELECT {shared}, case_digest, method, setting, count(*) AS n, {counts}, "
        "count(*) FILTER (accepted) AS accepted "
        f"FROM (SELECT *, first_value(split_plan) OVER (PARTITION BY {shared} ORDER BY recorded_at DESC, split_plan) "
        f"AS latest FROM route_exposures WHERE method = '{ROUTER}') WHERE split_plan = latest GROUP BY ALL)"
    )
    return _read(results, source, Decision)


def _read(results: Path, source: str, kind: type[T]) -> dict[PoolIdentity, list[T]]:
    """Return a view's rows by group, typed."""
    shared = [field.name for field in fields(PoolIdentity)]
    names = list(kind.__annotations__)
    answer = store.ask(results, f"SELECT {', '.join([*shared, *names])} FROM {source} ORDER BY ALL")
    groups: defaultdict[PoolIdentity, list[T]] = defaultdict(list)
    for row in answer.table.to_pylist():
        groups[PoolIdentity(**_of(row, shared))].append(kind(**_of(row, names)))
    return dict(groups)


def _of(row: dict[str, Any], names: Sequence[str]) -> dict[str, Any]:
    return {name: row[name] for name in names}
