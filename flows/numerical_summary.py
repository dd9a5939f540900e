"""What a run of the numerical controls prints when it ends: a table per study, failures, and where the report is."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from rich.table import Table

from cachemend.flows.tables import wide_console
from cachemend.tasks.identity import SharedIdentity
from cachemend.tasks.stage import stage
from cachemend.warehouse import store
from cachemend.warehouse.report import write_report

_SHOWN = 5  # failures named on the terminal; the tables hold all

Row = dict[str, Any]


class NumericalSummary(NamedTuple):
    """The end of a run.

    Attributes:
        run_id: the run.
        n_written: records it computed; the others were there.
        rows: by study, the rows of its view for the run's cohort, model and settings.
        failures: records of them whose latest outcome is not ok: study, case_id, arm, outcome, error.
        report: the report's file.
    """

    run_id: str
    n_written: int
    rows: dict[str, list[Row]]
    failures: list[Row]
    report: Path

    @property
    def failure_line(self) -> str:
        """How many records failed, in how many cases; "" for none."""
        cases = len({row["case_id"] for row in self.failures})
        return f"{len(self.failures)} records of {cases} cases failed" if self.failures else ""


_VIEWS = {"repeats": "numerical_repeats", "probes": "executor_probes", "bound": "residual_bound"}
_TITLES = {
    "repeats": "disagreement in percent (1 - A), gold NLL in nats; excess = cross-path minus Re-prefill",
    "probes": "against interval-wise refresh of the same positions; FP32 budget: twice packed refresh's error",
    "bound": "residual bound in every layer and head (Proposition 14.1); tightness = bound / error",
}
_COLUMNS = {
    "repeats": ("arm", "output", "n", "n_of", "shared", "re_prefill", "own", "cross_path", "excess"),
    "probes": (
        *("arm", "n", "n_of", "argmax_agreement_percent", "n_first_argmax_differs", "logits_relative_l2_high"),
        *("kv_relative_l2_high", "n_over_budget", "n_budget", "budget_largest_ratio"),
    ),
    "bound": (
        *("arm", "n_cases", "n_probed", "n_violated", "error_median", "tightness_low", "tightness_median"),
        *("tightness_q95", "bound_rank_correlation", "value_term_rank_correlation"),
    ),
}


@stage(name="summarise")
def summarise_numerics(
    results: Path, run_id: str, identity: SharedIdentity, tables: Mapping[str, str], n_written: int
) -> NumericalSummary:
    """Query the views of the studies that ran, and write the report.

    Args:
        results: results folder.
        run_id: the run.
        identity: what the rows share; neither the model's name nor the executor counts.
        tables: studies and the tables of their records.
        n_written: records the run computed.
    """
    shared = {name: value for name, value in asdict(identity).items() if name not in ("model", "executor")}
    same = " AND ".join(f"{name} = ?" for name in shared)
    rows: dict[str, list[Row]] = {}
    failures: list[Row] = []
    with store.connect(results) as connection:
        for study, table in tables.items():
            over_all = " AND layer IS NULL" if study == "bound" else ""
            found = connection.sql(f"FROM {_VIEWS[study]} WHERE {same}{over_all}", params=[*shared.values()])
            rows[study] = found.to_arrow_table().to_pylist()
            columns = f"'{study}' AS study, case_id, arm, outcome, error"
            sql = f"SELECT DISTINCT {columns} FROM {table} WHERE {same} AND outcome <> 'ok' ORDER BY ALL"
            failures += connection.sql(sql, params=[*shared.values()]).to_arrow_table().to_pylist()
    return NumericalSummary(run_id, n_written, rows, failures, write_report(results, None))


def print_numerical_summary(summary: NumericalSummary) -> None:
    """Print a run's end on standard output."""
    console = wide_console()
    for study, rows in summary.rows.items():
        for stratum in dict.fromkeys(row["stratum"] for row in rows):
            console.print(_table(study, [row for row in rows if row["stratum"] == stratum]))
    told = f"{summary.n_written} records computed" if summary.n_written else "nothing to do: every record is there"
    console.print(f"run {summary.run_id}: {told}", soft_wrap=True)
    if summary.failures:
        console.print(f"{summary.failure_line}:", style="red")
        for row in summary.failures[:_SHOWN]:
            line = f"  {row['study']} {row['case_id']} {row['arm']}: {row['outcome']}: {row['error']}"
            console.print(line, soft_wrap=True)
    console.print(f"report: {summary.report}", soft_wrap=True)


def _table(study: str, rows: Sequence[Row]) -> Table:
    first = rows[0]
    table = Table(
        title=f"{first['model']} {first['dtype']}, {first['stratum']}: {_TITLES[study]}", title_justify="left"
    )
    for name in _COLUMNS[study]:
        text = name in ("arm", "output")
        table.add_column(name.replace("_", " "), justify="left" if text else "right", no_wrap=text)
    for row in rows:
        table.add_row(*(_shown(row[name]) for name in _COLUMNS[study]))
    return table


def _shown(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
