"""A3-Adapted: shallow query attention (paper Table 1)."""

from cachemend.repair_core.allocators.base import Allocator, Signal, register, top
from cachemend.repair_core.context import RepairContext
from cachemend.repair_core.intervals import Positions


@register
class A3(Allocator):
    """The tokens the query attends to most in layer 1 of a fresh two-layer prefill."""

    name = "a3"
    signals = (Signal.SHALLOW_PREFILL, Signal.SHALLOW_QUERY)

    def select(self, context: RepairContext, budget: int) -> Positions:
        return top(context.shallow_query_attention[context.deletion.suffix_positions], budget)
