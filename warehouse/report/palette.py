"""Colours and markers of the figures: mid-tones that read on white and on near-black paper."""

from typing import NamedTuple

from cachemend.warehouse.report.labels import ORACLE


class Mark(NamedTuple):
    """How an allocator is drawn; symbol and dash tell series apart without colour."""

    color: str
    symbol: str
    dash: str = "solid"


_MARKS = {
    "sur": Mark("#2f7ed8", "circle"),
    "dense-tokens": Mark("#e07b39", "square"),
    "max-relevance-window": Mark("#2a9d74", "diamond"),
    "bm25-units": Mark("#a06ad1", "triangle-up"),
    "random-units": Mark("#8b929c", "x"),
    "prophetkv": Mark("#d1495b", "star"),
    "infoflow": Mark("#1d9aaa", "pentagon"),
    "cache-craft": Mark("#b98a1f", "hexagon"),
    "cacheblend": Mark("#6b7fd7", "cross"),
    "a3": Mark("#c2609f", "triangle-down"),
    "legolink": Mark("#7a9a35", "star-diamond"),
    "cachetune": Mark("#a1714f", "bowtie"),
    "speccache": Mark("#5a93ad", "hourglass"),
    ORACLE: Mark("#8b929c", "circle-open", "dot"),
}
_SPARE = tuple(_MARKS.values())

REFERENCE_COLOR = "#8a93a0"
REFERENCE_DASHES = {"dirty": "dot", "shift": "dash", "replay": "dashdot", "re-prefill": "solid"}

STAGE_COLORS = {
    "signal": "#a06ad1",
    "allocate": "#c2609f",
    "shift": "#b98a1f",
    "refresh": "#2f7ed8",
    "prefill": "#1d9aaa",
    "query": "#2a9d74",
    "decode": "#8b929c",
}


def mark(allocator: str, position: int) -> Mark:
    """Return an allocator's mark; one not known here takes a spare by its position."""
    return _MARKS.get(allocator) or spare_mark(position)


def spare_mark(position: int) -> Mark:
    """Return one of the marks by position, for a series that has none of its own."""
    return _SPARE[position % len(_SPARE)]


def translucent(color: str, alpha: float) -> str:
    """Return a ``#rrggbb`` colour with an opacity."""
    red, green, blue = (int(color[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},{alpha})"
