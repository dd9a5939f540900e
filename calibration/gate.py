"""Repair always, never or when predicted: expected failures and cost (edit paper, "Repair Should Be Unconditional").

The edit paper measures edits that touch the answer; here they are a share of all edits, the others being irrelevant.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from math import isfinite
from typing import NamedTuple

import numpy as np

NEVER, PREDICTED, ALWAYS, RE_PREFILL = RULES = (
    "repair never",
    "repair when predicted",
    "repair always",
    "re-prefill always",
)


@dataclass(frozen=True, kw_only=True)
class Edits:
    """Measured edits of one kind, each with an answer that a clean cache gets right.

    Attributes:
        stale: whether each edit's answer is wrong without repair, shape ``[n]``.
        repaired: whether it is wrong with repair.
        sent: whether a predictor sends it to repair; None where nothing predicts.
    """

    stale: Sequence[bool]
    repaired: Sequence[bool]
    sent: Sequence[bool] | None = None

    def __post_init__(self) -> None:
        lengths = {field.name: len(value) for field in fields(self) if (value := getattr(self, field.name)) is not None}
        if len(set(lengths.values())) > 1 or not lengths["stale"]:
            raise ValueError(f"edits have lengths {lengths}; they must be equal and not 0")


@dataclass(frozen=True, kw_only=True)
class Costs:
    """Cost per edit, both in one unit (seconds).

    Attributes:
        repair: one repair.
        re_prefill: one clean prefill of the edited context.
    """

    repair: float
    re_prefill: float

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not isfinite(value) or value < 0:
                raise ValueError(f"the cost {field.name} is {value}; it must be finite and at least 0")


class GateValue(NamedTuple):
    """What one rule comes to.

    Attributes:
        share: edits that matter to the answer, as a fraction of all edits.
        rule: one of `RULES`.
        failures: expected wrong answers per edit.
        cost: expected cost per edit.
    """

    share: float
    rule: str
    failures: float
    cost: float


def gate_value(relevant: Edits, irrelevant: Edits, costs: Costs, shares: Sequence[float]) -> list[GateValue]:
    """Weigh the rules against each other at each share of relevant edits.

    Every edit counts with its own outcome: a predictor that sends the edits that fail does better than one that sends
    as many at random. A re-prefill never fails, since failures are counted against its answer. Predicting costs
    nothing here, which can only favour repairing when predicted.

    Args:
        relevant, irrelevant: the measured edits of the two kinds.
        costs: per edit.
        shares: fractions of relevant edits.

    Returns:
        the rules in the order of `RULES` for each share in turn; repairing when predicted only where both kinds were
        predicted.

    Raises:
        ValueError: a share outside 0 to 1.
    """
    table = []
    for share in shares:
        if not 0 <= share <= 1:
            raise ValueError(f"the share {share} of relevant edits is outside 0 to 1")
        for rule in RULES[:-1]:
            outcomes = [_outcome(edits, rule) for edits in (relevant, irrelevant)]
            if None in outcomes:
                continue
            failures, repairs = np.average(np.array(outcomes, dtype=float), axis=0, weights=(share, 1 - share))
            table.append(GateValue(share, rule, float(failures), float(repairs) * costs.repair))
        table.append(GateValue(share, RE_PREFILL, 0.0, costs.re_prefill))
    return table


def _outcome(edits: Edits, rule: str) -> tuple[float, float] | None:
    """Share of wrong answers and of repairs under a rule; None where the rule needs a prediction that is missing."""
    everything = {NEVER: [False] * len(edits.stale), PREDICTED: edits.sent, ALWAYS: [True] * len(edits.stale)}[rule]
    if everything is None:
        return None
    sent = np.asarray(everything, dtype=bool)
    return float(np.where(sent, edits.repaired, edits.stale).mean()), float(sent.mean())
