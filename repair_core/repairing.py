"""Repair in one call: shift, choose, refresh."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from torch import nn
from transformers import PreTrainedTokenizerBase
from transformers.cache_utils import Cache

from cachemend.repair_core.allocators import allocate, get_allocator
from cachemend.repair_core.budget import Tokens
from cachemend.repair_core.caches import RepairedCache
from cachemend.repair_core.context import RepairContext
from cachemend.repair_core.edits import Deletion, require_equal_lengths
from cachemend.repair_core.errors import InputError
from cachemend.repair_core.intervals import Interval, Positions, maximal_intervals
from cachemend.repair_core.prefilling import prefill
from cachemend.repair_core.refreshing import refresh
from cachemend.repair_core.shifting import shift
from cachemend.repair_core.timing import timed


class Repair(NamedTuple):
    """A repaired cache and what was done to get it.

    Attributes:
        cache: marked cache of p + s, usable like any Hugging Face cache; continue at position P + S.
        positions: int64 [B], the recomputed positions in the edited context.
        intervals: the same as maximal half-open intervals.
        timings: seconds per component: prefill (only when no cache was passed), signal, allocate, shift, refresh.
    """

    cache: RepairedCache
    positions: Positions
    intervals: tuple[Interval, ...]
    timings: dict[str, float]


def repair(
    model: nn.Module,
    tokenizer: PreTrainedTokenizerBase,
    deletion: Deletion,
    query: str,
    budget: float | str | Tokens = 5,
    *,
    cache: Cache | None = None,
    allocator: str = "sur",
    executor: str = "packed",
    attention: str = "sdpa",
    case_id: str = "",
) -> Repair:
    """Repair a KV cache after a deletion, spending `budget` where the next query needs it.

    Args:
        model: a Hugging Face causal language model.
        tokenizer: its tokenizer.
        deletion: prefix, deleted span and suffix as token ids.
        query: bare text of the next query; it directs the budget and is not part of the cache.
        budget: percent of the retained suffix to recompute, or ``Tokens(n)``. 0 is Shift, 100 is Replay.
        cache: the clean cache of p + e + s; computed when absent. Not modified.
        allocator: where to spend the budget.
        executor: how to recompute: "packed", "interval", "direct", "one-shot" or "auto".
        attention: backend of the packed executor.
        case_id: seeds the random-units control.

    Raises:
        InputError: bad budget, unknown allocator or executor, a cache of another length.
        Refused: a model or cache that cannot be repaired, named.
    """
    get_allocator(allocator)
    context = RepairContext(model, tokenizer, deletion, query, dirty=cache, case_id=case_id)
    shifted = context.shifted
    timings: dict[str, float] = {n: context.timings[n] for n in ("prefill", "shift") if n in context.timings}
    with timed(timings, "allocate", model):
        positions = allocate(allocator, context, budget)
    timings["signal"] = signal_seconds(context, allocator)
    timings["allocate"] = max(0.0, timings["allocate"] - timings["signal"])
    with timed(timings, "refresh", model):
        repaired = refresh(model, shifted, deletion.edited_ids, positions, executor, attention, in_place=True)
    return Repair(repaired, positions, maximal_intervals(positions), timings)


def repair_batch(
    model: nn.Module,
    tokenizer: PreTrainedTokenizerBase,
    deletions: Sequence[Deletion],
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
        deletions: one per sequence; prefix, deleted span and suffix have the same lengths in all of them.
        queries: one per sequence.
        cache: the clean cache [batch, ...] of all p + e + s; computed when absent. Not modified.
        case_ids: one per sequence, or none.

    The other arguments are those of `repair`. Returns one `Repair` per sequence: they share one batched cache and
    one set of timings.

    Raises:
        InputError: unequal lengths, or as many queries as deletions are not given; see also `repair`.
    """
    require_equal_lengths(deletions)
    if len(queries) != len(deletions) or len(case_ids) not in (0, len(deletions)):
        raise InputError(f"{len(deletions)} deletions need as many queries and case ids (or no case ids)")
    get_allocator(allocator)
    timings: dict[str, float] = {}
    with timed(timings, "prefill", model):
        dirty = cache if cache is not None else prefill(model, [d.original_ids for d in deletions])
    if cache is not None:
        del timings["prefill"]
    with timed(timings, "shift", model):
        shifted = shift(model, dirty, deletions[0])
    contexts = [
        RepairContext(model, tokenizer, d, q, dirty=dirty, case_id=case_ids[i] if case_ids else "")
        for i, (d, q) in enumerate(zip(deletions, queries, strict=True))
    ]
    with timed(timings, "allocate", model):
        positions = [allocate(allocator, context, budget) for context in contexts]
    timings["signal"] = sum(signal_seconds(context, allocator) for context in contexts)
    timings["allocate"] = max(0.0, timings["allocate"] - timings["signal"])
    with timed(timings, "refresh", model):
        edited = [d.edited_ids for d in deletions]
        repaired = refresh(model, shifted, edited, np.stack(positions), executor, attention, in_place=True)
    return [Repair(repaired, rows, maximal_intervals(rows), timings) for rows in positions]


def signal_seconds(context: RepairContext, allocator: str) -> float:
    """Seconds that the signals of `allocator` took in this context; 0 for those it did not need to compute."""
    return sum(context.timings.get(signal.value, 0.0) for signal in get_allocator(allocator).signals)
