"""What the execution benchmark prints when it ends: its tables, what could not run, and where the report is."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rich.table import Table

from cachemend.flows.tables import wide_console
from cachemend.repair_core.executors import EXPERIMENTAL
from cachemend.tasks.execution.identity import ExecutionIdentity
from cachemend.tasks.stage import stage
from cachemend.warehouse import store
from cachemend.warehouse.report import write_report
from cachemend.warehouse.views import quoted

_SAME = ("model_fingerprint", "dtype", "engine_version", "device", "torch_version")


class ExecutionSummary(NamedTuple):
    """The end of a run.

    Attributes:
        run_id: the run.
        n_written: rows it wrote; the others were there.
        rows: by study, the rows of its view.
        failures: lines that failed, not those that cannot run here.
        refused: lines that cannot run here, and why.
        report: the report's file.
    """

    run_id: str
    n_written: int
    rows: dict[str, list[dict[str, Any]]]
    failures: list[dict[str, Any]]
    refused: dict[str, str]
    report: Path

    @property
    def failure_line(self) -> str:
        """How many lines failed; "" for none."""
        return f"{len(self.failures)} timings failed" if self.failures else ""


@stage(name="summarise")
def summarise_execution(
    results: Path, run_id: str, identity: ExecutionIdentity, studies: Sequence[str], *, n_written: int
) -> ExecutionSummary:
    """Query the views for what the run covers, and write the report."""
    same = " AND ".join(f"{name} = {quoted(getattr(identity, name))}" for name in _SAME)
    rows = {s: store.query(results, f"SELECT * FROM {s}_timings WHERE {same}").to_pylist() for s in studies}
    ended: list[dict[str, Any]] = []
    for study in studies:
        columns = "executor, attention, length, outcome, error"
        sql = f"SELECT {columns} FROM parts.{study}_timing_rows WHERE {same} AND run_id LIKE {quoted(run_id + '%')}"
        ended += [row for row in store.query(results, sql).to_pylist() if row["outcome"] != "ok"]
    refused = {_refused_name(row): row["error"] for row in ended if row["outcome"] == "refused"}
    failures = [row for row in ended if row["outcome"] != "refused"]
    return ExecutionSummary(run_id, n_written, rows, failures, refused, write_report(results, None))


def _refused_name(row: dict[str, Any]) -> str:
    """A backend is refused alike wherever it attends; an experimental executor for itself."""
    experimental = row["executor"] in EXPERIMENTAL
    return f"{row['executor']} {row['attention']}" if experimental else str(row["attention"])


def print_execution_summary(summary: ExecutionSummary) -> None:
    """Print a run's end on standard output."""
    console = wide_console()
    for study, rows in summary.rows.items():
        if rows:
            console.print(_recovery(rows) if study == "recovery" else _grid(study, rows))
    told = f"{summary.n_written} timings" if summary.n_written else "nothing to do: every timing is there"
    console.print(f"run {summary.run_id}: {told}", soft_wrap=True)
    for name, reason in summary.refused.items():
        console.print(f"{name} not timed: {reason}", soft_wrap=True)
    for row in summary.failures:
        where = f"{row['executor']}/{row['attention']} at {row['length']} tokens"
        console.print(f"{where}: {row['outcome']}: {row['error']}", soft_wrap=True, style="red")
    console.print(f"report: {summary.report}", soft_wrap=True)


def _grid(study: str, rows: Sequence[dict[str, Any]]) -> Table:
    """Lines down, N and R across: median with its range in ms, and how far above the floor."""
    first = rows[0]
    title = f"{study}, {first['model']} {first['dtype']} ({first['weights']} weights), {first['device']}: ms"
    table = Table("", title=title, title_justify="left")
    cells = sorted({(row["length"], row["n_intervals"]) for row in rows})
    for length, n in cells:
        table.add_column(f"N={length} R={n}", justify="right")
    timed = [row for row in rows if row["seconds_median"] is not None]
    by_cell = {(row["executor"], row["attention"], row["length"], row["n_intervals"]): row for row in timed}
    for executor, attention in dict.fromkeys((row["executor"], row["attention"]) for row in timed):
        found = [by_cell.get((executor, attention, *cell)) for cell in cells]
        table.add_row(f"{executor} {attention}", *("-" if row is None else _shown(row) for row in found))
    return table


def _shown(row: dict[str, Any]) -> str:
    low, middle, high = (1000 * row[f"seconds_{name}"] for name in ("low", "median", "high"))
    above = "" if row["floor_ratio"] is None else f", {row['floor_ratio']:.1f} x floor"
    return f"{middle:.3f} [{low:.3f}, {high:.3f}]{above}"


def _recovery(rows: Sequence[dict[str, Any]]) -> Table:
    first = rows[0]
    title = f"recovery, {first['model']} {first['dtype']} ({first['weights']} weights), {first['device']}: ms, means"
    table = Table("", "refresh or operator", "recovery", "Replay takes", "contexts", title=title, title_justify="left")
    for row in rows:
        if row["recovery_seconds"] is not None:
            budget = "" if row["budget"] is None else f" {row['budget']:g} %, {row['executor']} {row['attention']}"
            refresh = "-" if row["refresh_seconds"] is None else f"{1000 * row['refresh_seconds']:.2f}"
            ratio = "-" if row["replay_ratio"] is None else f"{row['replay_ratio']:.2f} x"
            whole = f"{1000 * row['recovery_seconds']:.2f}"
            table.add_row(f"{row['method']}{budget}", refresh, whole, ratio, f"{row['n_contexts']} of {row['n_of']}")
    return table
