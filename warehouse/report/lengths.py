"""Exact match by context length, at one budget."""

from typing import NamedTuple

from cachemend.warehouse.report.labels import ArmKey, allocator_label
from cachemend.warehouse.report.strata import Stratum
from cachemend.warehouse.report.sweep import Cell, cell_of


class LengthLine(NamedTuple):
    """One arm: its score at each length, then over all of them."""

    label: str
    is_reference: bool
    cells: tuple[Cell | None, ...]


class LengthTable(NamedTuple):
    """`lengths` in tokens head the columns; None stands for rows without a nominal length."""

    budget: float | None
    lengths: tuple[int | None, ...]
    lines: tuple[LengthLine, ...]


def length_table(stratum: Stratum) -> LengthTable:
    """Split references, and allocators at the headline budget, by nominal length."""
    cases: dict[int | None, set[str]] = {}
    for row in stratum.rows:
        cases.setdefault(row.length, set()).add(row.case_digest)
    lengths = sorted(cases, key=lambda length: (length is None, length or 0))
    budget = stratum.headline_budget
    arms = [ArmKey(name, None) for name in stratum.references]
    arms += [ArmKey(name, budget) for name in stratum.allocators if ArmKey(name, budget) in stratum.arms]
    lines = []
    for arm in arms:
        rows = stratum.of(*arm)
        parts = [cell_of([row for row in rows if row.length == length], len(cases[length])) for length in lengths]
        label = allocator_label(arm.allocator)
        lines.append(LengthLine(label, arm.is_reference, (*parts, cell_of(rows, stratum.n_of))))
    return LengthTable(budget, tuple(lengths), tuple(lines))
