"""Spending a budget on ranked units (Algorithm 1, lines 6-8)."""

import math
from collections.abc import Callable, Sequence

import numpy as np

from cachemend.repair_core.intervals import Positions
from cachemend.repair_core.relevance import Scores
from cachemend.repair_core.units import Unit

DECAY = math.exp(-1 / 16)
TOP = 4


def unit_scores(relevance: Scores, units: Sequence[Unit], top: int = TOP) -> Scores:
    """Mean of the `top` largest token scores of each unit (all, if it has fewer)."""
    return np.array([np.sort(relevance[u.start : u.stop])[-top:].mean() for u in units])


def rank(scores: Scores) -> list[int]:
    """Unit indices by falling score, earlier unit first on ties."""
    return [int(i) for i in np.argsort(-scores, kind="stable")]


def admit(
    units: Sequence[Unit], order: Sequence[int], budget: int, window_start: Callable[[Unit, int], int]
) -> Positions:
    """Admit whole units in `order`; the first that does not fit gets one window of the remaining width.

    Args:
        units: partition of the suffix.
        order: ranked unit indices.
        budget: positions to fill; at most the suffix length.
        window_start: (unit, width) -> suffix index at which the window inside the unit begins.
    """
    chosen: list[Positions] = []
    left = budget
    for index in order:
        if left == 0:
            break
        unit = units[index]
        if unit.length <= left:
            start, width = unit.start, unit.length
        else:
            start, width = window_start(unit, left), left
        chosen.append(np.arange(start, start + width))
        left -= width
    return np.concatenate(chosen) if chosen else np.empty(0, dtype=np.int64)


def envelope(relevance: Scores, decay: float = DECAY) -> Scores:
    """Forward envelope u_t = max(exp(r_t - r_max), decay u_(t-1)) of one unit's scores (paper Eq. 8: e^(-1/16))."""
    out = np.exp(relevance - relevance.max())
    for t in range(1, len(out)):
        out[t] = max(out[t], decay * out[t - 1])
    return out


def best_window(values: Scores, width: int) -> int:
    """Start of the earliest window of `width` with the largest sum.

    Sums are correctly rounded: the order in which equal values stand must not decide a tie.
    """
    terms = values.tolist()
    sums = [math.fsum(terms[start : start + width]) for start in range(len(terms) - width + 1)]
    return sums.index(max(sums))


def envelope_window(relevance: Scores) -> Callable[[Unit, int], int]:
    """The window rule of SUR for `admit`, over suffix scores."""

    def start(unit: Unit, width: int) -> int:
        return unit.start + best_window(envelope(relevance[unit.start : unit.stop]), width)

    return start
