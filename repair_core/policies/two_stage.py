"""Attention in two looks: what the query sees in a half-repaired cache."""

import numpy as np

from cachemend.repair_core.allocators.base import Signal, top
from cachemend.repair_core.context import StaleContext
from cachemend.repair_core.policies.base import Choice, Policy, register
from cachemend.repair_core.refreshing import refresh
from cachemend.repair_core.signals.query_attention import query_attention


@register
class TwoStage(Policy):
    """ceil(K/2) positions by attention on the stale cache, the others by attention once those and the span are fresh.

    The second look is part of choosing and is timed with it.
    """

    name = "two-stage"
    signals = (Signal.QUERY_ATTENTION,)

    def select(self, context: StaleContext, k: int) -> Choice:
        pool, edit = context.pool, context.deletion
        first = top(context.query_attention.mean[pool], (k + 1) // 2)
        rest = np.setdiff1d(np.arange(pool.size), first)
        if k == first.size:
            return Choice(pool[first])
        where = np.union1d(pool[first], edit.inserted_positions)
        repaired = refresh(context.model, context.shifted, edit.edited_ids, where)
        seen = query_attention(context.model, repaired, context.query_ids).mean[pool[rest]]
        return Choice(pool[np.concatenate((first, rest[top(seen, k - first.size)]))])
