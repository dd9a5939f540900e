"""Figures over the budget: a line with its 95 % band per allocator, references as horizontal lines."""

from collections.abc import Callable, Sequence

from cachemend.calibration import Interval
from cachemend.warehouse.report.drawing import Level, band_line, level_lines
from cachemend.warehouse.report.figure_frame import Figure, budget_axis, frame, height_for, rendered
from cachemend.warehouse.report.labels import ArmKey, allocator_label
from cachemend.warehouse.report.palette import REFERENCE_COLOR, REFERENCE_DASHES, mark
from cachemend.warehouse.report.strata import Stratum
from cachemend.warehouse.report.summaries import ArmSummary

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
            visible = True if position < _SHOWN_AT_FIRST else "legendonly"
            style = mark(name, position)
            band_line(plot, allocator_label(name), name, style, present, digits, position == 0, visible)
    levels = [
        Level(
            allocator_label(arm.allocator),
            interval.point,
            REFERENCE_COLOR,
            REFERENCE_DASHES.get(arm.allocator, "solid"),
        )
        for arm, interval in found.items()
        if arm.is_reference
    ]
    level_lines(plot, levels, len(stratum.budgets) - 0.75, (low - pad, top + pad), digits)
    if len(stratum.allocators) > _SHOWN_AT_FIRST:
        caption += " Further allocators are listed in the legend: select a name to show it."
    return rendered(key, title, caption, plot, height)
