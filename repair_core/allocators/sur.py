"""Semantic-Unit Refresh (paper section 7.3)."""

from cachemend.repair_core.allocators.base import Allocator, Signal, register
from cachemend.repair_core.allocators.unit_budget import admit, envelope_window, rank, unit_scores
from cachemend.repair_core.context import RepairContext
from cachemend.repair_core.intervals import Positions


@register
class SemanticUnitRefresh(Allocator):
    """Whole units by the mean of their four largest scores, then one forward-envelope window."""

    name = "sur"
    signals = (Signal.UNITS, Signal.EMBEDDINGS)

    def select(self, context: RepairContext, budget: int) -> Positions:
        relevance, units = context.relevance, context.segmentation.units
        return admit(units, rank(unit_scores(relevance, units)), budget, envelope_window(relevance))
