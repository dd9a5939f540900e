"""CacheBlend: early key/value deviation (edit paper, Table 1)."""

from cachemend.repair_core.allocators.base import Signal, top
from cachemend.repair_core.allocators.cacheblend import shallow_deviation
from cachemend.repair_core.context import StaleContext
from cachemend.repair_core.policies.base import Choice, Policy, register


@register
class CacheBlend(Policy):
    """The positions whose layer-1 keys and values differ most between the stale cache and a two-layer prefill."""

    name = "cacheblend"
    signals = (Signal.SHALLOW_PREFILL,)

    def select(self, context: StaleContext, k: int) -> Choice:
        return Choice(context.pool[top(shallow_deviation(context)[context.pool], k)])
