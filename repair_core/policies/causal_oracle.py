"""CausalOracle: where one clean row moves the answer most (edit paper, Table 1, a diagnostic)."""

from cachemend.repair_core.allocators.base import Signal, top
from cachemend.repair_core.context import StaleContext
from cachemend.repair_core.policies.base import Choice, Diagnostic, register
from cachemend.repair_core.transplant import causal_effects
from cachemend.repair_core.truth import Truth


@register
class CausalOracle(Diagnostic):
    """The K positions whose transplanted clean row, alone, raises the margin of the new answer most."""

    name = "causal-oracle"
    signals = (Signal.CLEAN_CACHE,)

    def select(self, context: StaleContext, truth: Truth, k: int) -> Choice:
        return Choice(context.pool[top(causal_effects(context, truth, context.pool), k)])
