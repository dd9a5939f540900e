"""Random semantic units: grouping without query direction (paper section 7.4)."""

import hashlib

from cachemend.repair_core.allocators.base import Allocator, Signal, register
from cachemend.repair_core.allocators.unit_budget import admit
from cachemend.repair_core.context import RepairContext
from cachemend.repair_core.intervals import Positions
from cachemend.repair_core.units import Unit


@register
class RandomUnits(Allocator):
    """SUR's units in one permutation per case, the same for all budgets; the last window starts anywhere.

    Order and start come from SHA-256 of the case id, not from a generator whose stream may change between
    releases.
    """

    name = "random-units"
    signals = (Signal.UNITS,)

    def select(self, context: RepairContext, budget: int) -> Positions:
        units = context.segmentation.units
        order = sorted(range(len(units)), key=lambda index: _draw(context.case_id, "unit", index))

        def start(unit: Unit, width: int) -> int:
            return unit.start + _draw(context.case_id, "window", width) % (unit.length - width + 1)

        return admit(units, order, budget, start)


def _draw(case_id: str, purpose: str, index: int) -> int:
    return int.from_bytes(hashlib.sha256(f"{case_id}|{purpose}|{index}".encode()).digest(), "big")
