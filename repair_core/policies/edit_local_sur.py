"""EditLocal and Semantic-Unit Refresh on a split budget."""

import numpy as np

from cachemend.repair_core.allocators.base import Signal
from cachemend.repair_core.context import StaleContext
from cachemend.repair_core.policies.base import Choice, Policy, register
from cachemend.repair_core.policies.sur import unit_positions
from cachemend.repair_core.replacement import changed_span


@register
class EditLocalSur(Policy):
    """The first ceil(K/2) positions behind the span, the others where semantic units of what is left need them."""

    name = "edit-local-sur"
    signals = (Signal.UNITS, Signal.EMBEDDINGS)

    def select(self, context: StaleContext, k: int) -> Choice:
        changed_span(context.deletion)
        near = (k + 1) // 2
        return Choice(np.concatenate((context.pool[:near], unit_positions(context, near, k - near))))
