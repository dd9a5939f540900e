"""CacheTune-Adapted: low-frequency strength of keys and values (paper Table 1)."""

from cachemend.repair_core.allocators.base import Allocator, Signal, register, top
from cachemend.repair_core.context import RepairContext
from cachemend.repair_core.intervals import Positions


@register
class CacheTune(Allocator):
    """The tokens whose low-passed keys and values are largest, over all layers of the shifted cache."""

    name = "cachetune"
    signals = (Signal.SPECTRUM,)

    def select(self, context: RepairContext, budget: int) -> Positions:
        return top(context.low_pass_strength, budget)
