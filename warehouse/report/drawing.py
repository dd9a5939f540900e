"""Lines with their bands, and levels across a figure with labels at its right edge."""

from collections.abc import Sequence
from typing import NamedTuple

import plotly.graph_objects as go

from cachemend.calibration import Interval
from cachemend.warehouse.report.figure_frame import safe
from cachemend.warehouse.report.formats import number
from cachemend.warehouse.report.palette import Mark, translucent

_PLOT_PIXELS = 300  # about what titles and legend leave; sets how close two labels may stand
_LABEL_PIXELS = 14


class Level(NamedTuple):
    """A horizontal line: its label, value and look."""

    label: str
    value: float
    color: str
    dash: str


def band_line(
    plot: go.Figure,
    label: str,
    group: str,
    style: Mark,
    points: Sequence[tuple[int, Interval]],
    digits: int,
    strong: bool = False,
    visible: bool | str = True,
) -> None:
    """Draw one series with its 95 % band, or with error bars where it has a single point.

    Args:
        label: name in the legend, as plain text.
        group: identifier that line and band share.
        points: place on the axis and interval, in order.
        strong: draw it as the series the figure is about.
        visible: True, or "legendonly".
    """
    x = [float(at) for at, _ in points]
    lows, highs = ([getattr(i, end) for _, i in points] for end in ("low", "high"))
    if len(points) > 1:
        plot.add_scatter(
            x=x + x[::-1],
            y=highs + lows[::-1],
            fill="toself",
            fillcolor=translucent(style.color, 0.17 if strong else 0.09),
            line={"width": 0},
            mode="lines",
            hoverinfo="skip",
            showlegend=False,
            legendgroup=group,
            visible=visible,
        )
    hover = [f"{number(i.low, digits)} to {number(i.high, digits)}, n = {i.n}" for _, i in points]
    plot.add_scatter(
        x=x,
        y=[interval.point for _, interval in points],
        error_y=None if len(points) > 1 else _bars(points[0][1]),
        mode="lines+markers",
        name=safe(label),
        legendgroup=group,
        line={"color": style.color, "width": 2.5 if strong else 1.75, "dash": style.dash},
        marker={"symbol": style.symbol, "size": 8, "color": style.color},
        customdata=hover,
        hovertemplate=f"%{{fullData.name}}: %{{y:.{digits}f}}<br>95 %: %{{customdata}}<extra></extra>",
        visible=visible,
    )


def level_lines(plot: go.Figure, levels: Sequence[Level], right: float, axis: tuple[float, float], digits: int) -> None:
    """Draw levels from the left edge to `right`, labelled outside; `axis` is the range of the y axis."""
    for level in levels:
        plot.add_scatter(
            x=[-0.25, right],
            y=[level.value, level.value],
            mode="lines",
            name=safe(level.label),
            line={"color": level.color, "width": 1.25, "dash": level.dash},
            hovertemplate=f"{safe(level.label)}: %{{y:.{digits}f}}<extra></extra>",
            showlegend=False,
        )
    for label, at in _spread({level.label: level.value for level in levels}, *axis).items():
        plot.add_annotation(
            x=1,
            xref="paper",
            xanchor="left",
            xshift=6,
            y=at,
            yanchor="middle",
            text=safe(label),
            showarrow=False,
            font={"size": 11},
        )


def _bars(interval: Interval) -> dict[str, object]:
    return {
        "type": "data",
        "symmetric": False,
        "array": [interval.high - interval.point],
        "arrayminus": [interval.point - interval.low],
    }


def _spread(values: dict[str, float], bottom: float, top: float) -> dict[str, float]:
    """Move labels off one another, each near its value and all inside the axis, which runs from bottom to top."""
    gap = (top - bottom) * _LABEL_PIXELS / _PLOT_PIXELS
    names = sorted(values, key=lambda name: values[name])
    at: list[float] = []
    for name in names:
        at.append(max(values[name], at[-1] + gap if at else bottom + gap / 2))
    ceiling = top - gap / 2
    for index in reversed(range(len(at))):
        at[index] = min(at[index], ceiling)
        ceiling = at[index] - gap
    return dict(zip(names, at, strict=True))
