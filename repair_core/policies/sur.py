"""Semantic-Unit Refresh on what is downstream of an edit (paper section 7.3)."""

from cachemend.repair_core.allocators.base import Signal
from cachemend.repair_core.allocators.unit_budget import admit, envelope_window, rank, unit_scores
from cachemend.repair_core.context import StaleContext
from cachemend.repair_core.intervals import Positions
from cachemend.repair_core.policies.base import Choice, Policy, register
from cachemend.repair_core.units import Unit


def unit_positions(context: StaleContext, first: int, k: int) -> Positions:
    """Spend k positions on semantic units, within the pool from its index `first` on."""
    last = context.pool.size
    clipped = (Unit(max(u.start, first), min(u.stop, last)) for u in context.segmentation.units)
    units = [unit for unit in clipped if unit.length > 0]
    relevance = context.relevance
    chosen = admit(units, rank(unit_scores(relevance, units)), k, envelope_window(relevance))
    return context.pool[chosen]


@register
class SemanticUnitRefresh(Policy):
    """Whole units by the mean of their four largest scores, then one forward-envelope window."""

    name = "sur"
    signals = (Signal.UNITS, Signal.EMBEDDINGS)

    def select(self, context: StaleContext, k: int) -> Choice:
        return Choice(unit_positions(context, 0, k))
