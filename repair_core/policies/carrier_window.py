"""CarrierWindow: the text that holds the answer (edit paper, Table 1, a diagnostic)."""

import numpy as np

from cachemend.repair_core.context import StaleContext
from cachemend.repair_core.policies.base import Choice, Diagnostic, register
from cachemend.repair_core.truth import Truth


@register
class CarrierWindow(Diagnostic):
    """K positions from the carrier's start on, earlier where the pool ends before."""

    name = "carrier-window"

    def select(self, context: StaleContext, truth: Truth, k: int) -> Choice:
        pool = context.pool
        start = min(int(np.searchsorted(pool, truth.carrier.start)), pool.size - k)
        return Choice(pool[start : start + k])
