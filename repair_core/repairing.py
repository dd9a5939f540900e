"""Repair in one call: shift, choose, refresh."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import nn
from transformers import PreTrainedTokenizerBase
from transformers.cache_utils import Cache

from cachemend.repair_core.allocators import allocate, get_allocator
from cachemend.repair_core.architecture import check_capability, head_widths
from cachemend.repair_core.budget import Tokens, repair_budget
from cachemend.repair_core.caches import RepairedCache, Rows, ledger_of, marked_cache, read_rows
from cachemend.repair_core.context import RepairContext, StaleContext
from cachemend.repair_core.decision_rules import RE_PREFILL
from cachemend.repair_core.decision_table import DecisionTable
from cachemend.repair_core.edits import Edit, require_edit, require_equal_lengths
from cachemend.repair_core.errors import InputError
from cachemend.repair_core.executors import require_repairing
from cachemend.repair_core.executors.backends import attention_or_default
from cachemend.repair_core.intervals import Interval, Positions, maximal_intervals
from cachemend.repair_core.ledger import Ledger, RowState
from cachemend.repair_core.planning import (
    allocation_name,
    plan_by_allocator,
    plan_by_policy,
    require_repairable,
    signal_seconds,
)
from cachemend.repair_core.prefilling import as_batch, prefill
from cachemend.repair_core.refreshing import refresh
from cachemend.repair_core.shifting import read_original, shift
from cachemend.repair_core.staleness import StalenessLimit
from cachemend.repair_core.text import require_text
from cachemend.repair_core.timing import timed


class Repair(NamedTuple):
    """A repaired cache and what was done to get it.

    Attributes:
        cache: marked cache of the edited context, usable like any Hugging Face cache; continue at its end.
        positions: int64 [B], the retained positions of the edited context that the budget recomputed; all of them
            after a re-prefill.
        intervals: the same as maximal half-open intervals.
        inserted: int64, positions of new tokens in the edited context, computed besides; empty after a deletion.
        timings: seconds per component: prefill (only when no cache was passed), signal, allocate, shift, refresh; after
            a re-prefill, those that came before it and re-prefill.
        decision: what was decided, e.g. "sur@5%", "edit-local@32", "re-prefill" or "re-prefill (staleness 4 > 3)".
        attention: backend of the packed executor: the one asked for, or "sdpa" where that cannot run on this machine.
    """

    cache: RepairedCache
    positions: Positions
    intervals: tuple[Interval, ...]
    inserted: Positions
    timings: dict[str, float]
    decision: str
    attention: str


def repair(
    model: nn.Module,
    tokenizer: PreTrainedTokenizerBase,
    edit: Edit,
    query: str,
    budget: float | str | Tokens | None = None,
    *,
    cache: Cache | None = None,
    allocator: str | None = None,
    policy: str | Path | DecisionTable | None = None,
    staleness_limit: int | None = None,
    executor: str = "packed",
    attention: str = "sdpa",
    overlap: bool = False,
    case_id: str = "",
) -> Repair:
    """Repair a KV cache after an edit, spending `budget` where the next query needs it.

    The rows of inserted tokens are computed in the same refresh and cost no budget.

    Args:
        model: a Hugging Face causal language model.
        tokenizer: its tokenizer.
        edit: a `Deletion`, a `Replacement`, or several changes as `Edits`.
        query: bare text of the next query; it directs the budget and is not part of the cache.
        budget: percent of the retained suffix to recompute, or ``Tokens(n)``. 0 is Shift, 100 is Replay. 5 percent when
            absent; with a policy ``Tokens(k)``, when absent 32 or all that a policy may choose where that is less; with
            a decision table always absent.
        cache: the cache of the original context, clean or itself repaired; computed when absent. Not modified.
        allocator: where to spend the budget; "sur" when neither it nor a policy is given.
        policy: how to repair an edit of one place instead: a policy's name, a `DecisionTable`, or the path of one's
            JSON. No policy sees the clean cache or an answer.
        staleness_limit: the most edits that any row may have missed after the repair; where it would be more, the
            edited context is prefilled instead. In effect how many edits a cache may live through between two
            prefills, see `StalenessLimit`. None: any number.
        executor: how to recompute: "packed", "interval", "direct", "one-shot" or "auto", see `refresh`.
        attention: backend of the packed executor, see `refresh`. Where it cannot run here "sdpa" does, with an
            `AttentionFallback` warning, and `Repair.attention` says so.
        overlap: compute units on a worker thread while the device computes relevance, where the allocator needs both.
            Nothing but the time changes.
        case_id: seeds random choices.

    Raises:
        InputError: no edit, a query that is no text, bad budget or limit, unknown allocator, policy or executor, an
            executor that repairs nothing, token ids outside the vocabulary, a decision table that cannot be used, an
            edit of several places or more positions than are downstream of it for a policy, a cache of another length
            or of several sequences.
        Refused: a model or cache that cannot be repaired, named; rows that an earlier edit inserted and that were never
            computed, unless all retained rows are to be recomputed.
    """
    require_edit("edit", edit)
    require_text("query", query, "the next query")
    limit = None if staleness_limit is None else StalenessLimit(staleness_limit)
    require_repairing(executor, attention)
    check_capability(model)
    attention = _runnable(model, attention)
    _require_known_ids(model, [edit])
    if cache is not None:
        _require_batch(cache, edit, 1)
    if policy is None:
        plan = plan_by_allocator(
            model, tokenizer, edit, query, 5 if budget is None else budget, cache, allocator, case_id, overlap
        )
    elif allocator is not None:
        raise InputError(f"allocator {allocator!r} is given together with a policy; give one of them")
    else:
        context = StaleContext(model, tokenizer, edit, query, dirty=cache, case_id=case_id)
        plan = plan_by_policy(context, policy, budget, cache)
    if plan.positions is None:
        return _re_prefilled(model, edit, plan.timings, plan.decision, attention)
    shifted = plan.context.shifted
    timings = {n: plan.context.timings[n] for n in ("prefill", "shift") if n in plan.context.timings} | plan.timings
    where = np.union1d(plan.positions, edit.inserted_positions)
    if limit is not None and (worst := limit.passed_by(shifted, where)) is not None:
        return _re_prefilled(model, edit, timings, f"{RE_PREFILL} (staleness {worst} > {limit.limit})", attention)
    with timed(timings, "refresh", model):
        repaired = refresh(model, shifted, edit.edited_ids, where, executor, attention, in_place=True)
    intervals = maximal_intervals(plan.positions)
    return Repair(repaired, plan.positions, intervals, edit.inserted_positions, timings, plan.decision, attention)


def _re_prefilled(model: nn.Module, edit: Edit, timings: dict[str, float], decision: str, attention: str) -> Repair:
    with timed(timings, RE_PREFILL, model):
        rows = read_rows(prefill(model, edit.edited_ids))
    length = len(edit.edited_ids)
    cache = marked_cache(rows, Ledger.uniform(1, length, RowState.VALID))
    positions = np.setdiff1d(np.arange(length, dtype=np.int64), edit.inserted_positions)
    return Repair(cache, positions, maximal_intervals(positions), edit.inserted_positions, timings, decision, attention)


def repair_batch(
    model: nn.Module,
    tokenizer: PreTrainedTokenizerBase,
    edits: Sequence[Edit],
    queries: Sequence[str],
    budget: float | str | Tokens = 5,
    *,
    cache: Cache | None = None,
    allocator: str = "sur",
    executor: str = "packed",
    attention: str = "sdpa",
    case_ids: Sequence[str] = (),
) -> list[Repair]:
    """Repair a batch of sequences at once; each chooses its own positions, by an allocator.

    It takes no policy, no decision table and no staleness limit.

    Args:
        edits: one per sequence; lengths and positions are the same in all of them.
        queries: one per sequence.
        cache: the cache [batch, ...] of all original contexts; computed when absent. Not modified.
        case_ids: one per sequence, or none.

    The other arguments are those of `repair`. Returns one `Repair` per sequence: they share one batched cache and
    one set of timings.

    Raises:
        InputError: no edits, unequal lengths, not as many queries as edits, or a cache of another number of sequences;
            see also `repair`.
        Refused: as `repair`; one sequence with such rows is enough.
    """
    require_equal_lengths(edits)
    if isinstance(queries, str) or not isinstance(queries, Sequence):
        raise InputError(f"queries is {queries!r}; give a list of one text per sequence")
    for number, query in enumerate(queries):
        require_text(f"queries[{number}]", query, "the next query")
    if len(queries) != len(edits) or len(case_ids) not in (0, len(edits)):
        raise InputError(f"{len(edits)} edits need as many queries and case ids (or no case ids)")
    get_allocator(allocator)
    require_repairing(executor, attention)
    check_capability(model)
    attention = _runnable(model, attention)
    _require_known_ids(model, edits)
    if cache is not None:
        _require_batch(cache, edits[0], len(edits))
    require_repairable(cache, edits[0], repair_budget(edits[0].suffix_length, budget))
    timings: dict[str, float] = {}
    with timed(timings, "prefill", model):
        dirty = cache if cache is not None else prefill(model, [e.original_ids for e in edits])
    if cache is not None:
        del timings["prefill"]
    with timed(timings, "shift", model):
        shifted = shift(model, dirty, edits[0])
    contexts = [
        RepairContext(model, tokenizer, e, q, dirty=_sequence(dirty, i), case_id=case_ids[i] if case_ids else "")
        for i, (e, q) in enumerate(zip(edits, queries, strict=True))
    ]
    with timed(timings, "allocate", model):
        positions = [allocate(allocator, context, budget) for context in contexts]
    timings["signal"] = sum(signal_seconds(context, allocator) for context in contexts)
    timings["allocate"] = max(0.0, timings["allocate"] - timings["signal"])
    with timed(timings, "refresh", model):
        inserted, edited = edits[0].inserted_positions, [e.edited_ids for e in edits]
        where = np.stack([np.union1d(rows, inserted) for rows in positions])
        repaired = refresh(model, shifted, edited, where, executor, attention, in_place=True)
    decision = allocation_name(allocator, budget)
    return [
        Repair(repaired, rows, maximal_intervals(rows), inserted, timings, decision, attention) for rows in positions
    ]


def _require_batch(cache: Cache, edit: Edit, count: int) -> None:
    """Every layer's first dimension: a signal of one sequence would fail deep in the model on several."""
    batch = read_original(cache, edit)[0].keys.shape[0]
    if batch != count:
        raise InputError(
            f"the cache holds {batch} sequences, this call is for {count}; give `repair` one of one sequence and "
            "`repair_batch` one of as many as there are edits"
        )


def _runnable(model: nn.Module, attention: str) -> str:
    table = model.get_input_embeddings().weight  # type: ignore[operator]
    return attention_or_default(attention, table.device, table.dtype, head_widths(model))


def _require_known_ids(model: nn.Module, edits: Sequence[Edit]) -> None:
    """Both texts: an edit is made of plain numbers, and an unknown one would fail deep in the model."""
    for edit in edits:
        as_batch(model, edit.original_ids)
        as_batch(model, edit.edited_ids)


def _sequence(cache: Cache, index: int) -> Cache:
    """One sequence of a batch with its marks, aliased: what its own allocator looks at."""
    rows = read_rows(cache)
    batch, _, length, _ = rows[0].keys.shape
    ledger = ledger_of(cache, batch, length, unmarked=RowState.VALID).take(torch.tensor([index]))
    return marked_cache([Rows(k[index : index + 1], v[index : index + 1]) for k, v in rows], ledger)
