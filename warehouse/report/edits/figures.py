"""The figures of the edit study: margin recovery over K, and recompute beside transplant."""

from collections.abc import Sequence
from typing import Any

from cachemend.calibration import Interval
from cachemend.warehouse.report.drawing import Level, band_line, level_lines
from cachemend.warehouse.report.edits.analysis import Operator, Recovery
from cachemend.warehouse.report.edits.cells import Cell
from cachemend.warehouse.report.edits.names import SUBJECT, PolicyArm, policy_label, policy_mark, policy_order
from cachemend.warehouse.report.figure_frame import Figure, frame, height_for, rendered, safe
from cachemend.warehouse.report.palette import REFERENCE_COLOR, REFERENCE_DASHES

_SHOWN_AT_FIRST = 6  # more bands than this at once hide one another
_BANDS = "Bands are 95 % percentile bootstrap intervals over retained items, one arm at a time."
_LEVELS = {"stale": "dirty", "span": "shift", "clean": "re-prefill"}  # dashes of the references they correspond to


def recovery_figure(cell: Cell, wide: bool = False) -> Figure | None:
    """Draw a cell's mean MR over K; None where nothing was recomputed at any K.

    Rules that set their own length, and the references, have no K and are levels across the figure.
    """
    ks = cell.ks
    drawn = {arm: (r, band) for arm, r in cell.recovery.items() if arm.operator != "transplant" and (band := _band(r))}
    policies = sorted({arm.policy for arm in drawn if arm.k is not None}, key=policy_order)
    if not policies:
        return None
    ends = [end for _, band in drawn.values() for end in (band.low, band.high)]
    low, high = min(0.0, *ends), max(1.0, *ends)
    pad = 0.04 * (high - low)
    height = height_for(len(policies))
    plot = frame(height, margin={"l": 56, "r": 168, "t": 12, "b": 56}, xaxis=_k_axis(ks))
    plot.update_yaxes(
        title={"text": "Margin recovery, mean", "standoff": 8},
        range=[low - pad, high + pad],
        zeroline=False,
        automargin=True,
    )
    for position, policy in enumerate(policies):
        points = [(at, drawn[arm][1]) for at, k in enumerate(ks) if (arm := PolicyArm(policy, k)) in drawn]
        visible = True if position < _SHOWN_AT_FIRST else "legendonly"
        strong = policy == SUBJECT
        band_line(plot, policy_label(policy), policy, policy_mark(policy), points, 2, strong, visible)
    levels = [_level(arm, r.mean or 0.0) for arm, (r, _) in drawn.items() if arm.k is None]
    level_lines(plot, levels, len(ks) - 0.75, (low - pad, high + pad), 2)
    caption = f"0 is the stale cache, 1 the clean one; not clipped. {_BANDS}"
    if any(not arm.is_reference and arm.k is None for arm in drawn):
        caption += " Rules that set their own length are levels across the figure; the table gives what they took."
    if len(policies) > _SHOWN_AT_FIRST:
        caption += " Further policies are listed in the legend: select a name to show it."
    if cell.shortfall:
        caption = f"This cell shows nothing: {cell.shortfall}. {caption}"
    key = f"recovery-{cell.key.split}-{cell.key.condition}-{cell.key.distance}"
    return rendered(key, f"Margin recovery over K: {cell.key.label}", caption, plot, height, wide)


def operator_figure(found: Sequence[Operator], title: str) -> Figure | None:
    """Draw recompute beside transplant on the same positions, one line per arm; None where nothing was transplanted."""
    if not found:
        return None
    height = height_for(len(found))
    plot = frame(height, margin={"l": 56, "r": 24, "t": 12, "b": 40})
    plot.update_xaxes(
        tickvals=[0, 1], ticktext=["Transplanted", "Recomputed"], range=[-0.2, 1.2], showgrid=False, zeroline=False
    )
    plot.update_yaxes(title={"text": "Margin recovery, mean", "standoff": 8}, zeroline=False, automargin=True)
    for each in found:
        style = policy_mark(each.policy)
        plot.add_scatter(
            x=[0.0, 1.0],
            y=[each.mean_transplant, each.mean_recompute],
            mode="lines+markers",
            name=safe(each.arm.label),
            line={"color": style.color, "width": 2, "dash": style.dash},
            marker={"symbol": style.symbol, "size": 9, "color": style.color},
            hovertemplate="%{fullData.name}, %{x}: %{y:.3f}<extra></extra>",
        )
    caption = (
        "The same positions twice: rows copied from the clean cache, and rows recomputed in the stale one. Only the "
        "second can be deployed; copied rows carry what the clean cache knew elsewhere."
    )
    return rendered("operators", title, caption, plot, height)


def _band(recovery: Recovery) -> Interval | None:
    if recovery.mean is None or recovery.low is None or recovery.high is None:
        return None
    return Interval(recovery.mean, recovery.low, recovery.high, recovery.n)


def _level(arm: PolicyArm, value: float) -> Level:
    if arm.is_reference:
        return Level(policy_label(arm.policy), value, REFERENCE_COLOR, REFERENCE_DASHES[_LEVELS[arm.policy]])
    return Level(policy_label(arm.policy), value, policy_mark(arm.policy).color, "dash")


def _k_axis(ks: Sequence[int]) -> dict[str, Any]:
    return {
        "tickvals": list(range(len(ks))),
        "ticktext": [str(k) for k in ks],
        "range": [-0.25, len(ks) - 0.75],
        "showgrid": False,
        "zeroline": False,
        "title": {"text": "K, positions recomputed besides the edit span", "standoff": 8},
    }
