"""The safety-utility plane: valid hits against false hits, with bands, and the paper's figures as hollow markers."""

from collections.abc import Sequence
from math import sqrt

import plotly.graph_objects as go

from cachemend.warehouse.report.figure_frame import Figure, frame, rendered, safe
from cachemend.warehouse.report.formats import number
from cachemend.warehouse.report.palette import Mark, translucent
from cachemend.warehouse.report.routing.analysis import Arm, Point
from cachemend.warehouse.report.routing.names import CERTIFIED_MARK, arm_label, method_label, method_mark
from cachemend.warehouse.report.routing.points import PointLine
from cachemend.warehouse.report.routing.rows import ROUTER

_TICKS = (0, 0.1, 0.5, 1, 2, 5, 10, 20, 40, 60, 80, 100)
_HEIGHT = 560


def plane(lines: Sequence[PointLine], title: str) -> Figure | None:
    """Draw every method and setting; None where there is no point.

    The axis of false hits is the square root of a percentage: near 0 is what matters, and 0 itself has a place.
    """
    drawn = [line for line in lines if line.point is not None and line.point.vchr is not None]
    if not drawn:
        return None
    plot = frame(_HEIGHT, margin={"l": 56, "r": 24, "t": 12, "b": 56})
    top = max([5.0, *(100 * end for line in drawn for end in _heights(line))])
    plot.update_xaxes(title={"text": "VCHR, % of requests: more is better", "standoff": 8}, zeroline=False)
    plot.update_yaxes(
        title={"text": "FH, % of hits: less is better", "standoff": 8},
        tickvals=[sqrt(tick) for tick in _TICKS],
        ticktext=[f"{tick:g}" for tick in _TICKS],
        range=[-0.03 * sqrt(top), 1.05 * sqrt(top)],
        zeroline=False,
        automargin=True,
    )
    for (method, certified), own in _series(drawn).items():
        mark = CERTIFIED_MARK if certified else method_mark(method)
        name = f"{method_label(method)}, certified" if certified else method_label(method)
        _bands(plot, own, mark, name)
        _points(plot, own, mark, name)
    caption = (
        "Each marker is a method at one setting, mean over the splits; select a name in the legend to hide it. Lines "
        "through a marker: 95 % cluster-bootstrap intervals of the pooled rates. False hits on a square-root scale. "
        "Hollow markers: the paper's figures for the same method and setting, on its own pairs."
    )
    return rendered("plane", title, caption, plot, _HEIGHT, wide=True)


def _heights(line: PointLine) -> list[float]:
    point = line.point
    return [v for v in (point and point.fh, point and point.fh_high, line.paper.fh) if v is not None]


def _series(lines: Sequence[PointLine]) -> dict[tuple[str, bool], list[PointLine]]:
    found: dict[tuple[str, bool], list[PointLine]] = {}
    for line in lines:
        found.setdefault((line.arm.method, line.certified), []).append(line)
    return found


def _bands(plot: go.Figure, lines: Sequence[PointLine], mark: Mark, group: str) -> None:
    x: list[float | None] = []
    y: list[float | None] = []
    for line in lines:
        point = line.point
        if point is None or None in (point.vchr_low, point.vchr_high, point.fh_low, point.fh_high):
            continue
        across, up = _at(point.vchr, point.fh)
        low, bottom = _at(point.vchr_low, point.fh_low)
        high, above = _at(point.vchr_high, point.fh_high)
        x += [low, high, None, across, across, None]
        y += [up, up, None, bottom, above, None]
    plot.add_scatter(
        x=x,
        y=y,
        mode="lines",
        line={"color": translucent(mark.color, 0.45), "width": 1.5},
        hoverinfo="skip",
        showlegend=False,
        legendgroup=safe(group),
    )


def _points(plot: go.Figure, lines: Sequence[PointLine], mark: Mark, group: str) -> None:
    points = [line.point for line in lines if line.point is not None]
    strong = lines[0].arm.method == ROUTER
    _scatter(plot, [_at(p.vchr, p.fh) for p in points], [_told(p) for p in points], mark, group, 11 if strong else 9)
    known = [line for line in lines if line.paper.vchr is not None and line.paper.fh is not None]
    if known:
        hollow = Mark(mark.color, f"{mark.symbol}-open")
        told = [_words(line.arm, line.paper.vchr, line.paper.fh, _source(line)) for line in known]
        places = [_at(line.paper.vchr, line.paper.fh) for line in known]
        _scatter(plot, places, told, hollow, group, 11, listed=False)


def _scatter(
    plot: go.Figure,
    places: Sequence[tuple[float, float]],
    told: Sequence[str],
    mark: Mark,
    group: str,
    size: int,
    listed: bool = True,
) -> None:
    plot.add_scatter(
        x=[x for x, _ in places],
        y=[y for _, y in places],
        mode="markers",
        name=safe(group if listed else f"{group}, paper"),
        legendgroup=safe(group),
        showlegend=listed,
        marker={"symbol": mark.symbol, "size": size, "color": mark.color, "line": {"width": 1.5}},
        customdata=list(told),
        hovertemplate="%{customdata}<extra></extra>",
    )


def _at(vchr: float | None, fh: float | None) -> tuple[float, float]:
    return 100 * (vchr or 0.0), sqrt(100 * (fh or 0.0))


def _told(point: Point) -> str:
    return _words(point.arm, point.vchr, point.fh, f"{point.n_invalid} of {point.accepted} hits invalid")


def _source(line: PointLine) -> str:
    return "paper, pooled counts" if line.paper.pooled else "paper"


def _words(arm: Arm, vchr: float | None, fh: float | None, note: str) -> str:
    rates = [number(None if rate is None else 100 * rate, 2) for rate in (vchr, fh)]
    return safe(f"{arm_label(arm)}: VCHR {rates[0]} %, FH {rates[1]} % ({note})")
