"""What a variant of SUR is to the code that runs it; what it is for stands in `described_variants`."""

from collections.abc import Callable
from dataclasses import dataclass

from cachemend.repair_core.allocators.base import Signal
from cachemend.repair_core.budget import repair_budget
from cachemend.repair_core.context import RepairContext
from cachemend.repair_core.intervals import Positions

Select = Callable[[RepairContext, int], Positions]


def suffix_share(context: RepairContext, percent: float) -> int:
    """The allowance of every allocator: a percentage of the retained suffix (paper Eq. 3)."""
    return repair_budget(context.deletion.suffix_length, percent)


@dataclass(frozen=True, kw_only=True)
class Variant:
    """One change of SUR, or what one of them is compared with.

    Attributes:
        select: (context, count) -> `count` distinct suffix indices in any order; 0 < count < S.
        allowance: (context, percent) -> the positions it may recompute, at most S.
        signals: what it must know; shared with the other arms of a case.
    """

    select: Select
    allowance: Callable[[RepairContext, float], int] = suffix_share
    signals: tuple[Signal, ...] = (Signal.UNITS, Signal.EMBEDDINGS)
