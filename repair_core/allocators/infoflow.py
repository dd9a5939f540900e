"""InfoFlow-Motivated: norm of query attention (paper Table 1)."""

from cachemend.repair_core.allocators.base import Allocator, Signal, register, top
from cachemend.repair_core.context import RepairContext
from cachemend.repair_core.intervals import Positions


@register
class InfoFlow(Allocator):
    """The tokens with the largest L2 norm of query attention over query tokens, heads and all layers."""

    name = "infoflow"
    signals = (Signal.QUERY_ATTENTION,)

    def select(self, context: RepairContext, budget: int) -> Positions:
        return top(context.query_attention.norm[context.deletion.suffix_positions], budget)
