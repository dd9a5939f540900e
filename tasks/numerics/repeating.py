"""Repeats of one case: three independent builds of every path, and three decodes from one cache (paper section 11)."""

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any

from transformers.cache_utils import Cache

from cachemend.datasets.niah_case import NiahCase
from cachemend.repair_core import Answer, LoadedModel, answer
from cachemend.tasks.ending import answer_text
from cachemend.tasks.failures import outcome_of
from cachemend.tasks.numerics.arms import RE_PREFILL, PathArm
from cachemend.tasks.numerics.building import BuiltPath, build_path, fresh_context
from cachemend.tasks.numerics.finishing import finished
from cachemend.tasks.work import Measured

REPEATS = 3
SHARED, BUILT = "shared", "built"


def cells_of(arm: PathArm) -> list[dict[str, Any]]:
    """The key columns of an arm's rows: its builds, and for Re-prefill the decodes from one of them."""
    kinds = (BUILT, SHARED) if arm == RE_PREFILL else (BUILT,)
    return [{"cache": kind, "repeat": repeat} for kind in kinds for repeat in range(1, REPEATS + 1)]


def repeat_case(
    loaded: LoadedModel, case: NiahCase, arms: Sequence[PathArm], attention: str, max_new_tokens: int
) -> list[Measured]:
    """Build and decode everything anew in each repeat, and return one measurement per arm and cell.

    Within a repeat, Shift, Replay and SUR start from one prefill of the original context; Re-prefill has its own. Every
    answer is decoded alone, as the only sequence of its batch.
    """
    rows = []
    for repeat in range(1, REPEATS + 1):
        context = fresh_context(loaded, case)
        for arm in arms:
            try:
                built = build_path(context, arm, attention)
                said = [(BUILT, repeat, _decoded(loaded, case, built.cache, max_new_tokens))]
                if arm == RE_PREFILL and repeat == 1:
                    said += _from_one(loaded, case, built.cache, max_new_tokens)
                rows += [Measured(arm, _row(loaded, each, built)) for each in said]
            except Exception as error:  # noqa: BLE001  (one build's failure is that build's record)
                rows += failed_cells(arm, *outcome_of(error), repeat)
    return rows


def failed_cells(arm: PathArm, outcome: str, error: str, repeat: int | None = None) -> list[Measured]:
    """The rows of an arm that gave no answer, of one repeat or of all; the shared decodes belong to the first."""
    of_repeat = [cell for cell in cells_of(arm) if repeat in (None, 1 if cell["cache"] == SHARED else cell["repeat"])]
    return [Measured(arm, {**cell, "outcome": outcome, "error": error}) for cell in of_repeat]


def _from_one(loaded: LoadedModel, case: NiahCase, cache: Cache, limit: int) -> Iterator[tuple[str, int, Answer]]:
    for again in range(1, REPEATS + 1):
        yield SHARED, again, _decoded(loaded, case, cache, limit)


def _decoded(loaded: LoadedModel, case: NiahCase, cache: Cache, limit: int) -> Answer:
    return answer(loaded.model, cache, case.query_ids, limit, (), (case.gold_ids,))


def _row(loaded: LoadedModel, said: tuple[str, int, Answer], built: BuiltPath) -> dict[str, Any]:
    kind, repeat, found = said
    row = {
        "cache": kind,
        "repeat": repeat,
        "n_positions": len(built.positions),
        "n_intervals": built.n_intervals,
        "answer": answer_text(loaded, found.ids),
        "answer_ids": list(found.ids),
        "logits_sha256": hashlib.sha256(found.logits.tobytes()).hexdigest(),
        "argmax": int(found.logits.argmax()),
        "gold_nll": -found.logprobs[0],
        "outcome": "ok",
    }
    return finished(row)
