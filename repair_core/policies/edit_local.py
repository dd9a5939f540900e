"""EditLocal: the window right behind the edit (edit paper, Table 1)."""

from cachemend.repair_core.context import StaleContext
from cachemend.repair_core.policies.base import Choice, Policy, register
from cachemend.repair_core.replacement import changed_span


@register
class EditLocal(Policy):
    """The first K positions behind the span."""

    name = "edit-local"

    def select(self, context: StaleContext, k: int) -> Choice:
        changed_span(context.deletion)
        return Choice(context.pool[:k])
