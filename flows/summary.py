"""What a run prints when it ends: the sweep table, failures, and where the report is."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from rich.table import Table

from cachemend.flows.tables import wide_console
from cachemend.tasks.identity import RunIdentity
from cachemend.tasks.stage import stage
from cachemend.warehouse import store
from cachemend.warehouse.report import write_report

_SHOWN = 5  # failures named on the terminal; the report lists all


class Summary(NamedTuple):
    """The end of a run.

    Attributes:
        run_id: the run.
        n_cases: cases it covers.
        n_written: records it computed; the others were there.
        sweep: rows of `niah_sweep` for its cohort, model and settings.
        failures: records it covers whose latest outcome is not ok: case_id, arm, outcome, error.
        report: the report's file.
    """

    run_id: str
    n_cases: int
    n_written: int
    sweep: list[dict[str, Any]]
    failures: list[dict[str, Any]]
    report: Path

    @property
    def failure_line(self) -> str:
        """How many records failed, in how many cases; "" for none."""
        cases = len({row["case_id"] for row in self.failures})
        return f"{len(self.failures)} records of {cases} cases failed" if self.failures else ""


@stage(name="summarise")
def summarise(
    results: Path,
    run_id: str,
    identity: RunIdentity,
    case_digests: Sequence[str],
    arms: Sequence[str],
    n_written: int,
) -> Summary:
    """Query the views for what the run covers, and write the report."""
    # The model's name is no part of a record's identity: the same weights may have run under another one.
    shared = {column: value for column, value in asdict(identity).items() if column not in ("model", "auxiliary")}
    same = " AND ".join(f"{column} = {_literal(value)}" for column, value in shared.items())
    # Most arms use no auxiliary model.
    same += f" AND (auxiliary IS NULL OR auxiliary = {_literal(identity.auxiliary)})"
    order = {arm: place for place, arm in enumerate(arms)}
    sweep = [
        row for row in store.query(results, f"SELECT * FROM niah_sweep WHERE {same}").to_pylist() if row["arm"] in order
    ]
    sweep.sort(key=lambda row: (row["stratum"], order[row["arm"]]))
    failed = store.query(
        results, f"SELECT case_digest, case_id, arm, outcome, error FROM records WHERE {same} AND outcome <> 'ok'"
    ).to_pylist()
    covered = set(case_digests)
    failures = [row for row in failed if row["case_digest"] in covered and row["arm"] in order]
    failures.sort(key=lambda row: (row["case_id"], order[row["arm"]]))
    return Summary(run_id, len(covered), n_written, sweep, failures, write_report(results, None))


def print_summary(summary: Summary) -> None:
    """Print a run's end on standard output."""
    console = wide_console()
    for stratum in dict.fromkeys(row["stratum"] for row in summary.sweep):
        console.print(_table(stratum, [row for row in summary.sweep if row["stratum"] == stratum]))
    told = f"{summary.n_written} records computed" if summary.n_written else "nothing to do: every record is there"
    console.print(f"run {summary.run_id}: {summary.n_cases} cases, {told}", soft_wrap=True)
    if summary.failures:
        console.print(f"{summary.failure_line}:", style="red")
        for row in summary.failures[:_SHOWN]:
            console.print(f"  {row['case_id']} {row['arm']}: {row['outcome']}: {row['error']}", soft_wrap=True)
        if len(summary.failures) > _SHOWN:
            console.print("  all of them: cachemend sql \"select * from records where outcome <> 'ok'\"")
    console.print(f"report: {summary.report}", soft_wrap=True)


def _table(stratum: str, rows: Sequence[dict[str, Any]]) -> Table:
    first = rows[0]
    title = f"{first['model']} {first['dtype']}, {stratum}, executor {first['executor']}, {first['score_rule']}"
    table = Table(title=title, title_justify="left")
    table.add_column("arm")
    for name in ("n of N", "EM %", "gold NLL", "TV to clean", "NR_TV", "intervals", "failed"):
        table.add_column(name, justify="right")
    for row in rows:
        table.add_row(
            row["arm"],
            f"{row['n']} of {row['n_of']}",
            _number(row["em_percent"], 1),
            _number(row["mean_gold_nll"], 3),
            _number(row["mean_tv_to_clean"], 3),
            _number(row["median_nr_tv"], 3),
            _number(row["mean_n_intervals"], 1),
            str(row["n_failed"]),
        )
    return table


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _literal(value: object) -> str:
    return str(value) if isinstance(value, int) else "'" + str(value).replace("'", "''") + "'"
