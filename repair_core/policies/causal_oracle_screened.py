"""CausalOracle with a screen by blocks, for contexts too long to try every position."""

import numpy as np

from cachemend.repair_core.allocators.base import Signal, top
from cachemend.repair_core.context import StaleContext
from cachemend.repair_core.policies.base import Choice, Diagnostic, register
from cachemend.repair_core.transplant import causal_effects, set_effects
from cachemend.repair_core.truth import Truth

BLOCK = 16
# Positions that pass the screen, per position chosen.
PASS = 4


@register
class CausalOracleScreened(Diagnostic):
    """CausalOracle within the 16-token blocks whose transplant raises the margin most, of 4 K positions or more.

    A position whose block does not help as a whole is missed: it is another rule, with another name.
    """

    name = "causal-oracle-screened"
    signals = (Signal.CLEAN_CACHE,)

    def select(self, context: StaleContext, truth: Truth, k: int) -> Choice:
        pool = context.pool
        blocks = np.split(pool, range(BLOCK, pool.size, BLOCK))
        # One more than needed: the last block of the pool may be short.
        best = top(set_effects(context, truth, blocks), -(-PASS * k // BLOCK) + 1)
        passed = np.concatenate([blocks[i] for i in sorted(best)])
        return Choice(passed[top(causal_effects(context, truth, passed), k)])
