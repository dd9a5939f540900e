"""ProphetKV-Adapted: mean query attention (paper Table 1)."""

from cachemend.repair_core.allocators.base import Allocator, Signal, register, top
from cachemend.repair_core.context import RepairContext
from cachemend.repair_core.intervals import Positions


@register
class ProphetKV(Allocator):
    """The tokens the query attends to most, averaged over query tokens, heads and layers, on the shifted cache."""

    name = "prophetkv"
    signals = (Signal.QUERY_ATTENTION,)

    def select(self, context: RepairContext, budget: int) -> Positions:
        return top(context.query_attention.mean[context.deletion.suffix_positions], budget)
