"""Which items count, and which guards held."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from cachemend.warehouse.report.edits.cells import Cell
from cachemend.warehouse.report.edits.rows import EditRow

PASSED = "passed"
_SHOWN = 3  # labels of failed guards; all are open to SQL


class Retained(NamedTuple):
    """Items of one cell and wording, those retained, and those whose retention no row says."""

    cell: str
    family: str
    n_of: int
    n: int
    unknown: int


class Guard(NamedTuple):
    """How often a guard passed and failed, and what the first failures say."""

    name: str
    passed: int
    failed: int
    labels: tuple[str, ...]


def retention(cells: Sequence[Cell]) -> list[Retained]:
    """Count items by cell and wording."""
    lines = []
    for cell in cells:
        by_family: defaultdict[str, list[EditRow]] = defaultdict(list)
        for row in cell.cases.values():
            by_family[row.family].append(row)
        for family, rows in sorted(by_family.items()):
            kept = [row.retained for row in rows]
            lines.append(Retained(cell.key.label, family, len(rows), kept.count(True), kept.count(None)))
    return lines


def guards(rows: Iterable[EditRow]) -> list[Guard]:
    """Count the guard labels of all items; a failed guard keeps its label."""
    labels: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for row in rows:
        found = json.loads(row.guards) if row.guards else {}
        for name, label in found.items() if isinstance(found, dict) else ():
            labels[str(name)][str(label)] += 1
    counted = []
    for name, found in sorted(labels.items()):
        failures = tuple(label for label in found if label != PASSED)
        counted.append(Guard(name, found[PASSED], found.total() - found[PASSED], failures[:_SHOWN]))
    return counted
