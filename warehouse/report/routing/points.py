"""The table behind the safety-utility plane: what each method and setting did, the paper's figures, the ceiling."""

from typing import NamedTuple

from cachemend.warehouse.report.routing.analysis import Arm, Point, Risk
from cachemend.warehouse.report.routing.names import arm_order
from cachemend.warehouse.report.routing.published import Paper
from cachemend.warehouse.report.routing.rows import RoutingGroup


class PaperPoint(NamedTuple):
    """The paper's rates of a method and setting, as fractions, and its relative cost.

    `pooled`: the rates are those of its counts over all splits, where it gives no means over splits.
    """

    vchr: float | None
    fh: float | None
    cost: float | None
    pooled: bool


class PointLine(NamedTuple):
    """A method and setting.

    Attributes:
        point: what it reached with the verifier of the group; None where only the ceiling was computed.
        ceiling: the same with the label in place of a verifier: a diagnostic.
        certified: whether the setting was chosen with a certificate.
    """

    arm: Arm
    point: Point | None
    ceiling: Point | None
    paper: PaperPoint
    certified: bool


class RiskLine(NamedTuple):
    """Held-out counts of a method and setting with the paper's (Tables 7 and 11)."""

    risk: Risk
    paper_accepted: float | None
    paper_invalid: float | None
    paper_wilson: float | None
    paper_over: float | None


def point_lines(group: RoutingGroup, paper: Paper) -> list[PointLine]:
    """Return one line per method and setting, settings with a certificate last."""
    points = {point.arm: point for point in group.points}
    ceiling = {point.arm: point for point in group.ceiling}
    certified = {row.arm for row in group.certified}
    lines = [
        PointLine(arm, points.get(arm), ceiling.get(arm), paper_point(paper, arm), arm in certified)
        for arm in points.keys() | ceiling.keys()
    ]
    return sorted(lines, key=lambda line: (line.certified, arm_order(line.arm)))


def paper_point(paper: Paper, arm: Arm) -> PaperPoint:
    """Return the paper's figures of a method and setting."""
    vchr, fh, cost = (paper.of_arm(arm, name) for name in ("vchr", "fh", "relative_cost"))
    counted = paper.pooled(arm) if vchr is None and fh is None else None
    return PaperPoint(vchr, fh, cost, False) if counted is None else PaperPoint(*counted, cost, True)


def risk_lines(group: RoutingGroup, paper: Paper) -> list[RiskLine]:
    """Return the bounds of every method and setting."""
    return [
        RiskLine(
            risk,
            paper.of_arm(risk.arm, "accepted"),
            paper.of_arm(risk.arm, "n_invalid"),
            paper.of_arm(risk.arm, "wilson_upper"),
            paper.of_arm(risk.arm, "splits_over_alpha"),
        )
        for risk in sorted(group.risks, key=lambda risk: arm_order(risk.arm))
    ]
