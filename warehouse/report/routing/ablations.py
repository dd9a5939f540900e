"""What each part of the router contributes: the table, and bars of the changes."""

from collections.abc import Sequence
from typing import NamedTuple

from cachemend.warehouse.report.figure_frame import Figure, frame, rendered, safe
from cachemend.warehouse.report.palette import translucent
from cachemend.warehouse.report.routing.analysis import Ablation
from cachemend.warehouse.report.routing.names import ablation_label, setting_label
from cachemend.warehouse.report.routing.published import Paper

FULL = "full"
_COLOR = "#2f7ed8"


class AblationLine(NamedTuple):
    """An ablation with the paper's rates."""

    row: Ablation
    paper_vchr: float | None
    paper_fh: float | None


def ablation_lines(rows: Sequence[Ablation], paper: Paper) -> list[AblationLine]:
    """Return the full router, then each ablation, the largest loss of valid hits first."""
    ordered = sorted(rows, key=lambda row: (row.setting, row.ablation != FULL, row.d_vchr or 0.0, row.ablation))
    return [
        AblationLine(row, *(paper.of_ablation(row.ablation, row.setting, metric) for metric in ("vchr", "fh")))
        for row in ordered
    ]


def ablation_figures(lines: Sequence[AblationLine]) -> list[Figure]:
    """Draw the change of each rate beside the paper's, per operating point."""
    figures = []
    for setting in dict.fromkeys(line.row.setting for line in lines):
        own = [line for line in lines if line.row.setting == setting]
        full = next((line for line in own if line.row.ablation == FULL), None)
        left_out = [line for line in own if line.row.ablation != FULL]
        if full is not None and left_out:
            figures += [_bars(left_out, full, name, setting) for name in ("vchr", "fh")]
    return figures


def _bars(lines: Sequence[AblationLine], full: AblationLine, name: str, setting: str) -> Figure:
    height = 130 + 44 * len(lines)
    plot = frame(
        height,
        barmode="group",
        margin={"l": 8, "r": 16, "t": 8, "b": 48},
        legend={"orientation": "h", "x": 0, "y": -60 / height, "yanchor": "top"},
    )
    plot.update_yaxes(autorange="reversed", automargin=True, ticklabelstandoff=6, showgrid=False)
    plot.update_xaxes(title={"text": f"Change of {name.upper()}, percentage points", "standoff": 8})
    labels = [safe(ablation_label(line.row.ablation)) for line in lines]
    base: float | None = getattr(full, f"paper_{name}")
    ours = [_points(getattr(line.row, f"d_{name}")) for line in lines]
    theirs = [_change(getattr(line, f"paper_{name}"), base) for line in lines]
    for label, values, color in (("Measured", ours, _COLOR), ("Paper", theirs, translucent(_COLOR, 0.15))):
        if any(value is not None for value in values):
            plot.add_bar(
                x=values,
                y=labels,
                orientation="h",
                name=label,
                marker={"color": color, "line": {"width": 1.25, "color": _COLOR}},
                hovertemplate="%{y}<br>" + label + ": %{x:.2f} points<extra></extra>",
            )
    better = "below zero, the part brings valid hits" if name == "vchr" else "above zero, the part averts false hits"
    caption = f"The rate with the part left out minus that of the full router: {better}."
    title = f"Change of {name.upper()} at {setting_label(setting)}"
    return rendered(f"ablation-{name}", title, caption, plot, height)


def _points(value: float | None) -> float | None:
    return None if value is None else 100 * value


def _change(value: float | None, base: float | None) -> float | None:
    return None if value is None or base is None else 100 * (value - base)
