"""Random: the matched control (edit paper, Table 1)."""

from cachemend.repair_core.context import StaleContext
from cachemend.repair_core.drawing import draw
from cachemend.repair_core.policies.base import Choice, Policy, register


@register
class Random(Policy):
    """Positions drawn by the case id; a larger K keeps those of a smaller one."""

    name = "random"

    def select(self, context: StaleContext, k: int) -> Choice:
        order = sorted(range(context.pool.size), key=lambda i: draw(context.case_id, "position", i))
        return Choice(context.pool[order[:k]])
