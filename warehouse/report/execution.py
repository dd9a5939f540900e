"""The execution benchmark on the page: its times beside their floors and the paper's Tables 18-20."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from cachemend.warehouse import store
from cachemend.warehouse.report.formats import number

Row = dict[str, Any]

_SAME = ("model", "model_fingerprint", "dtype", "weights", "device", "torch_version", "engine_version")
_ROUNDS = ("n_warmup", "n_timed")


class ExecutionTable(NamedTuple):
    """A table of the section: column names, lines of cells, what differs from the paper, and the timed stages."""

    caption: str
    columns: tuple[str, ...]
    lines: Sequence[tuple[str, ...]]
    differs: str | None
    stages: tuple[str, ...]
    not_timed: list[str]


def read_execution(results: Path) -> list[ExecutionTable]:
    """Return the tables of a results folder; models, precisions, devices and numbers of rounds stay apart."""
    tables = []
    for study, unit, scale in (("refresh", "ms", 1e3), ("attention", "µs", 1e6)):
        tables += [_grid(study, unit, scale, rows) for rows in _groups(_rows(results, f"{study}_timings"))]
    return tables + [_recovery(rows) for rows in _groups(_rows(results, "recovery_timings"), ("cohort_digest",))]


def _rows(results: Path, view: str) -> list[Row]:
    rows: list[Row] = store.ask(results, f"SELECT * FROM {view}").table.to_pylist()
    return rows


def _groups(rows: Iterable[Row], more: Sequence[str] = ("rows",)) -> list[list[Row]]:
    found: dict[tuple[object, ...], list[Row]] = {}
    for row in rows:
        found.setdefault(tuple(row[name] for name in (*_SAME, *_ROUNDS, *more)), []).append(row)
    return list(found.values())


def _grid(study: str, unit: str, scale: float, rows: list[Row]) -> ExecutionTable:
    paper = "paper_ms" if study == "refresh" else "paper_us"
    check = ("relative_l2", "To interval-wise") if study == "refresh" else ("tolerance_used", "Of tolerance")
    rows.sort(key=lambda row: (row["length"], row["n_intervals"]))
    lines = [
        (
            f"{row['length']:,}",
            str(row["n_intervals"]),
            row["executor"],
            row["attention"] if row["how"] is None else f"{row['attention']} ({row['how']})",
            _times(row, scale),
            _scaled(row["floor_seconds"], scale),
            row["floor_of"] if row["floor_seconds"] is not None else "–",
            number(row["floor_ratio"], 2),
            *([_scaled(row["floor_with_copy_seconds"], scale)] if study == "refresh" else []),
            number(row[check[0]], 5),
            number(row[paper], 1 if study == "attention" else 3),
        )
        for row in rows
        if row["seconds_median"] is not None
    ]
    columns = ("N", "R", "Executor", "Attention", f"Median, {unit}", f"Floor, {unit}", "Floor is of", "Over its floor")
    with_copy = (f"Floor with the copy, {unit}",) if study == "refresh" else ()
    first = rows[0]
    what = "Refresh" if study == "refresh" else "Attention alone"
    caption = f"{what} of {first['rows']} positions, {_setting(first)}"
    return _table(caption, (*columns, *with_copy, check[1], f"Paper, {unit}"), lines, rows)


def _recovery(rows: list[Row]) -> ExecutionTable:
    lines = [
        (
            row["method"] if row["budget"] is None else f"{row['budget']:g} %, {row['executor']} {row['attention']}",
            _scaled(row["refresh_seconds"], 1e3),
            _scaled(row["recovery_seconds"], 1e3),
            number(row["replay_ratio"], 2),
            number(row["re_prefill_ratio"], 2),
            number(row["floor_ratio"], 2),
            f"{row['n_contexts']} of {row['n_of']}",
            number(row["paper_refresh_ms"], 2),
            number(row["paper_recovery_ms"], 2),
        )
        for row in rows
        if row["recovery_seconds"] is not None
    ]
    columns = (
        "Method",
        "Refresh or operator, ms",
        "Recovery, ms",
        "Replay takes, times",
        "Re-prefill takes, times",
        "Refresh over its floor",
        "Contexts",
        "Paper: refresh, ms",
        "Paper: recovery, ms",
    )
    caption = f"Recovery, means over contexts of {number(rows[0]['mean_tokens'], 0)} tokens, {_setting(rows[0])}"
    return _table(caption, columns, lines, rows)


def _table(
    caption: str, columns: tuple[str, ...], lines: Sequence[tuple[str, ...]], rows: Sequence[Row]
) -> ExecutionTable:
    differs = next((row["paper_differs"] for row in rows if row["paper_differs"] is not None), None)
    errors = {f"{row['executor']} {row['attention']}: {row['error']}": None for row in rows if row["error"] is not None}
    return ExecutionTable(caption, columns, lines, differs, tuple(rows[0]["timed_stages"]), list(errors))


def _setting(row: Row) -> str:
    return (
        f"{row['model']} in {row['dtype']} with {row['weights']} weights on {row['device']}, "
        f"{row['n_timed']} rounds after {row['n_warmup']}"
    )


def _times(row: Row, scale: float) -> str:
    low, middle, high = (number(scale * row[f"seconds_{name}"], 3) for name in ("low", "median", "high"))
    return f"{middle} [{low}, {high}]"


def _scaled(seconds: float | None, scale: float) -> str:
    return number(None if seconds is None else scale * seconds, 3)
