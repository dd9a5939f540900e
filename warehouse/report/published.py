"""The papers' own figures in the shape of the sweep table: other models on other rosters, for reading beside."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from cachemend.repair_core.errors import InputError, nearest
from cachemend.warehouse import store
from cachemend.warehouse.report.labels import ORACLE, allocator_label, allocator_order, reference_names

_PAPERS = {"kv-cache-repair": "Budgeted KV-Cache Repair for Evolving Contexts"}


class PublishedRow(NamedTuple):
    """One row of the view `published`; `value` in percent over `n` cases."""

    paper: str
    table: int
    model: str
    allocator: str
    budget: float | None
    value: float
    n: int


class PublishedCell(NamedTuple):
    """One published score, percent, and whether it is the best non-oracle one at its budget."""

    percent: float
    best: bool


class PublishedLine(NamedTuple):
    """One row of a published table; a score the paper does not give is None."""

    label: str
    reference: PublishedCell | None
    cells: tuple[PublishedCell | None, ...]


class PublishedTable(NamedTuple):
    """One model's table; `budgets` (percent) head the columns of `cells`."""

    model: str
    source: str
    n: int
    budgets: tuple[float, ...]
    lines: tuple[PublishedLine, ...]


def read_published(results: Path, experiment: str) -> list[PublishedTable]:
    """Return the published tables of an experiment's exact match, in the papers' order; none if unpublished."""
    answer = store.ask(results, 'SELECT * FROM published ORDER BY paper, "table"')
    rows = [
        PublishedRow(**{name: row[name] for name in PublishedRow._fields})
        for row in answer.table.to_pylist()
        if row["experiment"] == experiment and row["metric"] == "em_percent"
    ]
    return published_tables(rows)


def published_tables(rows: Iterable[PublishedRow]) -> list[PublishedTable]:
    """Return one table per model, in the order given."""
    by_model: dict[str, list[PublishedRow]] = {}
    for row in rows:
        by_model.setdefault(row.model, []).append(row)
    return [_table(model, found) for model, found in by_model.items()]


def chosen_model(tables: Sequence[PublishedTable], wanted: str | None) -> str | None:
    """Return the full name of the published model to show first: the wanted one, else the first.

    Args:
        wanted: a full name, or its last part ("Qwen3-8B").

    Raises:
        InputError: no published model has that name.
    """
    names = [table.model for table in tables]
    if wanted is None:
        return names[0] if names else None
    for name in names:
        if wanted.lower() in (name.lower(), name.rsplit("/", 1)[-1].lower()):
            return name
    raise InputError(f"published model {wanted!r} is unknown; {nearest(wanted, names)}")


def _table(model: str, rows: Sequence[PublishedRow]) -> PublishedTable:
    values = {(row.allocator, row.budget): row.value for row in rows}
    budgets = tuple(sorted({row.budget for row in rows if row.budget is not None}))
    top = {
        budget: max((v for (name, b), v in values.items() if b == budget and name != ORACLE), default=None)
        for budget in budgets
    }

    def cell(name: str, budget: float | None) -> PublishedCell | None:
        value = values.get((name, budget))
        if value is None:
            return None
        return PublishedCell(value, budget is not None and name != ORACLE and value == top[budget])

    references = reference_names(row.allocator for row in rows if row.budget is None)
    others = sorted({row.allocator for row in rows if row.budget is not None}, key=allocator_order)
    lines = [
        PublishedLine(allocator_label(name), cell(name, None), tuple(cell(name, b) for b in budgets))
        for name in references + others
    ]
    source = f"{_PAPERS.get(rows[0].paper, rows[0].paper)}, Table {rows[0].table}"
    return PublishedTable(model, source, rows[0].n, budgets, tuple(lines))
