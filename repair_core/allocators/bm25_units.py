"""BM25 over the same units (paper section 7.4)."""

from cachemend.repair_core.allocators.base import Allocator, Signal, register
from cachemend.repair_core.allocators.unit_budget import admit, rank
from cachemend.repair_core.context import RepairContext
from cachemend.repair_core.intervals import Positions
from cachemend.repair_core.relevance import bm25_unit_scores


@register
class Bm25Units(Allocator):
    """SUR's units ranked by lexical relevance.

    A unit's score is broadcast to its tokens; the envelope of a constant is constant, so a partial unit takes
    its first tokens.
    """

    name = "bm25-units"
    signals = (Signal.UNITS,)

    def select(self, context: RepairContext, budget: int) -> Positions:
        segmentation = context.segmentation
        scores = bm25_unit_scores(segmentation.texts, context.query)
        return admit(segmentation.units, rank(scores), budget, lambda unit, _: unit.start)
