"""Figures over the budget: a line with its 95 % band per allocator, references as horizontal lines."""

from collections.abc import Callable, Sequence

import plotly.graph_objects as go

from cachemend.calibration import Interval
from cachemend.warehouse.report.figure_frame import Figure, budget_axis, frame, height_for, rendered, safe
from cachemend.warehouse.report.formats import number
from cachemend.warehouse.report.labels import ArmKey, allocator_label
from cachemend.warehouse.report.palette import REFERENCE_COLOR, REFERENCE_DASHES, mark, translucent
from cachemend.warehouse.report.strata import Stratum
from cachemend.warehouse.report.summaries import ArmSummary

_PLOT_PIXELS = 300  # about what titles and legend leave; sets how close two labels may stand
_LABEL_PIXELS = 14
_SHOWN_AT_FIRST = 6  # more bands than this at once hide one another

Measure = Callable[[ArmSummary], Interval | None]


def curve(
    stratum: Stratum,
    summaries: Sequence[ArmSummary],
    measure: Measure,
    *,
    key: str,
    title: str,
    caption: str,
    axis: str,
    digits: int,
    ceiling: float | None = None,
) -> Figure | None:
    """Draw one measure against the budget; None if no allocator has it."""
    found = {s.arm: interval for s in summaries if (interval := measure(s)) is not None}
    if not any(arm.budget is not None for arm in found):
        return None
    top = ceiling if ceiling is not None else max(interval.high for interval in found.values())
    low = min(0.0, *(interval.low for interval in found.values()))
    pad = 0.04 * ((top - low) or 1.0)
    height = height_for(len(stratum.allocators))
    plot = frame(height, margin={"l": 56, "r": 74, "t": 12, "b": 56}, xaxis=budget_axis(stratum.budgets))
    plot.update_yaxes(
        title={"text": axis, "standoff": 8}, range=[low - pad, top + pad], zeroline=False, automargin=True
    )
    for position, name in enumerate(stratum.allocators):
        points = [(i, found.get(ArmKey(name, b))) for i, b in enumerate(stratum.budgets)]
        present = [(x, interval) for x, interval in points if interval is not None]
        if present:
            _series(plot, name, position, present, digits)
    lines = {arm.allocator: interval.point for arm, interval in found.items() if arm.is_reference}
    _references(plot, lines, len(stratum.budgets), (low - pad, top + pad), digits)
    if len(stratum.allocators) > _SHOWN_AT_FIRST:
        caption += " Further allocators are listed in the legend: select a name to show it."
    return rendered(key, title, caption, plot, height)


def _series(plot: go.Figure, name: str, position: int, points: Sequence[tuple[int, Interval]], digits: int) -> None:
    style = mark(name, position)
    visible = True if position < _SHOWN_AT_FIRST else "legendonly"
    x = [float(at) for at, _ in points]
    lows, highs = ([getattr(i, end) for _, i in points] for end in ("low", "high"))
    if len(points) > 1:
        plot.add_scatter(
            x=x + x[::-1],
            y=highs + lows[::-1],
            fill="toself",
            fillcolor=translucent(style.color, 0.17 if position == 0 else 0.09),
            line={"width": 0},
            mode="lines",
            hoverinfo="skip",
            showlegend=False,
            legendgroup=name,
            visible=visible,
        )
    hover = [f"{number(i.low, digits)} to {number(i.high, digits)}, n = {i.n}" for _, i in points]
    plot.add_scatter(
        x=x,
        y=[interval.point for _, interval in points],
        error_y=None if len(points) > 1 else _bars(points[0][1]),
        mode="lines+markers",
        name=safe(allocator_label(name)),
        legendgroup=name,
        line={"color": style.color, "width": 2.5 if position == 0 else 1.75, "dash": style.dash},
        marker={"symbol": style.symbol, "size": 8, "color": style.color},
        customdata=hover,
        hovertemplate=f"%{{fullData.name}}: %{{y:.{digits}f}}<br>95 %: %{{customdata}}<extra></extra>",
        visible=visible,
    )


def _bars(interval: Interval) -> dict[str, object]:
    return {
        "type": "data",
        "symmetric": False,
        "array": [interval.high - interval.point],
        "arrayminus": [interval.point - interval.low],
    }


def _references(
    plot: go.Figure, values: dict[str, float], n_budgets: int, axis: tuple[float, float], digits: int
) -> None:
    for name, value in values.items():
        plot.add_scatter(
            x=[-0.25, n_budgets - 0.75],
            y=[value, value],
            mode="lines",
            name=allocator_label(name),
            line={"color": REFERENCE_COLOR, "width": 1.25, "dash": REFERENCE_DASHES.get(name, "solid")},
            hovertemplate=f"{allocator_label(name)}: %{{y:.{digits}f}}<extra></extra>",
            showlegend=False,
        )
    for name, at in _spread(values, *axis).items():
        plot.add_annotation(
            x=1,
            xref="paper",
            xanchor="left",
            xshift=6,
            y=at,
            yanchor="middle",
            text=allocator_label(name),
            showarrow=False,
            font={"size": 11},
        )


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
