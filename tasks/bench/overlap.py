"""Preparation one after the other and overlapped, on natural text (paper section 13.3, on this machine)."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from cachemend.datasets.niah import build_niah
from cachemend.datasets.niah_rosters import EMBEDDED_DEV
from cachemend.repair_core import LoadedModel, RepairContext, Tokens, allocate, answer, prefill, refresh
from cachemend.repair_core.caches import RepairedCache, read_rows
from cachemend.repair_core.intervals import Positions, maximal_intervals
from cachemend.repair_core.invariants import caches_equal
from cachemend.repair_core.preparing import prepare_overlapped
from cachemend.tasks.bench.sampling import interleaved
from cachemend.tasks.bench.target import Target

TIMED = "timed: relevance, units, allocation, Shift, refresh; not the prefill, not the tokens of the query"


def bench_overlap(loaded: LoadedModel, length: int = 2048, count: int = 64, repeats: int = 15) -> list[Target]:
    """Print both recovery times and selection times; overlapping should not be clearly the slower.

    Raises:
        AssertionError: the two differ in support, cache or first-token distribution.
    """
    roster = replace(EMBEDDED_DEV, lengths=(length,), cases_per_length=1)
    case = build_niah(loaded.tokenizer, roster).cases[0]
    model, edit = loaded.model, case.deletion
    dirty = prefill(model, edit.original_ids)

    def select(overlap: bool) -> tuple[RepairContext, Positions]:
        context = RepairContext(model, loaded.tokenizer, edit, case.query_text, dirty=dirty)
        _ = context.query_ids
        if overlap:
            prepare_overlapped(context)
        return context, allocate("sur", context, Tokens(count))

    def recover(overlap: bool) -> tuple[Positions, RepairedCache]:
        context, positions = select(overlap)
        return positions, refresh(model, context.shifted, edit.edited_ids, positions, in_place=True)

    (chosen, serial), (same, beside) = recover(False), recover(True)
    replies = [answer(model, cache, case.query_ids, max_new_tokens=1) for cache in (serial, beside)]
    if not (
        np.array_equal(chosen, same)
        and caches_equal(read_rows(serial), read_rows(beside))
        and np.array_equal(replies[0].first, replies[1].first)
    ):
        raise AssertionError("overlapped preparation gave another support, cache or distribution")
    ways = {"serial": False, "overlapped": True}
    stages: dict[str, Callable[[bool], object]] = {"recovery": recover, "selection": select}
    functions = {(what, name): partial(run, how) for what, run in stages.items() for name, how in ways.items()}
    times = interleaved(functions, repeats)
    print(f"\nPreparation, SUR, N={case.n_tokens}, B={count}, R={len(maximal_intervals(chosen))}")
    print(f"{TIMED}; support, cache and first-token distribution are equal bit for bit")
    for (what, name), sample in times.items():
        print(f"  {what:<9} {name:<10} {sample}")
    ratio = times["recovery", "overlapped"].median / times["recovery", "serial"].median
    return [Target("recovery with overlapped over serial preparation", ratio, at_most=1.05)]
