"""The figures of one stratum."""

from collections.abc import Sequence

from cachemend.warehouse.report.curves import curve
from cachemend.warehouse.report.figure_frame import Figure, budget_axis, frame, height_for, rendered, safe
from cachemend.warehouse.report.labels import ArmKey, allocator_label
from cachemend.warehouse.report.palette import mark
from cachemend.warehouse.report.strata import Stratum
from cachemend.warehouse.report.summaries import ArmSummary
from cachemend.warehouse.report.timings import timings_figure

_LOG_TICKS = [step * 10**power for power in range(6) for step in (1, 2, 5)]
_BANDS = "Bands are 95 % percentile bootstrap intervals over cases, one arm at a time."


def figures(stratum: Stratum, summaries: Sequence[ArmSummary]) -> list[Figure]:
    """Return every figure the rows allow."""
    drawn = [
        curve(
            stratum,
            summaries,
            lambda s: s.em,
            key="em",
            title="Exact match",
            caption=f"Higher is better. Failed cases count as wrong. {_BANDS}",
            axis="Exact match, %",
            digits=1,
            ceiling=100.0,
        ),
        curve(
            stratum,
            summaries,
            lambda s: s.tv,
            key="tv",
            title="Distance of the first answer token from the clean cache",
            caption=f"Total variation between next-token distributions, 0 to 1; lower is better. {_BANDS}",
            axis="Total variation",
            digits=3,
        ),
        curve(
            stratum,
            summaries,
            lambda s: s.gold_nll,
            key="nll",
            title="Negative log-likelihood of the gold answer",
            caption=f"Mean nats per token, teacher-forced; lower is better. {_BANDS}",
            axis="Nats per token",
            digits=3,
        ),
        intervals_figure(stratum, summaries),
        timings_figure(stratum, summaries),
    ]
    return [figure for figure in drawn if figure is not None]


def intervals_figure(stratum: Stratum, summaries: Sequence[ArmSummary]) -> Figure | None:
    """Draw the mean number of contiguous intervals an allocation falls into."""
    found = {s.arm: s.n_intervals for s in summaries if s.n_intervals is not None and s.arm.budget is not None}
    if not found:
        return None
    height = height_for(len(stratum.allocators))
    plot = frame(height, margin={"l": 56, "r": 16, "t": 12, "b": 56}, xaxis=budget_axis(stratum.budgets))
    positive = [value for value in found.values() if value > 0]
    logarithmic = len(positive) == len(found) and max(positive) > 20 * min(positive)
    plot.update_yaxes(title={"text": "Intervals per case, mean", "standoff": 8}, zeroline=False, automargin=True)
    if logarithmic:
        plot.update_yaxes(type="log", tickvals=_LOG_TICKS)
    else:
        plot.update_yaxes(rangemode="tozero")
    for position, name in enumerate(stratum.allocators):
        points = [(i, found.get(ArmKey(name, b))) for i, b in enumerate(stratum.budgets)]
        style = mark(name, position)
        plot.add_scatter(
            x=[float(x) for x, value in points if value is not None],
            y=[value for _, value in points if value is not None],
            mode="lines+markers",
            name=safe(allocator_label(name)),
            line={"color": style.color, "width": 2.5 if position == 0 else 1.75, "dash": style.dash},
            marker={"symbol": style.symbol, "size": 8, "color": style.color},
            hovertemplate="%{fullData.name}: %{y:.1f} intervals<extra></extra>",
        )
    scale = " Logarithmic scale." if logarithmic else ""
    caption = f"How scattered the refreshed positions are: adjacent positions form one interval.{scale}"
    return rendered("intervals", "Interval counts", caption, plot, height)
