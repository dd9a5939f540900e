"""Where the window stands inside the one unit that does not fit (paper section 7.3, Eq. 8: the forward envelope)."""

from collections.abc import Callable, Sequence

import numpy as np

from cachemend.repair_core.allocators.unit_budget import DECAY, admit, best_window, envelope, rank, unit_scores
from cachemend.repair_core.context import RepairContext
from cachemend.repair_core.intervals import Positions
from cachemend.repair_core.relevance import Scores
from cachemend.repair_core.units import Unit
from cachemend.repair_core.variants.variant import Select

WindowStart = Callable[[Unit, int], int]
WindowRule = Callable[[Scores], WindowStart]


def head(_: Scores) -> WindowStart:
    """The first tokens of the unit."""
    return lambda unit, _width: unit.start


def tail(_: Scores) -> WindowStart:
    """The last tokens of the unit."""
    return lambda unit, width: unit.stop - width


def forward(decay: float) -> WindowRule:
    """The window of the largest summed forward envelope; with `decay` e^(-1/16) that of SUR, with 0 no envelope."""
    return _enveloped(lambda scores: envelope(scores, decay))


def backward(relevance: Scores) -> WindowStart:
    """The same with the envelope run from the last token to the first: what stands before a relevant token."""
    return _enveloped(lambda scores: envelope(scores[::-1])[::-1])(relevance)


def symmetric(relevance: Scores) -> WindowStart:
    """The same with the larger of both envelopes."""
    return _enveloped(lambda scores: np.maximum(envelope(scores), envelope(scores[::-1])[::-1]))(relevance)


def by_window(rule: WindowRule) -> Select:
    """SUR with another rule for its window."""

    def select(context: RepairContext, budget: int) -> Positions:
        relevance, units = context.relevance, context.segmentation.units
        return admit(units, rank(unit_scores(relevance, units)), budget, rule(relevance))

    return select


def unit_tails(units: Sequence[Unit], order: Sequence[int], budget: int, count: int) -> Positions:
    """Split the budget evenly over the tails of the `count` best units.

    A unit shorter than its share is taken whole and the others share what it leaves; what all of them leave goes to
    the units after them, whole and with a tail at the end.

    Args:
        units: partition of the suffix.
        order: ranked unit indices.
        budget: positions to fill; at most the suffix length.
        count: units that share it.
    """
    first = [units[index] for index in order[:count]]
    widths = _shares(budget, [unit.length for unit in first])
    chosen = [np.arange(unit.stop - width, unit.stop) for unit, width in zip(first, widths, strict=True)]
    rest = admit(units, order[count:], budget - sum(widths), tail(np.empty(0)))
    return np.concatenate([*chosen, rest])


def by_unit_tails(count: int) -> Select:
    """SUR's units, the budget split over the tails of the best `count` of them."""

    def select(context: RepairContext, budget: int) -> Positions:
        relevance, units = context.relevance, context.segmentation.units
        return unit_tails(units, rank(unit_scores(relevance, units)), budget, count)

    return select


def _shares(budget: int, lengths: Sequence[int]) -> list[int]:
    """Even shares of `budget`, earlier ones larger by one where it does not divide, none above its length."""
    widths = [0] * len(lengths)
    left, hungry = budget, list(range(len(lengths)))
    # A unit shorter than an even share is whole; only among those that are not is the remainder handed out, once.
    while hungry and (whole := [i for i in hungry if lengths[i] <= left // len(hungry)]):
        for i in whole:
            widths[i] = lengths[i]
        left = budget - sum(widths)
        hungry = [i for i in hungry if not widths[i]]
    for place, i in enumerate(hungry):
        widths[i] = left // len(hungry) + (place < left % len(hungry))
    return widths


def _enveloped(shape: Callable[[Scores], Scores]) -> WindowRule:
    def rule(relevance: Scores) -> WindowStart:
        return lambda unit, width: unit.start + best_window(shape(relevance[unit.start : unit.stop]), width)

    return rule


SUR_WINDOW = forward(DECAY)
