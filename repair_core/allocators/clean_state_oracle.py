"""Clean-state oracle: where the shifted cache is wrong (paper section 7.4, a privileged reference)."""

import numpy as np

from cachemend.repair_core.allocators.base import Allocator, Signal, register, top
from cachemend.repair_core.caches import read_rows, require_computed
from cachemend.repair_core.context import RepairContext
from cachemend.repair_core.intervals import Positions
from cachemend.repair_core.signals.shallow import squared_deviation


@register
class CleanStateOracle(Allocator):
    """The tokens whose keys and values differ most from a clean prefill, over all layers.

    It needs the clean cache, so it localises staleness and cannot be deployed; it is no upper bound on accuracy.
    """

    name = "clean-state-oracle"
    signals = (Signal.CLEAN_CACHE,)

    def select(self, context: RepairContext, budget: int) -> Positions:
        require_computed(context.shifted, "this signal", but=context.deletion.inserted_positions)
        pairs = zip(read_rows(context.shifted), read_rows(context.clean), strict=True)
        deviation = np.sqrt(sum(squared_deviation(shifted, clean) for shifted, clean in pairs))
        return top(deviation[context.deletion.suffix_positions], budget)
