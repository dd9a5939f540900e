"""What an edit-repair run prints when it ends: margin recovery at the primary K, retention, and where the report is."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rich.table import Table

from cachemend.flows.edit_spot_check import SpotChecked, spot_checked
from cachemend.flows.tables import wide_console
from cachemend.tasks.edit_arms import own_length
from cachemend.tasks.edit_retained import edit_rows
from cachemend.tasks.identity import SharedIdentity
from cachemend.tasks.stage import stage
from cachemend.warehouse.report import write_report

_SHOWN = 5  # failures named on the terminal; the report lists all


class EditSummary(NamedTuple):
    """The end of a run.

    Attributes:
        run_id: the run.
        n_written: records it computed; the others were there.
        recovery: rows of `edit_recovery` of its cohorts at the primary K, all wordings together.
        failures: records of its cohorts whose latest outcome is not ok: case_id, arm, outcome, error.
        notes: what was left out, and why.
        spot_checks: of each cohort with repairs; none unless asked for.
        policy_file: the decision table; None without dev items.
        report: the report's file.
    """

    run_id: str
    n_written: int
    recovery: list[dict[str, Any]]
    failures: list[dict[str, Any]]
    notes: tuple[str, ...]
    spot_checks: tuple[SpotChecked, ...]
    policy_file: Path | None
    report: Path

    @property
    def failure_line(self) -> str:
        """How many records failed, in how many cases; "" for none."""
        cases = len({row["case_id"] for row in self.failures})
        return f"{len(self.failures)} records of {cases} cases failed" if self.failures else ""


class Covered(NamedTuple):
    """A cohort of the run: what its rows share, the table they are in, and the cases covered."""

    identity: Any
    table: str
    digests: frozenset[str]


@stage(name="summarise")
def summarise_edits(
    results: Path,
    run_id: str,
    covered: Sequence[Covered],
    *,
    primary_k: int,
    n_written: int,
    notes: Sequence[str],
    arms: Sequence[str],
    spot_check: float,
    seed: int,
    policy_file: Path | None,
) -> EditSummary:
    """Query the views for what the run covers, and write the report.

    Args:
        results: results folder.
        run_id: the run.
        covered: its cohorts.
        primary_k: K of the table.
        n_written: records it computed.
        notes: what was left out, and why.
        arms: the order of the table; what it does not name comes last.
        spot_check: share of the repairs by these arms to look at; 0 for no spot check.
        seed: of that sample.
        policy_file: the decision table.
    """
    order = {arm: place for place, arm in enumerate(arms)}
    recovery: list[dict[str, Any]] = []
    failures: list[dict[str, Any]] = []
    identities: list[SharedIdentity] = []
    checked: list[SpotChecked] = []
    for each in covered:
        arm = "arm" if each.table == "edit_records" else "mode || ' ' || policy AS arm"
        columns = ("case_digest", "case_id", arm, "outcome", "error")
        failed = edit_rows(results, each.identity, columns, "outcome <> 'ok'", each.table)
        failures += [row for row in failed if row["case_digest"] in each.digests]
        if each.table == "edit_records" and each.identity not in identities:
            identities.append(each.identity)
            at = f"family IS NULL AND operator <> 'transplant' AND (k IS NULL OR k = {primary_k})"
            recovery += edit_rows(results, each.identity, ("*",), at, "edit_recovery")
            if spot_check:
                found = spot_checked(
                    results, each.identity, digests=each.digests, arms=order, fraction=spot_check, seed=seed
                )
                checked += [found] if found is not None else []
    recovery.sort(key=lambda row: (order.get(row["arm"], len(order)), row["arm"]))
    failures = list({(row["case_digest"], row["arm"], row["error"]): row for row in failures}.values())
    failures.sort(key=lambda row: (row["case_id"], row["arm"]))
    report = write_report(results, None)
    return EditSummary(run_id, n_written, recovery, failures, tuple(notes), tuple(checked), policy_file, report)


def print_edit_summary(summary: EditSummary) -> None:
    """Print a run's end on standard output."""
    console = wide_console()
    for split in dict.fromkeys(row["split"] for row in summary.recovery):
        rows = [row for row in summary.recovery if row["split"] == split]
        for cohort in dict.fromkeys(row["cohort_digest"] for row in rows):
            found = [row for row in rows if row["cohort_digest"] == cohort]
            console.print(_table(found))
            for line in _no_evidence(found):
                console.print(line, soft_wrap=True)
    for checked in summary.spot_checks:
        console.print(checked.line, soft_wrap=True)
    for note in summary.notes:
        console.print(note, soft_wrap=True)
    told = f"{summary.n_written} records computed" if summary.n_written else "nothing to do: every record is there"
    console.print(f"run {summary.run_id}: {told}", soft_wrap=True)
    if summary.failures:
        console.print(f"{summary.failure_line}:", style="red")
        for row in summary.failures[:_SHOWN]:
            console.print(f"  {row['case_id']} {row['arm']}: {row['outcome']}: {row['error']}", soft_wrap=True)
        if len(summary.failures) > _SHOWN:
            console.print("  all of them: cachemend sql \"select * from edit_records where outcome <> 'ok'\"")
    if summary.policy_file is not None:
        console.print(f"decision table: {summary.policy_file}", soft_wrap=True)
    console.print(f"report: {summary.report}", soft_wrap=True)


def _table(rows: Sequence[dict[str, Any]]) -> Table:
    """Arms down, cells of condition and distance across: mean MR with its interval, and flips.

    A rule that sets its own length has the mean number of positions it took. Cells of irrelevant edits are left out:
    they have nothing to recover.
    """
    first = rows[0]
    cells = sorted({(row["condition"], row["distance"]) for row in rows if row["condition"] != "irrelevant"})
    title = f"{first['model']} {first['dtype']}, {first['split']}, executor {first['executor']}, {first['score_rule']}"
    table = Table(title=title, title_justify="left")
    table.add_column("margin recovery")
    by_cell = {(row["arm"], row["condition"], row["distance"]): row for row in rows}
    for condition, distance in cells:
        any_row = next(row for row in rows if (row["condition"], row["distance"]) == (condition, distance))
        table.add_column(
            f"{condition} d={distance}\n{any_row['n_retained']} retained of {any_row['n_of']}", justify="right"
        )
    for arm in dict.fromkeys(row["arm"] for row in rows):
        found = [by_cell.get((arm, *cell)) for cell in cells]
        if any(row is not None and row["n"] for row in found):
            table.add_row(arm, *(_shown(row) for row in found))
    if not table.row_count:
        table.add_row("no item is retained", *("-" for _ in cells))
    return table


def _no_evidence(rows: Sequence[dict[str, Any]]) -> list[str]:
    """A line for each derived cell that supports no claim."""
    told = {row["distance"]: row["evidence"] for row in rows if row["condition"] == "derived" and row["evidence"]}
    return [f"derived d={distance} shows nothing: {told[distance]}" for distance in sorted(told)]


def _shown(row: dict[str, Any] | None) -> str:
    if row is None or row["mean"] is None:
        return "-"
    shown = f"{row['mean']:.3f} [{row['low']:.3f}, {row['high']:.3f}] flip {row['flip_rate']:.2f}"
    return f"{shown}, {row['mean_positions']:.1f} positions" if own_length(row["policy"]) else shown
