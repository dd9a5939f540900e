"""Run all arms of one case and score what each answers: one measurement per arm."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from transformers.cache_utils import Cache

from cachemend.datasets.niah_case import NiahCase
from cachemend.datasets.niah_score import exact_match, read_values, visible_ids
from cachemend.repair_core import Answer, Arm, LoadedModel, answer_batch
from cachemend.repair_core.answering import answer_deltas
from cachemend.repair_core.deltas import Delta
from cachemend.repair_core.diagnostics import normalized_recovery, total_variation
from cachemend.repair_core.forward import input_device
from cachemend.repair_core.memory import batch_bytes
from cachemend.tasks.case_arms import Built, CaseArms
from cachemend.tasks.failures import failed_measurement, outcome_of


def run_case(
    loaded: LoadedModel,
    case: NiahCase,
    arms: Sequence[Arm],
    *,
    executor: str,
    attention: str,
    max_new_tokens: int,
    score_rule: str,
    auxiliary: LoadedModel | None = None,
) -> list[dict[str, Any]]:
    """Return one measurement per arm, in the order of `arms`, as the measurement columns of `records`.

    A failure of one arm, or of the whole case, becomes that arm's outcome and error; nothing is raised for it.
    Answers of all arms but Dirty are decoded as one batch, so their query and decode times are NULL.
    """
    try:
        shared = CaseArms(loaded=loaded, case=case, executor=executor, attention=attention, auxiliary=auxiliary)
        score = _Scoring.prepare(shared, max_new_tokens, score_rule)
    except Exception as error:  # noqa: BLE001  (a failing case becomes records with its reason)
        return [failed_measurement(case.gold, *outcome_of(error)) for _ in arms]
    limit = batch_bytes(input_device(loaded.model))
    rows: dict[str, dict[str, Any]] = {}
    waiting: dict[str, Built] = {}
    scored: dict[str | bytes, dict[str, Any]] = {}
    for arm in arms:
        try:
            waiting[arm.name] = shared.build(arm)
        except Exception as error:  # noqa: BLE001  (one arm's failure is that arm's record)
            rows[arm.name] = failed_measurement(case.gold, *outcome_of(error))
        if sum(_held_bytes(built.cache) for built in waiting.values()) > limit:
            rows |= _answer(score, waiting, scored)
            waiting.clear()
            shared.forget()
    rows |= _answer(score, waiting, scored)
    return [_finish(rows[arm.name]) for arm in arms]


class _Scoring(NamedTuple):
    """How the answers of one case are made and read.

    Attributes:
        clean, dirty: what the clean and the dirty cache say, without decoding.
    """

    shared: CaseArms
    max_new_tokens: int
    rule: str
    clean: Answer
    dirty: Answer

    @classmethod
    def prepare(cls, shared: CaseArms, max_new_tokens: int, rule: str) -> "_Scoring":
        said = [_ask(shared, [cache], 0)[0] for cache in (shared.context.clean, shared.context.dirty)]
        return cls(shared, max_new_tokens, rule, *said)

    def columns(self, said: Answer) -> dict[str, Any]:
        """What one answer adds to a record."""
        loaded, case = self.shared.loaded, self.shared.case
        text = loaded.tokenizer.decode(visible_ids(said.ids, end_of_turn_ids(loaded)), skip_special_tokens=False)
        gold, deleted = said.logprobs
        return {
            "answer": text,
            "answer_ids": list(said.ids),
            "parsed": read_values(text, self.rule),
            "gold": list(case.gold),
            "em": exact_match(text, case.gold, self.rule),
            "gold_nll": -gold,
            "tv_to_clean": total_variation(said.first, self.clean.first),
            "nr_tv": normalized_recovery(said.first, self.clean.first, self.dirty.first),
            "deleted_logprob": deleted,
            "leakage": deleted - self.clean.logprobs[1],
            "t_query": said.query_seconds,
            "t_decode": said.decode_seconds,
            "outcome": "ok",
        }


def _ask(shared: CaseArms, caches: Sequence[Cache | Delta], max_new_tokens: int) -> list[Answer]:
    """What each cache says; deltas are answered together, whole caches alone."""
    model, case = shared.loaded.model, shared.case
    continuations = (case.gold_ids, case.deleted_value_ids)
    deltas = [cache for cache in caches if isinstance(cache, Delta)]
    together = iter(
        answer_deltas(model, shared.base, deltas, case.query_ids, max_new_tokens, continuations=continuations)
    )
    return [
        next(together)
        if isinstance(cache, Delta)
        else answer_batch(model, [cache], case.query_ids, max_new_tokens, continuations=continuations)[0]
        for cache in caches
    ]


def _answer(
    score: _Scoring, waiting: dict[str, Built], scored: dict[str | bytes, dict[str, Any]]
) -> dict[str, dict[str, Any]]:
    """Answer what waits, equal caches once; `scored` keeps what was said."""
    new = {built.key: built.cache for built in waiting.values() if built.key not in scored}
    try:
        said = _ask(score.shared, list(new.values()), score.max_new_tokens)
    except Exception as error:  # noqa: BLE001  (these arms' failure is their record)
        failure = failed_measurement(score.shared.case.gold, *outcome_of(error))
        return {
            name: built.row | scored[built.key] if built.key in scored else dict(failure)
            for name, built in waiting.items()
        }
    scored |= {key: score.columns(answer) for key, answer in zip(new, said, strict=True)}
    return {name: built.row | scored[built.key] for name, built in waiting.items()}


def _held_bytes(cache: Cache | Delta) -> int:
    """Bytes an arm keeps until it is answered; a whole cache is held by the case anyway."""
    return sum(k.nbytes + v.nbytes for k, v in cache.rows) if isinstance(cache, Delta) else 0


def end_of_turn_ids(loaded: LoadedModel) -> frozenset[int]:
    """Token ids that end an answer: the tokenizer's and the generation configuration's."""
    stated = getattr(getattr(loaded.model, "generation_config", None), "eos_token_id", None)
    ids = stated if isinstance(stated, list) else [stated]
    return frozenset(i for i in (*ids, loaded.tokenizer.eos_token_id) if i is not None)


def _finish(row: dict[str, Any]) -> dict[str, Any]:
    """Turn a measurement that breaks an invariant or is not finite into a failure."""
    broken = [n for n in ("input_unchanged", "positions_exact", "unselected_bit_identical") if row.get(n) is False]
    numbers = ("gold_nll", "tv_to_clean", "nr_tv", "deleted_logprob", "leakage")
    broken += [f"{n} is not finite" for n in numbers if row.get(n) is not None and not np.isfinite(row[n])]
    if row["outcome"] == "ok" and broken:
        row |= {"outcome": "case_error", "error": f"broken invariant: {', '.join(broken)}", "em": None}
        row |= dict.fromkeys(numbers)
    return row
