"""One part of SUR at a time: token bonus, aggregation, unit thresholds (paper section 9.3, last paragraph)."""

import numpy as np

from cachemend.repair_core.allocators.unit_budget import TOP, admit, rank, unit_scores
from cachemend.repair_core.context import RepairContext
from cachemend.repair_core.intervals import Positions
from cachemend.repair_core.relevance import Scores
from cachemend.repair_core.units import MAX_TOKENS, MIN_TOKENS, semantic_units
from cachemend.repair_core.variants.variant import Select
from cachemend.repair_core.variants.windows import SUR_WINDOW, WindowRule


def relevance_with(context: RepairContext, bonus: float) -> Scores:
    """Relevance [S] with `bonus` instead of 0.25 for a token of the query, whose cosine is 1."""
    identical = np.isin(np.asarray(context.deletion.suffix_ids), np.asarray(context.query_ids))
    return np.where(identical, 1.0 + bonus, context.relevance)


def by_bonus(bonus: float) -> Select:
    """SUR with another bonus for identical tokens, in its ranking and in its window."""

    def select(context: RepairContext, budget: int) -> Positions:
        relevance, units = relevance_with(context, bonus), context.segmentation.units
        return admit(units, rank(unit_scores(relevance, units)), budget, SUR_WINDOW(relevance))

    return select


def by_aggregation(top: int | None, window: WindowRule = SUR_WINDOW) -> Select:
    """SUR with the mean of the `top` largest scores of a unit, or of all for None; the mean of one is the maximum."""

    def select(context: RepairContext, budget: int) -> Positions:
        relevance, units = context.relevance, context.segmentation.units
        scores = unit_scores(relevance, units, len(relevance) if top is None else top)
        return admit(units, rank(scores), budget, window(relevance))

    return select


def by_thresholds(min_tokens: int = MIN_TOKENS, max_tokens: int = MAX_TOKENS) -> Select:
    """SUR over units that merge below `min_tokens` and split above `max_tokens`."""

    def select(context: RepairContext, budget: int) -> Positions:
        units = semantic_units(context.tokenizer, context.deletion, max_tokens, min_tokens).units
        relevance = context.relevance
        return admit(units, rank(unit_scores(relevance, units, TOP)), budget, SUR_WINDOW(relevance))

    return select
