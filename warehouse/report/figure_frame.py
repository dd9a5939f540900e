"""What all figures share: a frame without chrome, safe names, and compact JSON for the page."""

import json
from collections.abc import Sequence
from html import escape
from typing import Any, NamedTuple

import plotly.graph_objects as go
from markupsafe import Markup

from cachemend.warehouse.report.labels import budget_label

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif"


class Figure(NamedTuple):
    """A figure of the page: `data` is Plotly JSON that is safe inside a script element."""

    key: str
    title: str
    caption: str
    data: Markup
    height: int
    wide: bool = False


def safe(text: str) -> str:
    """Return text that Plotly, which reads some HTML in labels, shows as it is."""
    return escape(text, quote=False)


def rendered(key: str, title: str, caption: str, plot: go.Figure, height: int, wide: bool = False) -> Figure:
    """Return a Plotly figure as the page embeds it."""
    return Figure(key, title, caption, _unmarked(plot.to_json()), height, wide)


def embedded(value: Any) -> Markup:
    """Return JSON values as text that is safe inside a script element."""
    return _unmarked(json.dumps(value, separators=(",", ":"), allow_nan=False))


def _unmarked(text: str) -> Markup:
    for character, code in (("<", "\\u003c"), (">", "\\u003e"), ("&", "\\u0026")):
        text = text.replace(character, code)
    return Markup(text)  # no character left that markup could use


def frame(height: int, **layout: Any) -> go.Figure:
    """Return an empty figure; colours of text and grid come from the page's style sheet."""
    plot = go.Figure()
    plot.update_layout(
        template="none",
        height=height,
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"family": FONT, "size": 12},
        dragmode=False,
        hovermode="closest",
        legend={"orientation": "h", "x": 0, "xanchor": "left", "y": -0.16, "yanchor": "top", "font": {"size": 12}},
    )
    plot.update_layout(**layout)
    return plot


def height_for(n_series: int) -> int:
    """Return the height in pixels that leaves room for the legend's lines."""
    return 380 + 24 * -(-n_series // 3)


def budget_axis(budgets: Sequence[float]) -> dict[str, Any]:
    """Return an x axis with the budgets evenly spaced at 0, 1, 2, ..."""
    return {
        "tickvals": list(range(len(budgets))),
        "ticktext": [budget_label(budget) for budget in budgets],
        "range": [-0.25, len(budgets) - 0.75],
        "showgrid": False,
        "zeroline": False,
        "title": {"text": "Share of the suffix recomputed", "standoff": 8},
    }
