"""Other relevance than the embeddings' alone: with BM25, in two looks, with bridges between regions."""

from collections.abc import Callable

import numpy as np

from cachemend.repair_core.allocators.unit_budget import admit, envelope_window, rank, unit_scores
from cachemend.repair_core.context import RepairContext
from cachemend.repair_core.intervals import Positions, maximal_intervals
from cachemend.repair_core.refreshing import refresh
from cachemend.repair_core.relevance import QUANTUM, Scores, bm25_unit_scores
from cachemend.repair_core.signals.query_attention import query_attention
from cachemend.repair_core.units import Unit
from cachemend.repair_core.variants.variant import Select

LONGEST_BRIDGE = 32
"""A longer gap between two regions is not bridged, tokens."""


def z_sum(first: Scores, second: Scores) -> Scores:
    """Sum of both scores, each with mean 0 and standard deviation 1; a constant score adds nothing."""
    total = np.zeros_like(first)
    for scores in (first, second):
        spread = scores.std()
        # Scores that differ by rounding alone are constant.
        if spread > QUANTUM:
            total = total + (scores - scores.mean()) / spread
    return np.rint(total / QUANTUM) * QUANTUM


def rank_sum(first: Scores, second: Scores) -> Scores:
    """Minus the sum of both ranks; the rank of a unit is how many have a higher score, so that equal ones share it."""
    ranks = [(scores[None, :] > scores[:, None]).sum(axis=1) for scores in (first, second)]
    return -(ranks[0] + ranks[1]).astype(np.float64)


def by_hybrid(combine: Callable[[Scores, Scores], Scores]) -> Select:
    """SUR's units ranked by embeddings and BM25 together; the window is SUR's."""

    def select(context: RepairContext, budget: int) -> Positions:
        units, texts = context.segmentation
        scores = combine(unit_scores(context.relevance, units), bm25_unit_scores(texts, context.query))
        return admit(units, rank(scores), budget, envelope_window(context.relevance))

    return select


def two_stage(context: RepairContext, budget: int) -> Positions:
    """Half of the budget by SUR, the rest by the query's attention on the cache repaired there.

    Embeddings do not change with the cache, so the second look needs attention: what is left of SUR's units is ranked
    by the mean of its four largest shares of attention, averaged over layers, heads and query tokens, and the window of
    its partial unit lies where those shares are. The first refresh is part of choosing and is timed with it.
    """
    relevance, units = context.relevance, context.segmentation.units
    window = envelope_window(relevance)
    first = admit(units, rank(unit_scores(relevance, units)), (budget + 1) // 2, window)
    if first.size == budget:
        return first
    edit = context.deletion
    fresh = refresh(context.model, context.shifted, edit.edited_ids, np.sort(edit.suffix_positions[first]))
    seen = query_attention(context.model, fresh, context.query_ids).mean[edit.suffix_positions]
    free = np.ones(len(relevance), dtype=bool)
    free[first] = False
    left = [Unit(u.start + run.start, u.start + run.stop) for u in units for run in _runs(free[u.start : u.stop])]
    looked = seen / max(seen.max(), np.finfo(float).tiny)
    scores = np.rint(unit_scores(looked, left) / QUANTUM)
    return np.concatenate((first, admit(left, rank(scores), budget - first.size, envelope_window(looked))))


def bridged(context: RepairContext, budget: int) -> Positions:
    """SUR, with the gaps of at most 32 tokens between its regions refreshed too, as far as the budget goes.

    A region reads the stale rows of the gap before it (paper section 14); a bridge makes those fresh. Bridges count
    as positions: after each unit, the gap to the chosen token before it and then the one after it, where it fits whole.
    """
    relevance, units = context.relevance, context.segmentation.units
    window = envelope_window(relevance)
    fresh = np.zeros(len(relevance), dtype=bool)
    for index in rank(unit_scores(relevance, units)):
        unit, left = units[index], budget - int(fresh.sum())
        if left == 0:
            break
        if fresh[unit.start]:
            continue
        if unit.length > left:
            start = window(unit, left)
            fresh[start : start + left] = True
            break
        fresh[unit.start : unit.stop] = True
        for gap in _gaps(fresh, unit):
            if gap.length <= min(LONGEST_BRIDGE, budget - int(fresh.sum())):
                fresh[gap.start : gap.stop] = True
    return np.flatnonzero(fresh)


def _gaps(fresh: np.ndarray, unit: Unit) -> list[Unit]:
    """What separates a unit from the nearest chosen token before it and after it; none where there is no such token."""
    before, after = np.flatnonzero(fresh[: unit.start]), np.flatnonzero(fresh[unit.stop :])
    gaps = [Unit(int(before[-1]) + 1, unit.start)] if before.size else []
    return gaps + ([Unit(unit.stop, unit.stop + int(after[0]))] if after.size else [])


def _runs(mask: np.ndarray) -> list[Unit]:
    return [Unit(run.start, run.stop) for run in maximal_intervals(np.flatnonzero(mask))]
