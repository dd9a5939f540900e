"""What a repair will do, and how long finding that took: by an allocator, or by a policy."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import nn
from transformers import PreTrainedTokenizerBase
from transformers.cache_utils import Cache

from cachemend.repair_core.allocators import allocate, get_allocator
from cachemend.repair_core.allocators.base import Signal
from cachemend.repair_core.budget import Tokens, repair_budget
from cachemend.repair_core.caches import RepairedCache, ledger_of
from cachemend.repair_core.context import RepairContext, StaleContext
from cachemend.repair_core.deciding import decide
from cachemend.repair_core.decision_rules import RE_PREFILL
from cachemend.repair_core.decision_table import DecisionTable
from cachemend.repair_core.edits import Edit
from cachemend.repair_core.intervals import Positions
from cachemend.repair_core.ledger import RowState
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
    require_repairable(cache, edit, repair_budget(edit.suffix_length, budget))
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
    context: StaleContext,
    policy: str | Path | DecisionTable,
    budget: float | str | Tokens | None,
    cache: Cache | None,
) -> Plan:
    """Follow a policy or a decision table, neither of which sees more than a `StaleContext`; errors as `decide`.

    Args:
        cache: the one that `context` was given.
    """
    timings: dict[str, float] = {}
    with timed(timings, "allocate", context.model):
        action = decide(policy, context, budget)
        positions = None
        if action.policy != RE_PREFILL:
            require_repairable(cache, context.deletion)
            positions = choose(action.policy, context, action.k).positions
    # Caches and signals are made on the way, where a policy or a table asks for them.
    signals = (seconds for name, seconds in context.timings.items() if name not in ("prefill", "shift"))
    timings["signal"] = sum(signals, 0.0)
    timings["allocate"] = max(0.0, timings["allocate"] - sum(context.timings.values()))
    return Plan(context, positions, action.arm, timings)


def require_repairable(cache: Cache | None, edit: Edit, count: int = 0) -> None:
    """Refuse, before anything is paid for, a repair whose refresh would read rows that were never computed.

    Args:
        cache: of the original context; None where it is yet to be computed.
        count: retained rows to recompute; only all of them are sure to hold those that an earlier edit inserted.

    Raises:
        Refused: rows that an earlier edit inserted are missing.
    """
    if not isinstance(cache, RepairedCache):
        return
    batch, length = cache.row_states.shape[0], len(edit.original_ids)
    behind = np.arange(edit.prefix_length, len(edit.edited_ids))
    sure = torch.tensor(behind if count == edit.suffix_length else edit.inserted_positions)
    edited = ledger_of(cache, batch, length, unmarked=RowState.VALID).edited(edit)
    edited.require_computed("this repair", but=sure.expand(batch, -1))


def allocation_name(allocator: str, budget: float | str | Tokens) -> str:
    """What `Repair.decision` says of an allocation, e.g. "sur@5%" or "sur@32" tokens."""
    if isinstance(budget, Tokens):
        return f"{allocator}@{budget.count}"
    return f"{allocator}@{str(budget).removesuffix('.0')}%"


def signal_seconds(context: RepairContext, allocator: str) -> float:
    """Seconds that the signals of an allocator or variant took in this context; 0 for those it did not compute."""
    return sum(context.timings.get(signal.value, 0.0) for signal in signals_of(allocator))
