"""The arms of an experiment: an allocator at a budget, or one of the four references."""

from collections.abc import Sequence
from dataclasses import dataclass

from cachemend.repair_core.budget import parse_percent
from cachemend.repair_core.errors import InputError

REFERENCES = ("dirty", "shift", "replay", "re-prefill")


@dataclass(frozen=True, kw_only=True)
class Arm:
    """One evaluated coordinate of the sweep (paper section 7.4).

    Attributes:
        allocator: an allocator's name, or a reference (Dirty, Shift, Replay, Re-prefill).
        budget: percent of the retained suffix; None exactly for references.
    """

    allocator: str
    budget: float | None = None

    def __post_init__(self) -> None:
        if (self.allocator in REFERENCES) != (self.budget is None):
            raise InputError(f"arm {self.allocator!r} with budget {self.budget}: only references have no budget")
        if self.budget is not None:
            parse_percent(self.budget)

    @property
    def name(self) -> str:
        if self.budget is None:
            return self.allocator
        short = f"{self.budget:g}"
        # Two budgets must not share a name.
        return f"{self.allocator}@{short if float(short) == self.budget else repr(self.budget)}"


def sweep_arms(allocators: Sequence[str], budgets: Sequence[float]) -> tuple[Arm, ...]:
    """Return the four references, then every allocator at every budget, in the order given."""
    references = tuple(Arm(allocator=name) for name in REFERENCES)
    return references + tuple(Arm(allocator=a, budget=float(b)) for a in allocators for b in budgets)
