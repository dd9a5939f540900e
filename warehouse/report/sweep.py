"""The sweep table: exact match per allocator and budget, references in a column of their own."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from cachemend.calibration import Interval
from cachemend.warehouse.report.labels import ORACLE, ArmKey, allocator_label
from cachemend.warehouse.report.rows import Row
from cachemend.warehouse.report.strata import Stratum


class Cell(NamedTuple):
    """One score: k right of the n cases recorded, of the N cases that have a row of any arm.

    `band` is its 95 % interval in percent, where the table shows one.
    """

    k: int
    n: int
    n_of: int
    n_failed: int = 0
    best: bool = False
    band: Interval | None = None

    @property
    def percent(self) -> float:
        """Exact match over the n recorded cases, percent; failed ones count as wrong."""
        return 100 * self.k / self.n

    @property
    def complete(self) -> bool:
        """Whether every case of the group was recorded."""
        return self.n == self.n_of


class Line(NamedTuple):
    """One row of the table; a cell that was not run is None."""

    label: str
    reference: Cell | None
    cells: tuple[Cell | None, ...]


class SweepTable(NamedTuple):
    """References first, then allocators; `budgets` (percent) head the columns of `cells`."""

    budgets: tuple[float, ...]
    lines: tuple[Line, ...]


def cell_of(rows: Sequence[Row], n_of: int) -> Cell | None:
    """Count an arm's rows; None if there are none."""
    if not rows:
        return None
    correct = sum(int(row.correct) for row in rows)
    return Cell(k=correct, n=len(rows), n_of=n_of, n_failed=sum(not row.ok for row in rows))


def sweep_table(stratum: Stratum, bands: Mapping[ArmKey, Interval]) -> SweepTable:
    """Build the table of a stratum; the best complete non-oracle score of each budget is marked.

    Args:
        stratum: the rows.
        bands: the interval of every arm's exact match, percent.
    """

    def cell(name: str, budget: float | None) -> Cell | None:
        found = cell_of(stratum.of(name, budget), stratum.n_of)
        return found._replace(band=bands[ArmKey(name, budget)]) if found else None

    lines = [
        Line(allocator_label(name), cell(name, None), (None,) * len(stratum.budgets)) for name in stratum.references
    ]
    columns = []
    for budget in stratum.budgets:
        columns.append(_marked({name: cell(name, budget) for name in stratum.allocators}))
    for name in stratum.allocators:
        lines.append(Line(allocator_label(name), None, tuple(column[name] for column in columns)))
    return SweepTable(tuple(stratum.budgets), tuple(lines))


def _marked(cells: dict[str, Cell | None]) -> dict[str, Cell | None]:
    rivals = [cell.percent for name, cell in cells.items() if cell and cell.complete and name != ORACLE]
    top = max(rivals, default=0.0)
    return {
        name: cell._replace(best=top > 0 and name != ORACLE and cell.complete and cell.percent == top) if cell else None
        for name, cell in cells.items()
    }
