"""What a response-routing run prints when it ends: the safety-utility table of every pool."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rich.table import Table

from cachemend.flows.tables import wide_console
from cachemend.tasks.routing.analysing import STRESS, Measurement
from cachemend.tasks.routing.identity import RouteIdentity
from cachemend.tasks.stage import stage
from cachemend.warehouse import store
from cachemend.warehouse.report import write_report

_SHOWN = 5  # failures named on the terminal


class RoutingSummary(NamedTuple):
    """The end of a run.

    Attributes:
        run_id: the run.
        n_written: pairs it measured; the others were there.
        points: rows of `routing_points` of its pools, then those of `routing_ceiling`.
        stress: rows of `routing_stress`.
        failures: pairs whose latest outcome is not ok: case_id, outcome, error.
        notes: pools that were left out, and why.
        report: the report's file.
    """

    run_id: str
    n_written: int
    points: list[dict[str, Any]]
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
    results: Path, run_id: str, measured: Sequence[Measurement], *, n_written: int, notes: Sequence[str]
) -> RoutingSummary:
    """Query the views for what the run covers, and write the report."""
    points: list[dict[str, Any]] = []
    stress: list[dict[str, Any]] = []
    failures: list[dict[str, Any]] = []
    for identity, digests in measured:
        same = {"cohort_digest": identity.cohort_digest, "encoder": identity.encoder}
        same |= {"lexicon_digest": identity.lexicon_digest}
        judged = {**same, "verifier": identity.verifier}
        if identity.pool == STRESS:
            stress += _rows(results, "routing_stress", judged)
        else:
            points += _rows(results, "routing_points", judged)
            points += _rows(results, "routing_ceiling", same)
        wanted = set(digests)
        failures += [row for row in _failed(results, identity) if row["case_digest"] in wanted]
    report = write_report(results, None)
    return RoutingSummary(run_id, n_written, points, stress, failures, tuple(notes), report)


def print_routing_summary(summary: RoutingSummary) -> None:
    """Print a run's end on standard output."""
    console = wide_console()
    for pool in dict.fromkeys(row["pool"] for row in summary.points):
        console.print(_table(pool, [row for row in summary.points if row["pool"] == pool]))
    if summary.stress:
        console.print(_stress(summary.stress))
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


def _rows(results: Path, view: str, same: dict[str, str]) -> list[dict[str, Any]]:
    where = " AND ".join(f"{name} = ?" for name in same)
    with store.connect(results) as connection:
        sql = f"SELECT * FROM {view} WHERE {where} ORDER BY method = 'safecache' DESC, method, setting"
        rows: list[dict[str, Any]] = connection.sql(sql, params=list(same.values())).to_arrow_table().to_pylist()
    return rows


def _failed(results: Path, identity: RouteIdentity) -> list[dict[str, Any]]:
    with store.connect(results) as connection:
        sql = (
            "SELECT case_digest, case_id, outcome, error FROM route_records WHERE outcome <> 'ok' "
            "AND cohort_digest = ? AND verifier = ? AND encoder = ? AND lexicon_digest = ? ORDER BY case_id"
        )
        same = [identity.cohort_digest, identity.verifier, identity.encoder, identity.lexicon_digest]
        rows: list[dict[str, Any]] = connection.sql(sql, params=same).to_arrow_table().to_pylist()
    return rows


def _table(pool: str, rows: Sequence[dict[str, Any]]) -> Table:
    """Methods down; valid hits, false hits with their counts, calls and cost across; the ceiling beside."""
    first = next(row for row in rows if not row["diagnostic"])
    table = Table(
        title=f"pool {pool}: {first['exposures']} held-out exposures of {first['n_splits']} splits",
        title_justify="left",
    )
    table.add_column("method")
    for name in ("VCHR", "FH", "invalid of returned", "verifier calls", "cost", "VCHR, label oracle"):
        table.add_column(name, justify="right")
    ceiling = {(row["method"], row["setting"]): row for row in rows if row["diagnostic"]}
    for row in rows:
        if row["diagnostic"]:
            continue
        top = ceiling.get((row["method"], row["setting"]))
        abstained = f" (abstains in {row['n_abstained']})" if row["n_abstained"] else ""
        table.add_row(
            f"{row['method']} {row['setting']}{abstained}",
            f"{row['vchr']:.3f}",
            f"{row['fh']:.4f}",
            f"{row['n_invalid']} of {row['accepted']}",
            f"{row['verifier_rate']:.3f}",
            f"{row['relative_cost']:.3f}",
            "-" if top is None else f"{top['vchr']:.3f}",
        )
    return table


def _stress(rows: Sequence[dict[str, Any]]) -> Table:
    table = Table(title=f"stress: {rows[0]['n']} adversarial requests, every hit unsafe", title_justify="left")
    table.add_column("method")
    for name in ("hits", "hit rate", "95 % upper bound"):
        table.add_column(name, justify="right")
    for row in rows:
        table.add_row(
            f"{row['method']} {row['setting']}", str(row["n_hits"]), f"{row['hit_rate']:.3f}", f"{row['upper']:.3f}"
        )
    return table
