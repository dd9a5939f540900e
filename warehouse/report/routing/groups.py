"""One section of the page on response reuse: everything about one group, ready for the template."""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from cachemend.warehouse.report.figure_frame import Figure
from cachemend.warehouse.report.labels import experiment_label
from cachemend.warehouse.report.provenance import Run
from cachemend.warehouse.report.routing.ablations import AblationLine, ablation_figures, ablation_lines
from cachemend.warehouse.report.routing.analysis import Certified, Comparison, Frozen, Order, Point, Probe, Stress
from cachemend.warehouse.report.routing.failed import FailedPairs, failed_pairs
from cachemend.warehouse.report.routing.families import PartTable, part_tables
from cachemend.warehouse.report.routing.finding import finding, judge, statement
from cachemend.warehouse.report.routing.names import arm_order, pool_label
from cachemend.warehouse.report.routing.plane import plane
from cachemend.warehouse.report.routing.points import PointLine, RiskLine, point_lines, risk_lines
from cachemend.warehouse.report.routing.published import STRESS, Paper
from cachemend.warehouse.report.routing.quality import QualityLine, quality_lines, warnings
from cachemend.warehouse.report.routing.risk_map import RiskMapView, risk_map_view
from cachemend.warehouse.report.routing.roc import roc_figure
from cachemend.warehouse.report.routing.rows import PoolIdentity, RoutingGroup
from cachemend.warehouse.report.routing.signals import SignalTable, signal_table
from cachemend.warehouse.report.routing.viewer import PairViewer, pair_viewer

TEMPLATE = "routing_group.html.jinja"
_PAPERS_POOL = "reconstruction"


class ComparisonTable(NamedTuple):
    """One setting of the router against every comparator, each with the paper's differences and joint p."""

    reference: str
    lines: list[tuple[Comparison, tuple[float | None, float | None, float | None]]]


class RoutingGroupView(NamedTuple):
    """A group of the routing study."""

    key: str
    identity: PoolIdentity
    cohort: str | None
    judge: str
    statement: str
    finding: str
    points: list[PointLine]
    plane: Figure | None
    risks: list[RiskLine]
    tests: list[ComparisonTable]
    risk_map: RiskMapView
    parts: list[PartTable]
    signals: SignalTable
    roc: Figure | None
    ablations: list[AblationLine]
    ablation_figures: list[Figure]
    orders: list[Order]
    frozen: list[Frozen]
    certified: list[Certified]
    stress: list[tuple[Stress, float | None]]
    quality: list[QualityLine]
    probes: list[Probe]
    observed: list[Point]
    warnings: list[str]
    lexicons: list[str]
    viewer: PairViewer
    failures: FailedPairs
    run_ids: list[str]
    latest: datetime
    template: str = TEMPLATE

    @property
    def title(self) -> str:
        """A short name for the table of contents."""
        name = experiment_label(self.identity.experiment)
        plan = f"; {self.identity.plan}" if self.identity.plan else ""
        return f"{name}: {pool_label(self.identity.pool)}, verdicts by {self.judge}{plan}"

    @property
    def papers_pairs(self) -> bool:
        """Whether the pool rebuilds the pairs that the paper's figures are of."""
        return self.identity.pool in (_PAPERS_POOL, STRESS)

    @property
    def contents(self) -> list[tuple[str, str]]:
        """Anchors of the section's parts that exist, with their names."""
        parts = [
            ("points", "Safety and utility", self.points),
            ("stress", "Stress set", self.stress),
            ("risk", "Bounds", self.risks),
            ("tests", "Tests", self.tests),
            ("signals", "Signals", self.signals.lines or self.roc),
            ("map", "Risk map", self.risk_map.bins or self.risk_map.strata.lines),
            ("families", "By family and source", self.parts),
            ("ablations", "Ablations", self.ablations),
            ("orders", "Request order", self.orders),
            ("frozen", "Is verification needed", self.frozen),
            ("certified", "Certified settings", self.certified),
            ("verifier", "Verifier", self.quality),
            ("probes", "One side alone", self.probes),
            ("pairs", "Pair by pair", self.viewer.sections),
            ("failures", "Failures", True),
        ]
        return [(f"{self.key}-{anchor}", name) for anchor, name, present in parts if present]


def routing_group_view(
    number: int,
    identity: PoolIdentity,
    group: RoutingGroup,
    runs: Sequence[Run],
    published: dict[bool, Paper],
    room: int,
) -> RoutingGroupView:
    """Compute a group's section; `room` is what its pair viewer may take, in characters."""
    paper = published[identity.pool == STRESS]
    named = (run.cohort for run in runs if run.cohort and run.cohort_digest == identity.cohort_digest)
    cohort = next(named, None)
    points = point_lines(group, paper)
    ablations = ablation_lines(group.ablations, paper)
    return RoutingGroupView(
        key=f"r{number}",
        identity=identity,
        cohort=cohort,
        judge=judge(identity, group),
        statement=statement(identity, cohort, group),
        finding=finding(identity, group),
        points=points,
        plane=plane(points, f"Safety and utility: {pool_label(identity.pool)}"),
        risks=risk_lines(group, paper),
        tests=_tests(group, paper),
        risk_map=risk_map_view(group.map_rows, paper),
        parts=part_tables(group.parts, paper),
        signals=signal_table(group.signals, paper),
        roc=roc_figure(group.rows),
        ablations=ablations,
        ablation_figures=ablation_figures(ablations),
        orders=list(group.orders),
        frozen=list(group.frozen),
        certified=sorted(group.certified, key=lambda row: (row.procedure, row.alpha)),
        stress=_stress(group, paper),
        quality=quality_lines(group.quality, paper),
        probes=list(group.probes),
        observed=[point for point in group.points if point.observations_mean is not None],
        warnings=warnings(group.quality),
        lexicons=sorted({row.lexicon_version for row in group.rows}),
        viewer=pair_viewer(group.rows, group.decisions, room),
        failures=failed_pairs(group.rows),
        run_ids=sorted({run_id for run_id, _ in group.written}),
        latest=max(moment for _, moment in group.written),
    )


def _tests(group: RoutingGroup, paper: Paper) -> list[ComparisonTable]:
    """The reference that is compared with most first."""
    tables = []
    sizes = Counter(test.reference for test in group.tests)
    for reference in sorted(sizes, key=lambda name: (-sizes[name], name)):
        own = sorted((t for t in group.tests if t.reference == reference), key=lambda test: arm_order(test.arm))
        tables.append(ComparisonTable(reference, [(test, _paper_test(test, paper)) for test in own]))
    return tables


def _paper_test(test: Comparison, paper: Paper) -> tuple[float | None, float | None, float | None]:
    vchr, fh, p = (paper.of_arm(test.arm, name) for name in ("d_vchr", "d_fh", "p_joint"))
    return vchr, fh, p


def _stress(group: RoutingGroup, paper: Paper) -> list[tuple[Stress, float | None]]:
    ordered = sorted(group.stress, key=lambda row: arm_order(row.arm))
    return [(row, paper.of_arm(row.arm, "hit_rate")) for row in ordered]
