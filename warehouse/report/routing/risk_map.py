"""The risk map: its reliability, strata of mismatch by uncertainty, and conflicts by label."""

from collections.abc import Sequence
from typing import NamedTuple

from cachemend.warehouse.report.figure_frame import Figure, frame, rendered
from cachemend.warehouse.report.formats import number, plural
from cachemend.warehouse.report.routing.analysis import MapRow
from cachemend.warehouse.report.routing.published import Paper

_HEIGHT = 404


class CrossLine(NamedTuple):
    """One row of a cross-table; a cell that holds nothing is None."""

    label: str
    cells: tuple[MapRow | None, ...]


class CrossTable(NamedTuple):
    """Counts and invalid shares, by row and column."""

    columns: tuple[str, ...]
    lines: list[CrossLine]


class RiskMapView(NamedTuple):
    """Everything about the risk map; `sentence` gives its errors beside the paper's."""

    sentence: str | None
    bins: list[MapRow]
    figure: Figure | None
    strata: CrossTable
    strata_sentence: str | None
    conflicts: CrossTable


def risk_map_view(rows: Sequence[MapRow], paper: Paper) -> RiskMapView:
    """Prepare the rows of one group."""
    bins = sorted((row for row in rows if row.kind == "bin"), key=lambda row: (row.predicted or 0.0, row.name))
    strata = _crossed([row for row in rows if row.kind == "stratum"])
    conflicts = _crossed([row for row in rows if row.kind == "conflict"])
    return RiskMapView(_sentence(rows, paper), bins, _figure(bins), strata, _halves(strata), conflicts)


def _sentence(rows: Sequence[MapRow], paper: Paper) -> str | None:
    summary = next((row for row in rows if row.kind == "summary"), None)
    if summary is None:
        return None
    told = [f"ECE {number(summary.ece, 3)}", f"Brier score {number(summary.brier, 3)}"]
    theirs = [paper.plain(name) for name in ("ece", "brier")]
    beside = ""
    if None not in theirs:
        beside = f"; the paper's map on its own pairs: {number(theirs[0], 3)} and {number(theirs[1], 3)}"
    return f"Over {plural(summary.n, 'held-out exposure')}: {' and '.join(told)}{beside}."


def _crossed(rows: Sequence[MapRow]) -> CrossTable:
    """Lay out rows that are named ``LINE, COLUMN``."""
    cells: dict[str, dict[str, MapRow]] = {}
    for row in rows:
        line, _, column = row.name.rpartition(", ")
        cells.setdefault(line, {})[column] = row
    columns = tuple(sorted({column for found in cells.values() for column in found}, key=_column_order))
    return CrossTable(columns, [CrossLine(line, tuple(map(cells[line].get, columns))) for line in sorted(cells)])


def _column_order(name: str) -> tuple[bool, str]:
    return name.endswith("high"), name


def _halves(table: CrossTable) -> str | None:
    """Say in how many strata the half of high uncertainty is the riskier one."""
    if table.columns != ("U low", "U high"):
        return None
    both = [(line.cells[0], line.cells[1]) for line in table.lines]
    shares = [(low.observed, high.observed) for low, high in both if low is not None and high is not None]
    known = [(low, high) for low, high in shares if low is not None and high is not None]
    if not known:
        return None
    worse = sum(high > low for low, high in known)
    return (
        f"In {worse} of {plural(len(known), 'stratum', 'strata')} of mismatch the half of high uncertainty holds more "
        "invalid pairs."
    )


def _figure(bins: Sequence[MapRow]) -> Figure | None:
    known = [row for row in bins if row.predicted is not None and row.observed is not None]
    if not known:
        return None
    most = max(row.n for row in known)
    plot = frame(_HEIGHT, margin={"l": 56, "r": 16, "t": 12, "b": 56}, showlegend=False)
    plot.update_xaxes(title={"text": "Predicted invalid share K, %", "standoff": 8}, range=[-4, 104], zeroline=False)
    plot.update_yaxes(title={"text": "Observed invalid share, %", "standoff": 8}, range=[-4, 104], zeroline=False)
    plot.add_scatter(x=[0, 100], y=[0, 100], mode="lines", line={"width": 1, "color": "#8a93a0", "dash": "dot"})
    plot.add_scatter(
        x=[100 * (row.predicted or 0.0) for row in known],
        y=[100 * (row.observed or 0.0) for row in known],
        mode="lines+markers",
        line={"color": "#2f7ed8", "width": 2},
        marker={"size": [8 + 20 * (row.n / most) ** 0.5 for row in known], "color": "#2f7ed8", "opacity": 0.85},
        customdata=[row.n for row in known],
        hovertemplate="predicted %{x:.1f} %, observed %{y:.1f} %, n = %{customdata}<extra></extra>",
    )
    caption = "Held-out exposures by predicted risk; on the dotted line prediction and outcome agree. Larger: more."
    return rendered("reliability", "Reliability of the risk map", caption, plot, _HEIGHT)
