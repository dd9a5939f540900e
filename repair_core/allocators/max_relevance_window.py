"""Max-relevance contiguous: SUR's scores, one region (paper section 7.4)."""

import numpy as np

from cachemend.repair_core.allocators.base import Allocator, Signal, register
from cachemend.repair_core.context import RepairContext
from cachemend.repair_core.intervals import Positions


@register
class MaxRelevanceWindow(Allocator):
    """The contiguous window of largest summed relevance, the earliest on ties.

    Sums are differences of integer prefix sums: the scores are multiples of 2^-20, so equal windows tie exactly.
    """

    name = "max-relevance-window"
    signals = (Signal.EMBEDDINGS,)

    def select(self, context: RepairContext, budget: int) -> Positions:
        prefix = np.concatenate(([0.0], np.cumsum(context.relevance)))
        start = int(np.argmax(prefix[budget:] - prefix[:-budget]))
        return np.arange(start, start + budget)
