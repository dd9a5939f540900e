"""From the edit to the text that uses it, found by a text rule."""

from cachemend.repair_core.allocators.base import Signal
from cachemend.repair_core.context import StaleContext
from cachemend.repair_core.policies.base import Choice, Policy, register
from cachemend.repair_core.policies.blocks import block_stop
from cachemend.repair_core.policies.naming import naming_unit


@register
class EditToCarrier(Policy):
    """All positions up to the end of the first unit that names the edited words; where none does, of the block."""

    name = "edit-to-carrier"
    own_length = True
    signals = (Signal.TEXT, Signal.UNITS)

    def select(self, context: StaleContext, k: int) -> Choice:  # noqa: ARG002
        found = naming_unit(context)
        return Choice(context.pool[context.pool < (block_stop(context) if found is None else found.stop)])
