"""One section of the page on the edit study: everything about one group, ready for the template."""

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from cachemend.warehouse.edit_evidence import PRIMARY_K
from cachemend.warehouse.published_edits import PublishedEdit
from cachemend.warehouse.report.edits.analysis import Decision, Distance
from cachemend.warehouse.report.edits.cells import Cell, CellKey, cells_of, headline
from cachemend.warehouse.report.edits.figures import operator_figure, recovery_figure
from cachemend.warehouse.report.edits.finding import finding, statement
from cachemend.warehouse.report.edits.names import PolicyArm
from cachemend.warehouse.report.edits.published import Beside, beside
from cachemend.warehouse.report.edits.retention import Guard, Retained, guards, retention
from cachemend.warehouse.report.edits.rows import INVARIANTS, EditGroup
from cachemend.warehouse.report.edits.sequences import SequenceLine, sequence_lines
from cachemend.warehouse.report.edits.triggers import Triggers, decided, triggers
from cachemend.warehouse.report.edits.viewer import edit_viewer
from cachemend.warehouse.report.failures import Failures, failures
from cachemend.warehouse.report.figure_frame import Figure
from cachemend.warehouse.report.labels import experiment_label
from cachemend.warehouse.report.provenance import Run
from cachemend.warehouse.report.rows import Identity
from cachemend.warehouse.report.summaries import InvariantCount, invariants
from cachemend.warehouse.report.texts import Texts
from cachemend.warehouse.report.viewer import Viewer


class DistanceTable(NamedTuple):
    """Arms at one K (None where no arm has one) by distance, derived items of one split.

    Each distance has why its cell shows nothing. A cell that was not run is None.
    """

    split: str
    k: int | None
    distances: tuple[tuple[int, str | None], ...]
    lines: list[tuple[PolicyArm, bool, tuple[Distance | None, ...]]]


class EditGroupView(NamedTuple):
    """A group of the edit study; `cells` begins with the headline cell, `main`, where there is one."""

    key: str
    identity: Identity
    cohort: str | None
    statement: str
    finding: str
    main: Cell | None
    cells: list[Cell]
    figures: list[Figure]
    distances: DistanceTable | None
    group: EditGroup
    triggers: Triggers
    derived: list[Decision]
    evaluated: list[Decision]
    sequences: list[SequenceLine]
    retention: list[Retained]
    guards: list[Guard]
    beside: list[Beside]
    viewer: Viewer
    failures: Failures
    invariants: list[InvariantCount]
    run_ids: list[str]
    latest: datetime
    template: str = "edit_group.html.jinja"

    @property
    def title(self) -> str:
        """A short name for the table of contents."""
        parts = (self.identity.model, self.identity.dtype, f"{self.identity.executor} executor")
        return f"{experiment_label(self.identity.experiment)}: {', '.join(parts)}"

    @property
    def contents(self) -> list[tuple[str, str]]:
        """Anchors of the section's parts that exist, with their names."""
        parts = [
            ("recovery", "Recovery", self.cells),
            ("contrasts", "Contrasts", any(cell.contrasts for cell in self.cells)),
            ("distance", "Distance", self.distances),
            ("operators", "Transplant and recompute", self.group.operators),
            ("triggers", "When to repair", self.triggers.sentences or self.triggers.gates),
            ("decisions", "Decision table", self.derived or self.evaluated),
            ("sequences", "Several edits", self.sequences),
            ("retention", "Retention", self.retention),
            ("published", "Paper's figures", self.beside),
            ("cases", "Item by item", self.viewer.cases),
            ("failures", "Failures", True),
        ]
        return [(f"{self.key}-{anchor}", name) for anchor, name, present in parts if present]


def edit_group_view(
    number: int,
    identity: Identity,
    group: EditGroup,
    runs: Sequence[Run],
    cohorts: dict[str, str],
    published: Sequence[PublishedEdit],
    texts: Texts,
    room: int,
) -> EditGroupView:
    """Compute a group's section; `room` is what its item viewer may take, in characters."""
    cells = cells_of(group)
    named = {run.cohort_digest: run.cohort for run in runs if run.cohort}
    cohort = named.get(identity.cohort_digest) or cohorts.get(identity.cohort_digest)
    return EditGroupView(
        key=f"e{number}",
        identity=identity,
        cohort=cohort,
        statement=statement(identity, cohort, group, cells),
        finding=finding(cells),
        main=headline(cells),
        cells=cells,
        figures=_figures(cells, group),
        distances=_distances(group, cells),
        group=group,
        triggers=triggers(group.triggers),
        derived=decided(group.decisions, "derived"),
        evaluated=decided(group.decisions, "evaluated"),
        sequences=sequence_lines(group.steps),
        retention=retention(cells),
        guards=guards(group.rows),
        beside=beside(published, cells, group.triggers) if any(cell.recovery for cell in cells) else [],
        viewer=edit_viewer(identity, group.rows, texts, room),
        failures=failures(group.recorded, lambda row: row.arm.order),
        invariants=invariants(group.rows, INVARIANTS),
        run_ids=sorted({row.run_id for row in group.recorded}),
        latest=max(row.recorded_at for row in group.recorded),
    )


def _figures(cells: Sequence[Cell], group: EditGroup) -> list[Figure]:
    drawn = [recovery_figure(cell, wide=index == 0) for index, cell in enumerate(cells)]
    main = headline(cells)
    if main is not None:
        key = main.key
        same = [o for o in group.operators if (o.split, o.condition, o.distance) == key]
        drawn.append(operator_figure(same, f"Transplant beside recompute: {key.label}"))
    return [figure for figure in drawn if figure is not None]


def _distances(group: EditGroup, cells: Sequence[Cell]) -> DistanceTable | None:
    splits = {row.split for row in group.distances}
    split = "held-out" if "held-out" in splits else "dev"
    rows = [row for row in group.distances if row.split == split]
    k = _distance_k(rows)
    rows = [row for row in rows if row.k in (None, k)]
    distances = tuple(sorted({row.distance for row in rows}))
    if len(distances) < 2:
        return None
    found = {(row.arm, row.distance): row for row in rows}
    arms = sorted({(row.arm, row.diagnostic) for row in rows}, key=lambda item: item[0].order)
    lines = [(arm, diagnostic, tuple(found.get((arm, d)) for d in distances)) for arm, diagnostic in arms]
    shortfalls = {cell.key: cell.shortfall for cell in cells}
    heads = tuple((d, shortfalls.get(CellKey(split, "derived", d))) for d in distances)
    return DistanceTable(split, k, heads, lines)


def _distance_k(rows: Sequence[Distance]) -> int | None:
    """The K of the table: the one run at most distances, of those the one nearest to the primary."""
    reached: defaultdict[int, set[int]] = defaultdict(set)
    for row in rows:
        if row.k is not None:
            reached[row.k].add(row.distance)
    return max(reached, key=lambda k: (len(reached[k]), -abs(k - PRIMARY_K), -k), default=None)
