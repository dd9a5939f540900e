"""The figure of times: median seconds of each component, stacked per arm."""

from collections.abc import Sequence

from cachemend.warehouse.report.figure_frame import Figure, frame, rendered, safe
from cachemend.warehouse.report.formats import number
from cachemend.warehouse.report.labels import budget_label
from cachemend.warehouse.report.palette import STAGE_COLORS
from cachemend.warehouse.report.rows import STAGES
from cachemend.warehouse.report.strata import Stratum
from cachemend.warehouse.report.summaries import ArmSummary, prefill_seconds

_BARS = 32  # more than that would make a page of its own; the table below the figure holds every arm
_ANSWERING = ("query", "decode")


def timings_figure(stratum: Stratum, summaries: Sequence[ArmSummary]) -> Figure | None:
    """Draw the components that can be compared between arms; None if there are none."""
    drawn = [stage for stage in STAGES if stage not in _partly_timed(summaries)]
    timed = [summary for summary in summaries if any(stage in summary.seconds for stage in drawn)]
    if not timed:
        return None
    shortened = len(timed) > _BARS
    if shortened:
        timed = [s for s in timed if s.arm.budget in (None, stratum.headline_budget)]
    # Allocators of one budget stand together; Plotly draws the first row at the bottom, so the axis is reversed.
    timed.sort(key=lambda s: -1.0 if s.arm.budget is None else s.arm.budget)
    labels = [safe(summary.arm.label) for summary in timed]
    height = 110 + 21 * len(timed)
    plot = frame(
        height,
        barmode="stack",
        margin={"l": 8, "r": 16, "t": 8, "b": 48},
        legend={"orientation": "h", "x": 0, "y": -60 / height, "yanchor": "top", "traceorder": "normal"},
        bargap=0.35,
    )
    plot.update_yaxes(autorange="reversed", automargin=True, ticklabelstandoff=6, showgrid=False)
    plot.update_xaxes(title={"text": "Seconds per case, median", "standoff": 8}, rangemode="tozero", zeroline=False)
    for stage in drawn:
        values = [summary.seconds.get(stage) for summary in timed]
        if any(value is not None for value in values):
            plot.add_bar(
                x=values,
                y=labels,
                orientation="h",
                name=stage,
                marker={"color": STAGE_COLORS[stage], "line": {"width": 0}},
                hovertemplate="%{y}<br>" + stage + ": %{x:.4f} s<extra></extra>",
            )
    caption = _caption(stratum, summaries, shortened)
    return rendered("timings", "Time by component", caption, plot, height, wide=True)


def _partly_timed(summaries: Sequence[ArmSummary]) -> list[str]:
    """Stages of answering that some arms lack: drawn for the others, they would make those look slow."""
    return [stage for stage in _ANSWERING if not all(stage in summary.seconds for summary in summaries)]


def _caption(stratum: Stratum, summaries: Sequence[ArmSummary], shortened: bool) -> str:
    parts = ["Median seconds of each component over the cases; stacked medians need not add up to a median total."]
    if shortened and stratum.headline_budget is not None:
        parts.append(f"Allocators are shown at {budget_label(stratum.headline_budget)}; the table has every timed arm.")
    untimed = _partly_timed(summaries)
    if untimed:
        alone = [s.arm.label for s in summaries if any(stage in s.seconds for stage in untimed)]
        only = f", timed only for {', '.join(alone)}" if alone else ""
        parts.append(
            f"Not drawn: {' and '.join(untimed)}{only}. In quality mode the arms of a case are answered as one batch, "
            "so processing the query and decoding have no time per arm."
        )
    if not any(row.latency is not None for row in stratum.rows):
        parts.append("Latency from edit to answer was not measured.")
    prefill = prefill_seconds(stratum.rows)
    if prefill is not None:
        parts.append(
            f"The prefill of the original context (median {number(prefill, 2)} s) comes before the edit, is shared by "
            "all arms of a case and is not drawn."
        )
    return " ".join(parts)
