"""EditLocal to the end of its block: a structural stop instead of K (edit paper, "What to deploy")."""

from cachemend.repair_core.allocators.base import Signal
from cachemend.repair_core.context import StaleContext
from cachemend.repair_core.policies.base import Choice, Policy, register
from cachemend.repair_core.policies.blocks import block_stop


@register
class EditLocalBoundary(Policy):
    """All positions from the span to the end of the document block that holds the edit."""

    name = "edit-local-boundary"
    own_length = True
    signals = (Signal.TEXT,)

    def select(self, context: StaleContext, k: int) -> Choice:  # noqa: ARG002
        return Choice(context.pool[context.pool < block_stop(context)])
