"""What a response-routing run prints when it ends: the safety-utility table of every pool."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from cachemend.flows.routing_tables import gains_table, points_table, stress_table, traces
from cachemend.flows.tables import wide_console
from cachemend.tasks.routing.analysing import STRESS, Measurement, Plan
from cachemend.tasks.routing.identity import RouteIdentity
from cachemend.tasks.stage import stage
from cachemend.warehouse import store
from cachemend.warehouse.report import write_report

_SHOWN = 5  # failures named on the terminal
_METHODS = "method = 'safecache' DESC, method, setting"


class RoutingSummary(NamedTuple):
    """The end of a run.

    Attributes:
        run_id: the run.
        n_written: pairs it measured; the others were there.
        points: rows of `routing_points` of its pools, then those of `routing_ceiling`.
        tests: rows of `routing_tests`.
        probes: rows of `routing_probes`.
        stress: rows of `routing_stress`.
        failures: pairs whose latest outcome is not ok: case_id, outcome, error.
        notes: pools that were left out, and why.
        report: the report's file.
    """

    run_id: str
    n_written: int
    points: list[dict[str, Any]]
    tests: list[dict[str, Any]]
    probes: list[dict[str, Any]]
    stress: list[dict[str, Any]]
    failures: list[dict[str, Any]]
    notes: tuple[str, ...]
    report: Path

    @property
    def failure_line(self) -> str:
        """How many pairs failed; "" for none."""
        return f"{len(self.failures)} pairs failed" if self.failures else ""


@stage(name="summarise")
def summarise_routing(
    results: Path, run_id: str, measured: Sequence[Measurement], plan: Plan, *, n_written: int, notes: Sequence[str]
) -> RoutingSummary:
    """Query the views for what the run covers, and write the report."""
    points: list[dict[str, Any]] = []
    tests: list[dict[str, Any]] = []
    probes: list[dict[str, Any]] = []
    stress: list[dict[str, Any]] = []
    failures: list[dict[str, Any]] = []
    for identity, digests in measured:
        judged = identity.group(diagnostic=False) | plan.columns
        if identity.pool == STRESS:
            stress += _rows(results, "routing_stress", judged, _METHODS)
        else:
            ceiling = identity.group(diagnostic=True) | plan.columns
            points += _rows(results, "routing_points", judged, _METHODS)
            points += _rows(results, "routing_ceiling", ceiling, _METHODS)
            tests += _rows(results, "routing_tests", judged, "reference, method, setting")
            pool = {name: judged[name] for name in ("experiment", "cohort_digest", "pool")}
            probes += _rows(results, "routing_probes", pool, "source, side")
        wanted = set(digests)
        failures += [row for row in _failed(results, identity) if row["case_digest"] in wanted]
    report = write_report(results, None)
    return RoutingSummary(run_id, n_written, points, tests, probes, stress, failures, tuple(notes), report)


def print_routing_summary(summary: RoutingSummary) -> None:
    """Print a run's end on standard output."""
    console = wide_console()
    for pool in dict.fromkeys(row["pool"] for row in summary.points):
        console.print(points_table(pool, [row for row in summary.points if row["pool"] == pool]))
        console.print(gains_table([row for row in summary.tests if row["pool"] == pool]))
    for line in traces(summary.points, summary.probes):
        console.print(line, soft_wrap=True)
    if summary.stress:
        console.print(stress_table(summary.stress))
    for note in summary.notes:
        console.print(note, soft_wrap=True)
    told = f"{summary.n_written} pairs measured" if summary.n_written else "nothing to do: every pair is measured"
    console.print(f"run {summary.run_id}: {told}", soft_wrap=True)
    if summary.failures:
        console.print(f"{summary.failure_line}:", style="red")
        for row in summary.failures[:_SHOWN]:
            console.print(f"  {row['case_id']}: {row['outcome']}: {row['error']}", soft_wrap=True)
        if len(summary.failures) > _SHOWN:
            console.print("  all of them: cachemend sql \"select * from route_records where outcome <> 'ok'\"")
    console.print(f"report: {summary.report}", soft_wrap=True)


def _rows(results: Path, view: str, same: dict[str, Any], order: str) -> list[dict[str, Any]]:
    where = " AND ".join(f"{name} = ?" for name in same)
    with store.connect(results) as connection:
        sql = f"SELECT * FROM {view} WHERE {where} ORDER BY {order}"
        rows: list[dict[str, Any]] = connection.sql(sql, params=list(same.values())).to_arrow_table().to_pylist()
    return rows


def _failed(results: Path, identity: RouteIdentity) -> list[dict[str, Any]]:
    with store.connect(results) as connection:
        sql = (
            "SELECT case_digest, case_id, outcome, error FROM route_records WHERE outcome <> 'ok' "
            "AND cohort_digest = ? AND verifier = ? AND language_model = ? AND encoder = ? AND lexicon_digest = ? "
            "AND engine_version = ? ORDER BY case_id"
        )
        same: list[Any] = [identity.cohort_digest, identity.verifier, identity.language_model, identity.encoder]
        same += [identity.lexicon_digest, identity.engine_version]
        rows: list[dict[str, Any]] = connection.sql(sql, params=same).to_arrow_table().to_pylist()
    return rows
