"""The 88 arms of one case together, against the sum of their distinct stages and against each arm alone."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
from torch import nn

from cachemend.datasets.niah import build_niah
from cachemend.datasets.niah_case import NiahCase
from cachemend.datasets.niah_rosters import EMBEDDED_DEV
from cachemend.repair_core import Arm, LoadedModel, RepairContext, allocate, refresh, replay, sweep_arms
from cachemend.repair_core.allocators import get_allocator, names
from cachemend.repair_core.allocators.base import Signal
from cachemend.repair_core.answering import answer_batch, answer_deltas
from cachemend.repair_core.caches import clone_rows, plain_cache, read_rows
from cachemend.repair_core.deltas import Delta, delta_of
from cachemend.repair_core.timing import timed
from cachemend.tasks.bench.target import Target
from cachemend.tasks.repair_case import run_case

BUDGETS = (2.0, 5.0, 10.0, 20.0, 40.0, 80.0)
_PROPERTY = {
    Signal.UNITS: "segmentation",
    Signal.EMBEDDINGS: "relevance",
    Signal.QUERY_ATTENTION: "query_attention",
    Signal.DIRTY_REPLAY: "deleted_mass",
    Signal.SHALLOW_PREFILL: "shallow",
    Signal.SHALLOW_QUERY: "shallow_query_attention",
    Signal.SPECTRUM: "low_pass_strength",
    Signal.AUXILIARY_MODEL: "auxiliary_scores",
    Signal.CLEAN_CACHE: "clean",
}


def bench_sharing(loaded: LoadedModel, length: int = 1024) -> list[Target]:
    """Print the three times and return the targets.

    Raises:
        AssertionError: an arm answers differently alone and together (FP32).
    """
    roster = replace(EMBEDDED_DEV, lengths=(length,), cases_per_length=1)
    case = build_niah(loaded.tokenizer, roster).cases[0]
    arms = sweep_arms(names(), BUDGETS)
    _run(loaded, case, arms[:1])
    together, shared = _run(loaded, case, arms)
    stages = _stages(loaded, case, arms)
    alone, separate = 0.0, []
    for arm in arms:
        seconds, rows = _run(loaded, case, [arm])
        alone += seconds
        separate += rows
    if [row["answer"] for row in separate] != [row["answer"] for row in shared]:
        raise AssertionError("an arm answers differently alone and together")
    total = sum(stages.values())
    print(f"\nSharing, {len(arms)} arms of one case, N={case.n_tokens}, S={case.deletion.suffix_length}")
    for name, seconds in stages.items():
        print(f"  {name:44} {seconds:8.2f} s")
    print(f"  {'sum of distinct stages':44} {total:8.2f} s\n  {'all arms together':44} {together:8.2f} s")
    print(f"  {'one by one, model loaded (same answers)':44} {alone:8.2f} s")
    return [
        Target("all arms together over the sum of their distinct stages", together / total, at_most=1.2),
        Target("one by one over together", alone / together, at_least=5.0),
    ]


def _stages(loaded: LoadedModel, case: NiahCase, arms: Sequence[Arm]) -> dict[str, float]:
    """Seconds of every distinct piece of work, each done once, on its own."""
    model, edit, query = loaded.model, case.deletion, case.query_ids
    seconds: dict[str, float] = {}
    context = RepairContext(
        model,
        loaded.tokenizer,
        edit,
        case.query_text,
        case_id=case.case_id,
        query_ids=case.relevance_ids,
    )
    with _added(seconds, model, "prefill of the original context"):
        dirty = context.dirty
    with _added(seconds, model, "shift"):
        base = read_rows(context.shifted)
    with _added(seconds, model, "prefill of the edited context"):
        clean = context.clean
    with _added(seconds, model, "replay"):
        replayed = replay(model, dirty, edit)
    sparse = [(arm.allocator, arm.budget) for arm in arms if arm.budget is not None]
    for signal in dict.fromkeys(signal for name, _ in sparse for signal in get_allocator(name).signals):
        with _added(seconds, model, f"signal: {signal.value}"):
            getattr(context, _PROPERTY[signal])
    deltas: dict[bytes, Delta] = {}
    for name, budget in sparse:
        with _added(seconds, model, f"{len(sparse)} allocations"):
            positions = allocate(name, context, budget)
        if positions.tobytes() not in deltas:
            scratch = clone_rows(base)
            with _added(seconds, model, "refresh of each distinct support"):
                refresh(model, plain_cache(scratch), edit.edited_ids, positions, in_place=True)
            deltas[positions.tobytes()] = delta_of(scratch, positions)
    asked = [*deltas.values(), delta_of(base, edit.deleted_positions[:0])]
    asked += [delta_of(read_rows(cache), np.arange(len(edit.edited_ids))) for cache in (replayed, clean)]
    scored, limit = (case.gold_ids, case.deleted_value_ids), EMBEDDED_DEV.max_new_tokens
    with _added(seconds, model, "answers, all supports and references"):
        answer_deltas(model, base, asked, query, limit, continuations=scored)
    with _added(seconds, model, "answer, dirty"):
        answer_batch(model, [dirty], query, limit, continuations=scored)
    return seconds


@contextmanager
def _added(seconds: dict[str, float], model: nn.Module, name: str) -> Iterator[None]:
    part: dict[str, float] = {}
    with timed(part, name, model):
        yield
    seconds[name] = seconds.get(name, 0.0) + part[name]


def _run(loaded: LoadedModel, case: NiahCase, arms: Sequence[Arm]) -> tuple[float, list[dict]]:
    start = time.perf_counter()
    rows = run_case(
        loaded,
        case,
        arms,
        executor="packed",
        attention="sdpa",
        max_new_tokens=EMBEDDED_DEV.max_new_tokens,
        score_rule=EMBEDDED_DEV.score_rule,
    )
    return time.perf_counter() - start, rows
