"""False hits by change family and by source: methods down, parts across."""

from collections.abc import Sequence
from typing import NamedTuple

from cachemend.warehouse.report.routing.analysis import Arm, Part
from cachemend.warehouse.report.routing.names import EXACT, RIVAL, arm_order
from cachemend.warehouse.report.routing.published import Paper
from cachemend.warehouse.report.routing.rows import ROUTER

_MAIN = (ROUTER, EXACT, RIVAL)
_PUBLISHED = ("exposures", "n_invalid", "fh")


class PartHead(NamedTuple):
    """A family or source, its held-out exposures, and what the paper gives of it: exposures, false hits, FH."""

    name: str
    exposures: int
    paper_exposures: float | None
    paper_invalid: float | None
    paper_fh: float | None


class PartLine(NamedTuple):
    """A method and setting; a part it has no row of is None."""

    arm: Arm
    main: bool
    cells: tuple[Part | None, ...]


class PartTable(NamedTuple):
    """One way of taking the exposures apart; `by` names it. `paper_arm` is the setting of the paper's figures."""

    by: str
    heads: list[PartHead]
    lines: list[PartLine]
    paper_arm: Arm

    @property
    def published(self) -> bool:
        """Whether the paper gives counts for any of the parts."""
        return any(head.paper_exposures is not None for head in self.heads)


PAPER_ARM = Arm(ROUTER, "alpha=0 B=0.16")


def part_tables(rows: Sequence[Part], paper: Paper) -> list[PartTable]:
    """Return the tables by family and by source, where there are rows."""
    by_family = [row for row in rows if row.family and not row.source]
    by_source = [row for row in rows if row.source and not row.family]
    made = [_table("family", by_family, paper), _table("source", by_source, paper)]
    return [table for table in made if table.heads]


def _table(by: str, rows: Sequence[Part], paper: Paper) -> PartTable:
    cells: dict[Arm, dict[str, Part]] = {}
    exposures: dict[str, int] = {}
    for row in rows:
        name: str = getattr(row, by)
        cells.setdefault(row.arm, {})[name] = row
        exposures[name] = max(row.exposures, exposures.get(name, 0))
    names = sorted(exposures)
    heads = [
        PartHead(name, exposures[name], *(_published(paper, by, name, metric) for metric in _PUBLISHED))
        for name in names
    ]
    lines = [
        PartLine(arm, arm.method in _MAIN, tuple(map(cells[arm].get, names))) for arm in sorted(cells, key=arm_order)
    ]
    return PartTable(by, heads, lines, PAPER_ARM)


def _published(paper: Paper, by: str, name: str, metric: str) -> float | None:
    return paper.of_family(PAPER_ARM, name, metric) if by == "family" else None
