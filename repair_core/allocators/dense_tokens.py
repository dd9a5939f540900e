"""Dense tokens: SUR's scores without grouping (paper section 7.4)."""

from cachemend.repair_core.allocators.base import Allocator, Signal, register, top
from cachemend.repair_core.context import RepairContext
from cachemend.repair_core.intervals import Positions


@register
class DenseTokens(Allocator):
    """The `budget` individual tokens of highest relevance."""

    name = "dense-tokens"
    signals = (Signal.EMBEDDINGS,)

    def select(self, context: RepairContext, budget: int) -> Positions:
        return top(context.relevance, budget)
