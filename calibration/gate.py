"""Repair always, never or when predicted: expected failures and cost (edit paper, "Repair Should Be Unconditional").

The edit paper measures edits that touch the answer; here they are a share of all edits, the others being irrelevant.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from math import isfinite
from typing import NamedTuple

NEVER, PREDICTED, ALWAYS, RE_PREFILL = RULES = (
    "repair never",
    "repair when predicted",
    "repair always",
    "re-prefill always",
)


@dataclass(frozen=True, kw_only=True)
class Failures:
    """How often one kind of edit ends in a wrong answer that a clean cache would have got right, as fractions.

    Attributes:
        stale: without repair.
        repaired: with repair.
    """

    stale: float
    repaired: float

    def __post_init__(self) -> None:
        _check_fractions(self)


@dataclass(frozen=True, kw_only=True)
class Gate:
    """Which share of each kind of edit a predictor sends to repair, as fractions.

    Attributes:
        relevant: of the edits that matter to the answer; 1 misses none.
        irrelevant: of the edits that do not; 0 wastes no repair.
    """

    relevant: float
    irrelevant: float

    def __post_init__(self) -> None:
        _check_fractions(self)


@dataclass(frozen=True, kw_only=True)
class Costs:
    """Cost per edit, all in one unit (seconds).

    Attributes:
        repair: one repair.
        re_prefill: one clean prefill of the edited context.
        predict: one decision of the gate.
    """

    repair: float
    re_prefill: float
    predict: float

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
        cost_if_noticed: the same when every failure is noticed and answered again from a re-prefilled cache.
    """

    share: float
    rule: str
    failures: float
    cost: float
    cost_if_noticed: float


def gate_value(
    relevant: Failures, irrelevant: Failures, gate: Gate, costs: Costs, shares: Sequence[float]
) -> list[GateValue]:
    """Weigh the four rules against each other at each share of relevant edits.

    Within a kind of edit, the gate's decision is taken as independent of whether the stale cache fails. A
    re-prefill never fails: failures are counted against its answer.

    Args:
        relevant, irrelevant: measured failure rates of the two kinds of edit.
        gate: what the predictor sends to repair.
        costs: per edit.
        shares: fractions of relevant edits.

    Returns:
        the rules in the order of `RULES` for each share in turn.

    Raises:
        ValueError: a share outside 0 to 1.
    """
    decisions = {NEVER: Gate(relevant=0, irrelevant=0), PREDICTED: gate, ALWAYS: Gate(relevant=1, irrelevant=1)}
    table = []
    for share in shares:
        if not 0 <= share <= 1:
            raise ValueError(f"the share {share} of relevant edits is outside 0 to 1")
        for rule, sent in decisions.items():
            failures = share * _failures(relevant, sent.relevant) + (1 - share) * _failures(irrelevant, sent.irrelevant)
            repairs = share * sent.relevant + (1 - share) * sent.irrelevant
            cost = repairs * costs.repair + (costs.predict if rule == PREDICTED else 0.0)
            table.append(GateValue(share, rule, failures, cost, cost + failures * costs.re_prefill))
        table.append(GateValue(share, RE_PREFILL, 0.0, costs.re_prefill, costs.re_prefill))
    return table


def _failures(rates: Failures, repaired: float) -> float:
    return repaired * rates.repaired + (1 - repaired) * rates.stale


def _check_fractions(rates: Failures | Gate) -> None:
    for field in fields(rates):
        value = getattr(rates, field.name)
        if not 0 <= value <= 1:
            raise ValueError(f"{type(rates).__name__}.{field.name} is {value}; it must be a fraction from 0 to 1")
