"""Reading the routing study of a results folder: pairs, decisions and analysis rows, in groups never pooled."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
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
    Probe,
    Quality,
    Ranked,
    Risk,
    Stress,
)

ROUTER = "safecache"
_ORACLE = "label-oracle"

T = TypeVar("T")
Shared = TypeVar("Shared", bound="RecordIdentity")


@dataclass(frozen=True, kw_only=True)
class RecordIdentity:
    """What the records of one group share: the pool, and all that its signals and verdicts follow from."""

    experiment: str
    pool: str
    cohort_digest: str
    encoder: str
    lexicon_digest: str
    verifier: str
    language_model: str | None
    engine_version: int


@dataclass(frozen=True, kw_only=True)
class PoolIdentity(RecordIdentity):
    """What all rows of one group share: the records, and how they were analysed.

    Attributes:
        split_plan: the splits in canonical text; None where nothing was analysed, or it is not known of an old part.
        own_guards: whether guards beyond the paper's count as conflicts; None likewise.
    """

    split_plan: str | None = None
    own_guards: bool | None = None

    @property
    def records(self) -> RecordIdentity:
        """That of its records."""
        return RecordIdentity(**{field.name: getattr(self, field.name) for field in fields(RecordIdentity)})

    @property
    def plan(self) -> str:
        """The analysis in words; "" where it is not known."""
        if self.split_plan is None:
            return ""
        guards = "all guards" if self.own_guards else "the paper's guards alone"
        return f"{self.split_plan}, {guards}"


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
    probes: Sequence[Probe]

    @property
    def written(self) -> list[tuple[str, datetime]]:
        """Run and time of every pair and point."""
        pairs = [(row.run_id, row.recorded_at) for row in self.rows]
        return pairs + [(point.run_id, point.recorded_at) for point in self.points]


def read_routing_groups(results: Path) -> dict[PoolIdentity, RoutingGroup]:
    """Return every group that has a record or a point, in a fixed order; none if there are none.

    The label oracle's rows are no group's: they appear as the ceiling of the groups they belong to.
    """
    rows = _read(results, "route_records", PairRow, RecordIdentity)
    points = _analysed(results, "routing_points", Point)
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
    ceiling = _read(results, "routing_ceiling", Point, PoolIdentity)
    probes = _probes(results)
    analyses = {identity for part in (points, *parts) for identity in part}
    known = {identity.records for identity in analyses}
    groups = analyses | {each for identity in rows if identity not in known for each in _unanalysed(identity, ceiling)}
    return {
        identity: RoutingGroup._make(
            (
                rows.get(identity.records, ()),
                points.get(identity, ()),
                *(part.get(identity, ()) for part in parts),
                ceiling.get(replace(identity, verifier=_ORACLE), ()),
                probes.get((identity.experiment, identity.cohort_digest, identity.pool), ()),
            )
        )
        for identity in sorted(groups, key=lambda identity: [str(value) for value in vars(identity).values()])
        if identity.records in rows or identity in points
    }


def _analysed(results: Path, view: str, kind: type[T]) -> dict[PoolIdentity, list[T]]:
    return _read(results, f"{view} WHERE NOT diagnostic", kind, PoolIdentity)


def _unanalysed(records: RecordIdentity, ceiling: Iterable[PoolIdentity]) -> list[PoolIdentity]:
    """The groups of records without an analysis: one, or one for each plan by which the ceiling is known."""
    tops = [top for top in ceiling if top.records == replace(records, verifier=_ORACLE)]
    return [replace(top, verifier=records.verifier) for top in tops] or [PoolIdentity(**vars(records))]


def _probes(results: Path) -> dict[tuple[str, str, str], list[Probe]]:
    """Probes of one side by pool; they depend on nothing else."""
    names = ", ".join(Probe._fields)
    answer = store.ask(
        results, f"SELECT experiment, cohort_digest, pool, {names} FROM routing_probes ORDER BY source, side"
    )
    found: defaultdict[tuple[str, str, str], list[Probe]] = defaultdict(list)
    for row in answer.table.to_pylist():
        key = row.pop("experiment"), row.pop("cohort_digest"), row.pop("pool")
        found[key].append(Probe(**row))
    return dict(found)


def _decisions(results: Path) -> dict[PoolIdentity, list[Decision]]:
    """Count the router's decisions by pair, of old parts those of the latest plan of splits: the points are its own."""
    shared = ", ".join(field.name for field in fields(RecordIdentity))
    plan = "CASE WHEN own_guards IS NOT NULL THEN split_plan END"
    counts = ", ".join(f"count(*) FILTER (action = '{name}') AS {name}" for name in ("reuse", "verify", "regenerate"))
    source = (
        f"(SELECT {shared}, {plan} AS split_plan, own_guards, case_digest, method, setting, count(*) AS n, {counts}, "
        "count(*) FILTER (accepted) AS accepted "
        f"FROM (SELECT *, first_value(split_plan) OVER (PARTITION BY {shared}, own_guards, {plan} "
        f"ORDER BY recorded_at DESC, split_plan) AS latest FROM route_exposures WHERE method = '{ROUTER}') "
        "WHERE split_plan = latest GROUP BY ALL)"
    )
    return _read(results, source, Decision, PoolIdentity)


def _read(results: Path, source: str, kind: type[T], identity: type[Shared]) -> dict[Shared, list[T]]:
    """Return a view's rows by group, typed."""
    shared = [field.name for field in fields(identity)]
    names = list(kind.__annotations__)
    answer = store.ask(results, f"SELECT {', '.join([*shared, *names])} FROM {source} ORDER BY ALL")
    groups: defaultdict[Shared, list[T]] = defaultdict(list)
    for row in answer.table.to_pylist():
        groups[identity(**_of(row, shared))].append(kind(**_of(row, names)))
    return dict(groups)


def _of(row: dict[str, Any], names: Sequence[str]) -> dict[str, Any]:
    return {name: row[name] for name in names}
