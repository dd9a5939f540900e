"""Repair in one call: shift, choose, refresh."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from torch import nn
from transformers import PreTrainedTokenizerBase
from transformers.cache_utils import Cache

from cachemend.repair_core.allocators import allocate, get_allocator
from cachemend.repair_core.budget import Tokens
from cachemend.repair_core.caches import RepairedCache, Rows, plain_cache, read_rows
from cachemend.repair_core.context import RepairContext
from cachemend.repair_core.edits import Edit, require_equal_lengths
from cachemend.repair_core.errors import InputError
from cachemend.repair_core.intervals import Interval, Positions, maximal_intervals
from cachemend.repair_core.prefilling import prefill
from cachemend.repair_core.refreshing import refresh
from cachemend.repair_core.shifting import shift
from cachemend.repair_core.timing import timed


class Repair(NamedTuple):
    """A repaired cache and what was done to get it.

    Attributes:
        cache: marked cache of the edited context, usable like any Hugging Face cache; continue at its end.
        positions: int64 [B], the retained positions of the edited context that the budget recomputed.
        intervals: the same as maximal half-open intervals.
        inserted: int64, positions of new tokens in the edited context, computed besides; empty after a deletion.
        timings: seconds per component: prefill (only when no cache was passed), signal, allocate, shift, refresh.
    """

    cache: RepairedCache
    positions: Positions
    intervals: tuple[Interval, ...]
    inserted: Positions
    timings: dict[str, float]


def repair(
    model: nn.Module,
    tokenizer: PreTrainedTokenizerBase,
    edit: Edit,
    query: str,
    budget: float | str | Tokens = 5,
    *,
    cache: Cache | None = None,
    allocator: str = "sur",
    executor: str = "packed",
    attention: str = "sdpa",
    case_id: str = "",
) -> Repair:
    """Repair a KV cache after an edit, spending `budget` where the next query needs it.

    The rows of inserted tokens are computed in the same refresh and cost no budget.

    Args:
        model: a Hugging Face causal language model.
        tokenizer: its tokenizer.
        edit: a `Deletion`, or several changes as `Edits`.
        query: bare text of the next query; it directs the budget and is not part of the cache.
        budget: percent of the retained suffix to recompute, or ``Tokens(n)``. 0 is Shift, 100 is Replay.
        cache: the cache of the original context, clean or itself repaired; computed when absent. Not modified.
        allocator: where to spend the budget.
        executor: how to recompute: "packed", "interval", "direct", "one-shot" or "auto".
        attention: backend of the packed executor.
        case_id: seeds the random-units control.

    Raises:
        InputError: bad budget, unknown allocator or executor, a cache of another length.
        Refused: a model or cache that cannot be repaired, named.
    """
    get_allocator(allocator)
    context = RepairContext(model, tokenizer, edit, query, dirty=cache, case_id=case_id)
    shifted = context.shifted
    timings: dict[str, float] = {n: context.timings[n] for n in ("prefill", "shift") if n in context.timings}
    with timed(timings, "allocate", model):
        positions = allocate(allocator, context, budget)
    timings["signal"] = signal_seconds(context, allocator)
    timings["allocate"] = max(0.0, timings["allocate"] - timings["signal"])
    with timed(timings, "refresh", model):
        where = np.union1d(positions, edit.inserted_positions)
        repaired = refresh(model, shifted, edit.edited_ids, where, executor, attention, in_place=True)
    return Repair(repaired, positions, maximal_intervals(positions), edit.inserted_positions, timings)


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
    """Repair a batch of sequences at once; each chooses its own positions.

    Args:
        edits: one per sequence; lengths and positions are the same in all of them.
        queries: one per sequence.
        cache: the cache [batch, ...] of all original contexts; computed when absent. Not modified.
        case_ids: one per sequence, or none.

    The other arguments are those of `repair`. Returns one `Repair` per sequence: they share one batched cache and
    one set of timings.

    Raises:
        InputError: unequal lengths, or not as many queries as edits; see also `repair`.
    """
    require_equal_lengths(edits)
    if len(queries) != len(edits) or len(case_ids) not in (0, len(edits)):
        raise InputError(f"{len(edits)} edits need as many queries and case ids (or no case ids)")
    get_allocator(allocator)
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
    return [Repair(repaired, rows, maximal_intervals(rows), inserted, timings) for rows in positions]


def _sequence(cache: Cache, index: int) -> Cache:
    """One sequence of a batch, aliased: what its own allocator looks at."""
    return plain_cache([Rows(k[index : index + 1], v[index : index + 1]) for k, v in read_rows(cache)])


def signal_seconds(context: RepairContext, allocator: str) -> float:
    """Seconds that the signals of `allocator` took in this context; 0 for those it did not need to compute."""
    return sum(context.timings.get(signal.value, 0.0) for signal in get_allocator(allocator).signals)
