"""Random semantic units: grouping without query direction (paper section 7.4)."""

from cachemend.repair_core.allocators.base import Allocator, Signal, register
from cachemend.repair_core.allocators.unit_budget import admit
from cachemend.repair_core.context import RepairContext
from cachemend.repair_core.drawing import draw
from cachemend.repair_core.intervals import Positions
from cachemend.repair_core.units import Unit


@register
class RandomUnits(Allocator):
    """SUR's units in one permutation per case, the same for all budgets; the last window starts anywhere.

    Order and start are drawn from the case id.
    """

    name = "random-units"
    signals = (Signal.UNITS,)

    def select(self, context: RepairContext, budget: int) -> Positions:
        units = context.segmentation.units
        order = sorted(range(len(units)), key=lambda index: draw(context.case_id, "unit", index))

        def start(unit: Unit, width: int) -> int:
            return unit.start + draw(context.case_id, "window", width) % (unit.length - width + 1)

        return admit(units, order, budget, start)
