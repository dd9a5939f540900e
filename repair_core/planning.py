"""What a repair will do, and how long finding that took: by an allocator, or by a policy."""

from pathlib import Path
from typing import NamedTuple

from torch import nn
from transformers import PreTrainedTokenizerBase
from transformers.cache_utils import Cache

from cachemend.repair_core.allocators import allocate, get_allocator
from cachemend.repair_core.allocators.base import Signal
from cachemend.repair_core.budget import Tokens
from cachemend.repair_core.context import RepairContext, StaleContext
from cachemend.repair_core.deciding import decide
from cachemend.repair_core.decision_rules import RE_PREFILL
from cachemend.repair_core.decision_table import DecisionTable
from cachemend.repair_core.edits import Edit
from cachemend.repair_core.intervals import Positions
from cachemend.repair_core.policies import choose
from cachemend.repair_core.preparing import prepare_overlapped
from cachemend.repair_core.timing import timed
from cachemend.repair_core.variants import signals_of


class Plan(NamedTuple):
    """Where to recompute (None: everywhere), what that is called and how long finding it took."""

    context: StaleContext
    positions: Positions | None
    decision: str
    timings: dict[str, float]


def plan_by_allocator(
    model: nn.Module,
    tokenizer: PreTrainedTokenizerBase,
    edit: Edit,
    query: str,
    budget: float | str | Tokens,
    cache: Cache | None,
    allocator: str | None,
    case_id: str,
    overlap: bool = False,
) -> Plan:
    """Spend `budget` by an allocator, "sur" unless named; arguments as in `repair`."""
    name = "sur" if allocator is None else allocator
    get_allocator(name)
    context = RepairContext(model, tokenizer, edit, query, dirty=cache, case_id=case_id)
    _ = context.shifted  # not part of what an allocator is charged for
    timings: dict[str, float] = {}
    with timed(timings, "allocate", model):
        if overlap and {Signal.UNITS, Signal.EMBEDDINGS} <= set(get_allocator(name).signals):
            prepare_overlapped(context)
        positions = allocate(name, context, budget)
    timings["signal"] = signal_seconds(context, name)
    timings["allocate"] = max(0.0, timings["allocate"] - timings["signal"])
    return Plan(context, positions, allocation_name(name, budget), timings)


def plan_by_policy(
    context: StaleContext, policy: str | Path | DecisionTable, budget: float | str | Tokens | None
) -> Plan:
    """Follow a policy or a decision table, neither of which sees more than a `StaleContext`; errors as `decide`."""
    timings: dict[str, float] = {}
    with timed(timings, "allocate", context.model):
        action = decide(policy, context, budget)
        positions = None if action.policy == RE_PREFILL else choose(action.policy, context, action.k).positions
    # Caches and signals are made on the way, where a policy or a table asks for them.
    signals = (seconds for name, seconds in context.timings.items() if name not in ("prefill", "shift"))
    timings["signal"] = sum(signals, 0.0)
    timings["allocate"] = max(0.0, timings["allocate"] - sum(context.timings.values()))
    return Plan(context, positions, action.arm, timings)


def allocation_name(allocator: str, budget: float | str | Tokens) -> str:
    """What `Repair.decision` says of an allocation, e.g. "sur@5%" or "sur@32" tokens."""
    if isinstance(budget, Tokens):
        return f"{allocator}@{budget.count}"
    return f"{allocator}@{str(budget).removesuffix('.0')}%"


def signal_seconds(context: RepairContext, allocator: str) -> float:
    """Seconds that the signals of an allocator or variant took in this context; 0 for those it did not compute."""
    return sum(context.timings.get(signal.value, 0.0) for signal in signals_of(allocator))
