"""Attention: what the query looks at in the stale cache (edit paper, Table 1)."""

from cachemend.repair_core.allocators.base import Signal, top
from cachemend.repair_core.context import StaleContext
from cachemend.repair_core.policies.base import Choice, Policy, register


@register
class Attention(Policy):
    """The positions the query attends to most, averaged over query tokens, heads and layers."""

    name = "attention"
    signals = (Signal.QUERY_ATTENTION,)

    def select(self, context: StaleContext, k: int) -> Choice:
        return Choice(context.pool[top(context.query_attention.mean[context.pool], k)])
