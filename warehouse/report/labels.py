"""Names, order and identity of arms as the page shows them."""

from collections.abc import Iterable
from typing import NamedTuple

from cachemend.repair_core.arms import REFERENCES

ORACLE = "clean-state-oracle"
SUBJECT = "sur"
"""The allocator that the finding and the paired table are about."""

_EXPERIMENTS = {
    "erasing-niah": "Erasing-NIAH",
    "numerical-controls": "Numerical controls",
    "edit-repair": "Repair after an edit",
    "response-routing": "Response reuse",
    "execution-bench": "Execution benchmark",
}
_LABELS = {
    "dirty": "Dirty",
    "shift": "Shift",
    "replay": "Replay",
    "re-prefill": "Re-prefill",
    "sur": "SUR",
    "dense-tokens": "Dense tokens",
    "max-relevance-window": "Max-relevance window",
    "bm25-units": "BM25 units",
    "random-units": "Random units",
    "prophetkv": "ProphetKV (adapted)",
    "infoflow": "InfoFlow (motivated)",
    "cache-craft": "Cache-Craft (adapted)",
    "cacheblend": "CacheBlend (adapted)",
    "a3": "A3 (adapted)",
    "legolink": "LegoLink (adapted)",
    "cachetune": "CacheTune (adapted)",
    "speccache": "SpecCache (adapted)",
    ORACLE: "Clean-state oracle",
}
_WITH = " with "
_RANK = {name: rank for rank, name in enumerate(_LABELS)}


class ArmKey(NamedTuple):
    """An allocator (see `method_name`) at a budget in percent, or a reference (budget None)."""

    allocator: str
    budget: float | None

    @property
    def label(self) -> str:
        """Readable name, e.g. ``SUR at 5 %``, with a space that does not wrap."""
        name = allocator_label(self.allocator)
        return name if self.budget is None else f"{name} at {budget_label(self.budget)}"

    @property
    def is_reference(self) -> bool:
        """Whether the arm has no budget."""
        return self.budget is None


def method_name(allocator: str, auxiliary: str | None) -> str:
    """Return the name under which rows are compared: an allocator with another auxiliary model is another method."""
    return allocator if auxiliary in (None, "target") else f"{allocator}{_WITH}{auxiliary}"


def base_allocator(name: str) -> str:
    """Return the allocator of a method."""
    return name.split(_WITH, 1)[0]


def allocator_label(name: str) -> str:
    """Return the readable name; a name not known here stands for itself."""
    allocator, _, auxiliary = name.partition(_WITH)
    label = _LABELS.get(allocator, allocator)
    return f"{label}, auxiliary {auxiliary[:12]}" if auxiliary else label


def experiment_label(name: str) -> str:
    """Return the readable name of an experiment; one not known here stands for itself."""
    return _EXPERIMENTS.get(name, name)


def budget_label(budget: float) -> str:
    """Return a budget with its unit, which does not wrap to another line."""
    return f"{budget:g}\u00a0%"


def budget_list(budgets: Iterable[float]) -> str:
    """Return budgets as ``2, 5, 10 %``."""
    return ", ".join(f"{budget:g}" for budget in budgets) + "\u00a0%"


def allocator_order(name: str) -> tuple[int, str]:
    """Return a sort key: references, then allocators as the paper lists them, then unknown ones by name."""
    return _RANK.get(base_allocator(name), len(_RANK)), name


def arm_order(arm: ArmKey) -> tuple[bool, tuple[int, str], float]:
    """Return a sort key: references first, then by allocator and budget."""
    return not arm.is_reference, allocator_order(arm.allocator), -1.0 if arm.budget is None else arm.budget


def reference_names(present: Iterable[str]) -> list[str]:
    """Return the references in `present`, in the paper's order."""
    wanted = set(present)
    return [name for name in REFERENCES if name in wanted]
