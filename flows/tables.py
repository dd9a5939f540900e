"""Printing the rows of a query as a table, CSV or JSON."""

import csv
import json
import math
import sys
from typing import Any

import pyarrow as pa
from rich.console import Console
from rich.table import Table

from cachemend.repair_core.errors import InputError, nearest

FORMS = ("table", "csv", "json")


_FILE_WIDTH = 10_000  # nothing is cut or folded where no screen limits the line


def wide_console() -> Console:
    """A console on standard output that folds lines to a terminal's width, and never elsewhere."""
    console = Console(markup=False, highlight=False)
    return console if console.is_terminal else Console(markup=False, highlight=False, width=_FILE_WIDTH)


def check_form(form: str) -> None:
    """Check a format's name before the query runs.

    Raises:
        InputError: it is unknown.
    """
    if form not in FORMS:
        raise InputError(f"format {form!r} is unknown; {nearest(form, FORMS)}")


def print_rows(rows: pa.Table, form: str) -> None:
    """Print rows on standard output. NULL is empty in tables and CSV; lists are JSON texts there."""
    if form == "json":
        json.dump([_plain(row) for row in rows.to_pylist()], sys.stdout, default=str)
        print()
    elif form == "csv":
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(rows.column_names)
        writer.writerows([_cell(value) for value in row.values()] for row in _records(rows))
    else:
        table = Table()
        for name in rows.column_names:
            table.add_column(name, overflow="fold")
        for row in _records(rows):
            table.add_row(*(_shown(value) for value in row.values()))
        wide_console().print(table)


def _records(rows: pa.Table) -> list[dict[int, Any]]:
    # By position: two columns of a query may share a name.
    columns = [column.to_pylist() for column in rows.columns]
    return [dict(enumerate(values)) for values in zip(*columns, strict=True)]


def _cell(value: Any) -> Any:
    if isinstance(value, list | dict):
        return json.dumps(_plain(value), default=str)
    return value


def _shown(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(_cell(value))


def _plain(value: Any) -> Any:
    """JSON knows no NaN and no infinity."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list) else value
