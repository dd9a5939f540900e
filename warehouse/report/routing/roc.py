"""ROC curves of the raw signals, drawn from the pairs themselves."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cachemend.warehouse.report.figure_frame import Figure, frame, height_for, rendered, safe
from cachemend.warehouse.report.formats import number
from cachemend.warehouse.report.palette import Mark
from cachemend.warehouse.report.routing.names import signal_label
from cachemend.warehouse.report.routing.rows import PairRow

_CURVES = {
    "similarity": Mark("#2f7ed8", "circle"),
    "d_match": Mark("#e07b39", "square", "dash"),
    "u_match": Mark("#2a9d74", "diamond", "dot"),
}
_CUE = Mark("#d1495b", "star")
_MOST = 201  # vertices of a drawn curve


class RocCurve(NamedTuple):
    """Shares of valid (`false_rate`) and of invalid pairs (`true_rate`) ranked at or above each value, from 0 to 1."""

    false_rate: NDArray[np.float64]
    true_rate: NDArray[np.float64]

    @property
    def area(self) -> float:
        """The area under the curve."""
        return float(np.trapezoid(self.true_rate, self.false_rate))


def roc_curve(signal: Sequence[float], valid: Sequence[bool]) -> RocCurve | None:
    """Return the curve of a signal that should be high where reuse is invalid; None where one label is missing.

    Equal values are one step, so that the area under the curve is the AUROC with ties counted half.
    """
    value, good = np.asarray(signal, dtype=np.float64), np.asarray(valid, dtype=bool)
    if not len(good) or good.all() or not good.any():
        return None
    distinct, place = np.unique(-value, return_inverse=True)
    wrong = np.bincount(place, weights=~good, minlength=len(distinct)).cumsum()
    right = np.bincount(place, weights=good, minlength=len(distinct)).cumsum()
    return RocCurve(np.r_[0, right] / right[-1], np.r_[0, wrong] / wrong[-1])


def roc_figure(rows: Sequence[PairRow]) -> Figure | None:
    """Draw the raw signals of a group; None where no pair was measured or one label is missing."""
    plot = frame(height_for(4), margin={"l": 56, "r": 16, "t": 12, "b": 56})
    plot.update_xaxes(title={"text": "Valid pairs ranked as unsafe, %", "standoff": 8}, range=[-1, 101], zeroline=False)
    plot.update_yaxes(title={"text": "Invalid pairs ranked as unsafe, %", "standoff": 8}, range=[-1, 101])
    plot.add_scatter(
        x=[0, 100], y=[0, 100], mode="lines", line={"width": 1, "color": "#8a93a0", "dash": "dot"}, showlegend=False
    )
    drawn = 0
    for name, mark in _CURVES.items():
        found = curve_of(rows, name)
        if found is None:
            continue
        drawn += 1
        keep = np.unique(np.linspace(0, len(found.true_rate) - 1, _MOST).round().astype(int))
        plot.add_scatter(
            x=(100 * found.false_rate[keep]).round(3).tolist(),
            y=(100 * found.true_rate[keep]).round(3).tolist(),
            mode="lines",
            name=safe(f"{signal_label(name)}: {number(found.area, 3)}"),
            line={"color": mark.color, "width": 2, "dash": mark.dash},
            hovertemplate="%{fullData.name}<br>%{y:.1f} % of invalid at %{x:.1f} % of valid<extra></extra>",
        )
    cue = curve_of(rows, "h")
    if cue is not None and len(cue.true_rate) == 3:
        drawn += 1
        plot.add_scatter(
            x=[100 * cue.false_rate[1]],
            y=[100 * cue.true_rate[1]],
            mode="markers",
            name=safe(f"{signal_label('h')}: {number(cue.area, 3)}"),
            marker={"symbol": _CUE.symbol, "size": 11, "color": _CUE.color},
            hovertemplate="%{fullData.name}<br>%{y:.1f} % of invalid at %{x:.1f} % of valid<extra></extra>",
        )
    if not drawn:
        return None
    caption = (
        "How well each raw signal ranks invalid pairs above valid ones, over all measured pairs; the number is the "
        "area under the curve, 0.5 for a signal that says nothing. The conflict is yes or no and has one point."
    )
    return rendered("roc", "ROC curves of the raw signals", caption, plot, height_for(4))


def curve_of(rows: Sequence[PairRow], signal: str) -> RocCurve | None:
    """Return the curve of a signal over the pairs that have it; similarity counts as safe where it is high."""
    sign = -1.0 if signal == "similarity" else 1.0
    known = [(sign * float(value), row.valid) for row in rows if (value := getattr(row, signal)) is not None]
    return roc_curve([value for value, _ in known], [valid for _, valid in known])
