"""The edit paper's figures beside those of a group: other models on other items, for reading beside."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from cachemend.warehouse import store
from cachemend.warehouse.published_edits import EXPERIMENT, PublishedEdit
from cachemend.warehouse.report.edits.analysis import Trigger
from cachemend.warehouse.report.edits.cells import Cell, CellKey
from cachemend.warehouse.report.edits.names import PolicyArm
from cachemend.warehouse.report.formats import number, p_value

_TINY = 1e-4  # smaller figures are p-values


class Beside(NamedTuple):
    """One published figure, and the same figure here; None where this group does not hold it."""

    place: str
    model: str
    cell: str
    arm: str
    metric: str
    paper: str
    here: str | None


def read_published_edits(results: Path) -> list[PublishedEdit]:
    """Return the edit paper's figures, in its order."""
    columns = ", ".join(f'"{name}"' for name in PublishedEdit._fields)
    answer = store.ask(results, f"SELECT {columns} FROM published WHERE experiment = '{EXPERIMENT}'")
    return [PublishedEdit(**row) for row in answer.table.to_pylist()]


def beside(published: Sequence[PublishedEdit], cells: Sequence[Cell], triggers: Sequence[Trigger]) -> list[Beside]:
    """Put every published figure beside this group's, those that this group holds first."""
    by_key = {cell.key: cell for cell in cells}
    lines = [_line(figure, by_key, triggers) for figure in published]
    return sorted(lines, key=lambda line: line.here is None)


def _line(figure: PublishedEdit, cells: dict[CellKey, Cell], triggers: Sequence[Trigger]) -> Beside:
    digits = _digits(figure)
    ours = _ours(figure, cells, triggers)
    table = f"Table {figure.table}, " if figure.table else ""
    where = [part for part in (figure.condition, figure.split) if part]
    if figure.distance:
        where.append(f"{figure.distance} tokens away")
    return Beside(
        place=f"{table}“{figure.place}”",
        model=figure.model.replace(" + ", ", "),
        cell=", ".join(where) or "–",
        arm=_arm(figure),
        metric=figure.metric.replace("_", " "),
        paper=_written(figure, digits),
        here=None if ours is None else number(ours, digits),
    )


def _arm(figure: PublishedEdit) -> str:
    if figure.policy in ("rivals", "other rules", "all"):
        name = {"rivals": "any deployable rival", "other rules": "every other rule", "all": "all policies"}
        return name[figure.policy] + (f" at K\u00a0=\u00a0{figure.k}" if figure.k else "")
    return PolicyArm(figure.policy, figure.k, figure.operator).label


def _written(figure: PublishedEdit, digits: int) -> str:
    value, low, high = (None if x is None else _short(x, digits) for x in (figure.value, figure.low, figure.high))
    if value is not None:
        return value if high is None else f"{value} (at most {high})"
    if low is None:
        return f"at most {high}"
    return f"at least {low}" if high is None else f"{low} to {high}"


def _short(value: float, digits: int) -> str:
    return p_value(value) if 0 < value < _TINY else number(value, digits)


def _digits(figure: PublishedEdit) -> int:
    values = [value for value in (figure.value, figure.low, figure.high) if value is not None]
    return max(len(f"{value:g}".partition(".")[2]) for value in values) if max(values) >= _TINY else 0


def _ours(figure: PublishedEdit, cells: dict[CellKey, Cell], triggers: Sequence[Trigger]) -> float | None:
    if figure.metric in _STUDY:
        return _STUDY[figure.metric](figure, triggers)
    if figure.split is None or figure.condition is None or figure.distance is None or figure.n == 1:
        return None
    cell = cells.get(CellKey(figure.split, figure.condition, figure.distance))
    found = cell.recovery.get(PolicyArm(figure.policy, figure.k, figure.operator)) if cell else None
    if cell is None or found is None:
        return None
    if figure.metric == "flip_percent":
        return None if found.flip_rate is None else 100 * found.flip_rate
    if figure.metric == "difference_to_random":
        return next((c.difference for c in cell.contrasts if c.policy_b == "random" and c.k == figure.k), None)
    name = {"margin_recovery": "mean"}.get(figure.metric, figure.metric)
    value: float | None = getattr(found, name, None)
    return value


def _failures(figure: PublishedEdit, triggers: Sequence[Trigger]) -> float | None:
    wanted = ("direct",) if figure.condition == "direct" else ("direct", "derived")
    rates = [t.rate for t in triggers if t.kind == "base-rate" and t.condition in wanted and t.rate is not None]
    return 100 * min(rates) if rates else None


def _best(name: str) -> Callable[[PublishedEdit, Sequence[Trigger]], float | None]:
    def best(_: PublishedEdit, triggers: Sequence[Trigger]) -> float | None:
        found = [value for t in triggers if t.kind == "severity" and (value := getattr(t, name)) is not None]
        return max(found, default=None)

    return best


_STUDY: dict[str, Callable[[PublishedEdit, Sequence[Trigger]], float | None]] = {
    "stale_failure_percent": _failures,
    "best_severity_rho": _best("rho"),
    "best_severity_r2": _best("r2"),
}
