"""What must hold of an item before its numbers count; each guard gives "passed" or "failed: why", and stays on record.

Edit paper, "Sanity checks".
"""

import copy
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import nn
from transformers.cache_utils import Cache

from cachemend.datasets.edit_case import EditCase
from cachemend.repair_core import Answer, answer, prefill, refresh
from cachemend.repair_core.caches import plain_cache
from cachemend.repair_core.deltas import delta_of, restore
from cachemend.repair_core.forward import input_device
from cachemend.repair_core.pinning import pinned_frequencies
from cachemend.tasks.edit_arms import CLEAN, STALE
from cachemend.tasks.edit_case_arms import EditCaseArms, margin
from cachemend.tasks.failures import outcome_of

PASSED = "passed"
TOLERANCE = {"float32": 1e-3, "float16": 0.05, "bfloat16": 0.25}
"""Nats per token that two ways to the same numbers may differ by, per precision of the weights."""
REPRODUCED = 1e-3
NULL_K = 32
ONE_IN = 4


def guarded(case: EditCase) -> bool:
    """Whether an item is one of those whose guards are run: about one in four, by its digest.

    They cost two prefills and a plain forward, as much as several arms, and say something of the model and the engine
    rather than of the item.
    """
    return int(case.digest[:8], 16) % ONE_IN == 0


def guard_labels(shared: EditCaseArms, stale: Answer, clean: Answer, max_new_tokens: int) -> dict[str, str]:
    """Run the guards of one item and return their labels by name; a guard that raises has failed.

    Args:
        shared: the item, before any of its arms.
        stale, clean: what the two caches that its arms will use said.
        max_new_tokens: greedy tokens of those answers.
    """
    checks: dict[str, Callable[[], str]] = {
        "cached-against-full": lambda: _cached_against_full(shared, clean),
        "reproduced": lambda: _reproduced(shared, stale, clean, max_new_tokens),
        "null-content": lambda: _null_content(shared),
    }
    if shared.loaded.dtype != "float32":
        checks["float32-argmax"] = lambda: _float32_argmax(shared, clean)
    return {name: _label(check) for name, check in checks.items()}


def undisturbed(shared: EditCaseArms, stale: Answer, clean: Answer, max_new_tokens: int) -> dict[str, str]:
    """The guard for after the arms: whether the two caches, as the arms left them, still say the same."""
    caches = (shared.build(STALE).cache, shared.build(CLEAN).cache)
    return {"undisturbed": _label(lambda: _same(shared, caches, (stale, clean), max_new_tokens))}


def _label(check: Callable[[], str]) -> str:
    try:
        return check()
    except Exception as error:  # noqa: BLE001  (a guard that cannot run is a guard that failed, and says why)
        return f"failed: {outcome_of(error)[1]}"


def _within(what: str, difference: float, tolerance: float) -> str:
    # Also false for NaN.
    if difference <= tolerance:
        return PASSED
    return f"failed: {what} differ by {difference:.3g}, more than {tolerance:g}"


def _cached_against_full(shared: EditCaseArms, clean: Answer) -> str:
    """The new answer scored from the clean cache against one forward of everything, without any cache."""
    case, model = shared.case, shared.loaded.model
    full = _mean_logprob(model, (*case.edited_ids, *case.query_ids), case.new_ids)
    return _within("log-probabilities of the answer", abs(full - clean.logprobs[0]), TOLERANCE[shared.loaded.dtype])


def _reproduced(shared: EditCaseArms, stale: Answer, clean: Answer, max_new_tokens: int) -> str:
    """Stale and clean prefilled anew and answered once more."""
    caches = [prefill(shared.loaded.model, ids) for ids in (shared.case.original_ids, shared.case.edited_ids)]
    return _same(shared, caches, (stale, clean), max_new_tokens)


def _same(shared: EditCaseArms, caches: Sequence[Cache], said: Sequence[Answer], max_new_tokens: int) -> str:
    """Whether a stale and a clean cache say what was said before: the same text, the same margins."""
    for name, first, second in zip(("stale", "clean"), said, shared.ask(caches, max_new_tokens), strict=True):
        if first.ids != second.ids:
            return f"failed: the {name} answer is another one the second time"
        difference = abs(margin(first) - margin(second))
        if not difference <= REPRODUCED:
            return f"failed: the {name} margins differ by {difference:.3g}, more than {REPRODUCED:g}"
    return PASSED


def _null_content(shared: EditCaseArms) -> str:
    """The rows of an edit-local repair recomputed under the unedited text, which must change nothing."""
    case, model = shared.case, shared.loaded.model
    where = np.concatenate((shared.span, shared.context.pool[:NULL_K]))
    try:
        cache = plain_cache(shared.scratch)
        refresh(model, cache, case.original_ids, where, shared.executor, shared.attention, in_place=True)
        same = delta_of(shared.scratch, where)
    finally:
        restore(shared.scratch, shared.base, where)
    before, after = shared.ask([shared.build(STALE).cache, same], 0)
    return _within("margins", abs(margin(before) - margin(after)), TOLERANCE[shared.loaded.dtype])


def _float32_argmax(shared: EditCaseArms, clean: Answer) -> str:
    """Where cached and full forward begin the answer with different tokens: whether they agree in float32."""
    case, model = shared.case, shared.loaded.model
    context = (*case.edited_ids, *case.query_ids)
    cached, full = int(clean.first.argmax()), int(_last_logits(model, context, 1)[0].argmax())
    if cached == full:
        return PASSED
    exact = copy.deepcopy(model).float()
    cached = answer(exact, prefill(exact, case.edited_ids), case.query_ids, 1).ids[0]
    full = int(_last_logits(exact, context, 1)[0].argmax())
    return (
        PASSED if cached == full else f"failed: the answer begins with {cached} cached and {full} in full, in float32"
    )


def _mean_logprob(model: nn.Module, context: Sequence[int], continuation: Sequence[int]) -> float:
    logits = _last_logits(model, (*context, *continuation[:-1]), len(continuation))
    wanted = torch.tensor(continuation, device=logits.device)
    return float(logits.log_softmax(-1).gather(1, wanted[:, None]).mean())


def _last_logits(model: nn.Module, ids: Sequence[int], count: int) -> torch.Tensor:
    """FP64 [count, vocabulary]: the logits of the last `count` tokens of one plain forward."""
    tokens = torch.tensor([ids], device=input_device(model))
    with torch.no_grad(), pinned_frequencies(model, len(ids)):
        logits: torch.Tensor = model(input_ids=tokens, use_cache=False, logits_to_keep=count).logits
    return logits[0].double()
