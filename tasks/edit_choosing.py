"""What each policy of one item chooses, once per policy and K and timed, and what the causal oracle says."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from cachemend.calibration.operators import depth, effect_mass
from cachemend.repair_core.context import StaleContext
from cachemend.repair_core.intervals import Positions
from cachemend.repair_core.policies import Choice, Truth, choose, diagnose, get_policy
from cachemend.repair_core.policies.causal_oracle_screened import BLOCK
from cachemend.repair_core.relevance import Scores
from cachemend.repair_core.timing import timed
from cachemend.repair_core.transplant import causal_effects, set_effects

ORACLES = ("causal-oracle", "causal-oracle-screened")


class Chosen(NamedTuple):
    """A choice, and columns about how it came to be."""

    choice: Choice
    told: dict[str, Any]


@dataclass(kw_only=True)
class Chooser:
    """Chooses positions for one item.

    Attributes:
        context: what a deployable rule may know.
        truth: what only diagnostics are told.
        block_stop: token after the document block that holds the edit.
    """

    context: StaleContext
    truth: Truth
    block_stop: int
    _chosen: dict[tuple[str, int | None], Chosen] = field(default_factory=dict)

    def choose(self, policy: str, k: int | None) -> Chosen:
        """Return the positions of a policy or diagnostic; `k` is None for rules that set their own length."""
        if (policy, k) not in self._chosen:
            before = self._signal_seconds(policy)
            seconds: dict[str, float] = {}
            with timed(seconds, "choose", self.context.model):
                if get_policy(policy).deployable:
                    choice = choose(policy, self.context, k)
                else:
                    choice = diagnose(policy, self.context, self.truth, k)
            signal = self._signal_seconds(policy)
            told: dict[str, Any] = {
                "n_topup": choice.n_topup,
                "t_signal": signal,
                # The first arm to need a signal computes it while it chooses.
                "t_choose": max(0.0, seconds["choose"] - (signal - before)),
            }
            if policy in ORACLES:
                told |= self._effects(policy, choice.positions)
            self._chosen[policy, k] = Chosen(choice, told)
        return self._chosen[policy, k]

    def _signal_seconds(self, policy: str) -> float:
        return sum(self.context.timings.get(signal.value, 0.0) for signal in get_policy(policy).signals)

    def _effects(self, policy: str, chosen: Positions) -> dict[str, float | None]:
        """Where the positive causal effects are, and how deep the attention ranking holds the oracle's positions."""
        pool = self.context.pool
        carrier = (self.truth.carrier.start, self.truth.carrier.stop)
        mass = effect_mass(self._effect_of_each(policy), pool, carrier, (0, self.block_stop))
        ranking = pool[np.argsort(-self.context.query_attention.mean[pool], kind="stable")]
        return {
            "effect_in_carrier": mass.carrier if mass.total else None,
            "effect_in_block": mass.block if mass.total else None,
            # Positions ranked before it: 0 for the first.
            "oracle_depth": depth(ranking, chosen).median - 1 if chosen.size else None,
        }

    def _effect_of_each(self, policy: str) -> Scores:
        """Effect per pool position; the screened oracle's blocks share theirs evenly among their positions."""
        pool = self.context.pool
        if policy == "causal-oracle":
            return causal_effects(self.context, self.truth, pool)
        blocks = np.split(pool, range(BLOCK, pool.size, BLOCK))
        shares = set_effects(self.context, self.truth, blocks) / [block.size for block in blocks]
        return np.repeat(shares, [block.size for block in blocks])
