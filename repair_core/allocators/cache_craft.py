"""Cache-Craft-Adapted: dependence on the deleted text (paper Table 1)."""

from cachemend.repair_core.allocators.base import Allocator, Signal, register, top
from cachemend.repair_core.context import RepairContext
from cachemend.repair_core.intervals import Positions


@register
class CacheCraft(Allocator):
    """The tokens whose own attention fell most on the deleted keys while those were visible.

    After a pure insertion nothing was deleted: all scores are 0, and the earliest tokens are taken.
    """

    name = "cache-craft"
    signals = (Signal.DIRTY_REPLAY,)

    def select(self, context: RepairContext, budget: int) -> Positions:
        return top(context.deleted_mass, budget)
