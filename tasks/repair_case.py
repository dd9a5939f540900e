"""Run all arms of one case: shared prefill, shift, units and scores; one measurement per arm."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from transformers.cache_utils import Cache

from cachemend.datasets.niah_case import NiahCase
from cachemend.datasets.niah_score import exact_match, read_values, visible_ids
from cachemend.repair_core import (
    Answer,
    Arm,
    LoadedModel,
    RepairContext,
    allocate,
    answer_batch,
    prefill,
    refresh,
    repair_budget,
    replay,
)
from cachemend.repair_core.caches import Rows, clone_rows, read_rows
from cachemend.repair_core.diagnostics import Distribution, normalized_recovery, total_variation
from cachemend.repair_core.intervals import Positions, causal_pairs, maximal_intervals, token_layers
from cachemend.repair_core.invariants import caches_equal, changed_rows
from cachemend.repair_core.repairing import signal_seconds
from cachemend.repair_core.timing import timed
from cachemend.tasks.failures import failed_measurement, outcome_of

# Caches of arms held at once; more arms are answered in several batches.
ARM_BYTES = 2 * 1024**3
TIMED_STAGES = (
    "t_prefill: prefill of p + e + s (dirty) or of p + s (re-prefill)",
    "t_signal: units and scores, once per case, charged to every arm that uses them",
    "t_allocate: choice of positions from the scores",
    "t_shift: cut and rotation of the suffix, once per case",
    "t_refresh: recomputation and the copy of the cache, once per distinct support; the suffix forward for replay",
    "t_query, t_decode: only where an arm is answered alone",
)


@dataclass
class _Built:
    """An arm's cache and what was measured while it was made."""

    arm: Arm
    cache: Cache
    row: dict[str, Any]


@dataclass
class _Case:
    """State shared by the arms of one case."""

    loaded: LoadedModel
    case: NiahCase
    executor: str
    attention: str
    context: RepairContext
    clean: Cache
    clean_seconds: float
    reference: list[Rows] = field(default_factory=list)
    """Bits of the shifted cache before any arm ran."""
    refreshed: dict[bytes, tuple[Cache, dict[str, Any]]] = field(default_factory=dict)
    """Caches by support, of the arms held at once: arms that chose the same positions share one refresh."""


def run_case(
    loaded: LoadedModel,
    case: NiahCase,
    arms: Sequence[Arm],
    *,
    executor: str,
    attention: str,
    max_new_tokens: int,
    score_rule: str,
) -> list[dict[str, Any]]:
    """Return one measurement per arm, in the order of `arms`, as the measurement columns of `records`.

    A failure of one arm, or of the whole case, becomes that arm's outcome and error; nothing is raised for it.
    Answers of arms with equally long caches are decoded as one batch, so their query and decode times are NULL.
    """
    try:
        state = _prepare(loaded, case, executor, attention)
        clean, dirty = (_answers(loaded, case, [cache], 0)[0].first for cache in (state.clean, state.context.dirty))
    except Exception as error:  # noqa: BLE001  (a failing case becomes records with its reason)
        return [failed_measurement(case.gold, *outcome_of(error)) for _ in arms]
    results: dict[str, dict[str, Any]] = {}
    size = max(1, ARM_BYTES // sum(k.nbytes + v.nbytes for k, v in read_rows(state.clean)))
    for start in range(0, len(arms), size):
        state.refreshed.clear()
        built: list[_Built] = []
        for arm in arms[start : start + size]:
            try:
                built.append(_build(state, arm))
            except Exception as error:  # noqa: BLE001  (one arm's failure is that arm's record)
                results[arm.name] = failed_measurement(case.gold, *outcome_of(error))
        for group in _by_length(built):
            try:
                distinct = {id(b.cache): b.cache for b in group}
                answers = _answers(loaded, case, list(distinct.values()), max_new_tokens)
            except Exception as error:  # noqa: BLE001
                results |= {b.arm.name: failed_measurement(case.gold, *outcome_of(error)) for b in group}
                continue
            said = dict(zip(distinct, answers, strict=True))
            for b in group:
                results[b.arm.name] = b.row | _score(loaded, case, said[id(b.cache)], score_rule, clean, dirty)
    return [_finish(results[arm.name]) for arm in arms]


def _prepare(loaded: LoadedModel, case: NiahCase, executor: str, attention: str) -> _Case:
    vocabulary = loaded.model.get_input_embeddings().weight.shape[0]  # type: ignore[operator]
    largest = max(max(case.deletion.original_ids), max(case.query_ids))
    if largest >= vocabulary:
        raise ValueError(f"case {case.case_id} holds token id {largest}; the model knows {vocabulary} tokens")
    context = RepairContext(
        loaded.model,
        loaded.tokenizer,
        case.deletion,
        case.query_text,
        case_id=case.case_id,
        query_ids=case.relevance_ids,
    )
    reference = clone_rows(read_rows(context.shifted))
    seconds: dict[str, float] = {}
    with timed(seconds, "clean", loaded.model):
        clean = prefill(loaded.model, case.deletion.edited_ids)
    return _Case(loaded, case, executor, attention, context, clean, seconds["clean"], reference)


def _build(state: _Case, arm: Arm) -> _Built:
    if arm.budget is None:
        return _build_reference(state, arm)
    context, deletion = state.context, state.case.deletion
    timings: dict[str, float] = {}
    before = signal_seconds(context, arm.allocator)
    with timed(timings, "allocate", context.model):
        positions = allocate(arm.allocator, context, arm.budget)
    signal = signal_seconds(context, arm.allocator)
    cache, measured = _refresh(state, positions)
    row = _work(state, positions) | {
        "positions_budget": repair_budget(deletion.suffix_length, arm.budget),
        "t_signal": signal,
        # The first arm to need a signal computes it inside `allocate`.
        "t_allocate": max(0.0, timings["allocate"] - (signal - before)),
        "t_shift": context.timings["shift"],
        **measured,
    }
    row["positions_exact"] = row["positions_exact"] and len(positions) == row["positions_budget"]
    return _Built(arm, cache, row)


def _refresh(state: _Case, positions: Positions) -> tuple[Cache, dict[str, Any]]:
    """The cache refreshed at `positions`, its time and its invariants."""
    key = positions.tobytes()
    if key not in state.refreshed:
        context = state.context
        measured: dict[str, Any] = {}
        ids = state.case.deletion.edited_ids
        with timed(measured, "t_refresh", context.model):
            cache = refresh(context.model, context.shifted, ids, positions, state.executor, state.attention)
        state.refreshed[key] = cache, measured | _invariants(state, positions, read_rows(cache))
    return state.refreshed[key]


def _build_reference(state: _Case, arm: Arm) -> _Built:
    context, deletion = state.context, state.case.deletion
    prefix, length = deletion.prefix_length, len(deletion.edited_ids)
    timings: dict[str, float] = {}
    recomputed: Positions = np.empty(0, dtype=np.int64)
    if arm.allocator == "dirty":
        return _Built(arm, context.dirty, _work(state, recomputed) | {"t_prefill": context.timings["prefill"]})
    if arm.allocator == "shift":
        row = _work(state, recomputed) | {"positions_budget": 0, "t_shift": context.timings["shift"]}
        return _Built(arm, context.shifted, row)
    if arm.allocator == "replay":
        with timed(timings, "t_refresh", context.model):
            cache: Cache = replay(context.model, context.dirty, deletion)
        recomputed = np.arange(prefix, length)
    else:
        cache, timings["t_prefill"] = state.clean, state.clean_seconds
        recomputed = np.arange(length)
    row = _work(state, recomputed) | timings | {"positions": [], "intervals": [], "n_intervals": 0}
    return _Built(arm, cache, row)


def _work(state: _Case, positions: Positions) -> dict[str, Any]:
    runs = maximal_intervals(positions)
    n_layers = len(read_rows(state.context.shifted))
    return {
        "positions": positions.tolist(),
        "intervals": [{"start": run.start, "stop": run.stop} for run in runs],
        "n_intervals": len(runs),
        "token_layers": token_layers(positions, n_layers),
        "causal_pairs": causal_pairs(positions),
    }


def _invariants(state: _Case, positions: Positions, after: Sequence[Rows]) -> dict[str, bool]:
    """Input, selection and unselected rows, checked against the bits the shifted cache had at the start."""
    deletion = state.case.deletion
    inside = bool(((positions >= deletion.prefix_length) & (positions < len(deletion.edited_ids))).all())
    distinct = len(np.unique(positions)) == len(positions)
    return {
        "input_unchanged": caches_equal(state.reference, read_rows(state.context.shifted)),
        "positions_exact": inside and distinct,
        "unselected_bit_identical": bool(np.isin(changed_rows(state.reference, after), positions).all()),
    }


def _by_length(built: Sequence[_Built]) -> list[list[_Built]]:
    groups: dict[int, list[_Built]] = {}
    for b in built:
        groups.setdefault(read_rows(b.cache)[0].keys.shape[-2], []).append(b)
    return list(groups.values())


def _answers(loaded: LoadedModel, case: NiahCase, caches: Sequence[Cache], max_new_tokens: int) -> list[Answer]:
    gold = case.gold_ids if max_new_tokens else ()
    return answer_batch(loaded.model, caches, case.query_ids, max_new_tokens, gold_ids=gold)


def end_of_turn_ids(loaded: LoadedModel) -> frozenset[int]:
    """Token ids that end an answer: the tokenizer's and the generation configuration's."""
    stated = getattr(getattr(loaded.model, "generation_config", None), "eos_token_id", None)
    ids = stated if isinstance(stated, list) else [stated]
    return frozenset(i for i in (*ids, loaded.tokenizer.eos_token_id) if i is not None)


def _score(
    loaded: LoadedModel, case: NiahCase, said: Answer, rule: str, clean: Distribution, dirty: Distribution
) -> dict[str, Any]:
    text = loaded.tokenizer.decode(visible_ids(said.ids, end_of_turn_ids(loaded)), skip_special_tokens=False)
    return {
        "answer": text,
        "answer_ids": list(said.ids),
        "parsed": read_values(text, rule),
        "gold": list(case.gold),
        "em": exact_match(text, case.gold, rule),
        "gold_nll": said.gold_nll,
        "tv_to_clean": total_variation(said.first, clean),
        "nr_tv": normalized_recovery(said.first, clean, dirty),
        "t_query": said.query_seconds,
        "t_decode": said.decode_seconds,
        "outcome": "ok",
    }


def _finish(row: dict[str, Any]) -> dict[str, Any]:
    """Turn a measurement that breaks an invariant or is not finite into a failure."""
    broken = [n for n in ("input_unchanged", "positions_exact", "unselected_bit_identical") if row.get(n) is False]
    numbers = ("gold_nll", "tv_to_clean", "nr_tv")
    broken += [f"{n} is not finite" for n in numbers if row.get(n) is not None and not np.isfinite(row[n])]
    if row["outcome"] == "ok" and broken:
        row |= {"outcome": "case_error", "error": f"broken invariant: {', '.join(broken)}", "em": None}
        row |= dict.fromkeys(numbers)
    return row
