"""CacheBlend-Adapted: early key/value deviation (paper Table 1)."""

from cachemend.repair_core.allocators.base import Allocator, Signal, register, top
from cachemend.repair_core.caches import read_rows, require_computed
from cachemend.repair_core.context import RepairContext, StaleContext
from cachemend.repair_core.intervals import Positions
from cachemend.repair_core.relevance import Scores
from cachemend.repair_core.signals.shallow import squared_deviation


def shallow_deviation(context: StaleContext) -> Scores:
    """Squared layer-1 deviation of the shifted cache from a fresh two-layer prefill, FP64 [N].

    Raises:
        Refused: rows that an earlier edit inserted were never computed.
    """
    require_computed(context.shifted, "this signal", but=context.deletion.inserted_positions)
    return squared_deviation(context.shallow[-1], read_rows(context.shifted)[len(context.shallow) - 1])


@register
class CacheBlend(Allocator):
    """The tokens whose layer-1 keys and values differ most between the shifted cache and a two-layer prefill."""

    name = "cacheblend"
    signals = (Signal.SHALLOW_PREFILL,)

    def select(self, context: RepairContext, budget: int) -> Positions:
        return top(shallow_deviation(context)[context.deletion.suffix_positions], budget)
