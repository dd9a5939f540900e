"""LegoLink-Adapted: chunk-initial tokens (paper Table 1)."""

import numpy as np

from cachemend.repair_core.allocators.base import Allocator, register
from cachemend.repair_core.context import RepairContext
from cachemend.repair_core.intervals import Positions

CHUNK = 512


@register
class LegoLink(Allocator):
    """Positions by depth in their 512-token chunk of the suffix, then by chunk; the valid prefix is the first chunk."""

    name = "legolink"
    signals = ()

    def select(self, context: RepairContext, budget: int) -> Positions:
        indices = np.arange(context.deletion.suffix_length)
        return np.lexsort((indices // CHUNK, indices % CHUNK))[:budget]
