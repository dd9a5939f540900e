"""Run all arms of one case and score what each answers: one measurement per arm."""

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from transformers.cache_utils import Cache

from cachemend.datasets.niah_case import NiahCase
from cachemend.datasets.niah_score import exact_match, read_values
from cachemend.repair_core import Answer, Arm, LoadedModel
from cachemend.repair_core.deltas import Delta
from cachemend.repair_core.diagnostics import normalized_recovery, total_variation
from cachemend.repair_core.forward import input_device
from cachemend.repair_core.locality import LOCALITY
from cachemend.repair_core.memory import batch_bytes
from cachemend.tasks.answer_arms import ArmAnswers, ask_caches
from cachemend.tasks.case_arms import CaseArms
from cachemend.tasks.ending import answer_text
from cachemend.tasks.failures import failed_measurement, outcome_of
from cachemend.tasks.locality_arm import build_locality


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
        score = _Scoring.prepare(shared, score_rule, max_new_tokens)
    except Exception as error:  # noqa: BLE001  (a failing case becomes records with its reason)
        return [failed_measurement(case.gold, *outcome_of(error)) for _ in arms]
    answers = ArmAnswers(
        build=lambda arm: build_locality(shared, arm, score.right) if arm.allocator == LOCALITY else shared.build(arm),
        ask=score.ask,
        columns=score.columns,
        failed=partial(failed_measurement, case.gold),
        forget=shared.forget,
        limit=batch_bytes(input_device(loaded.model)),
    )
    rows = answers.run(arms)
    return [_finish(rows[arm.name]) for arm in arms]


class _Scoring(NamedTuple):
    """How the answers of one case are made and read.

    Attributes:
        clean, dirty: what the clean and the dirty cache say, without decoding.
    """

    shared: CaseArms
    rule: str
    max_new_tokens: int
    clean: Answer
    dirty: Answer

    @classmethod
    def prepare(cls, shared: CaseArms, rule: str, max_new_tokens: int) -> "_Scoring":
        said = [_ask(shared, [cache], 0)[0] for cache in (shared.context.clean, shared.context.dirty)]
        return cls(shared, rule, max_new_tokens, *said)

    def ask(self, caches: Sequence[Cache | Delta]) -> list[Answer]:
        """What each cache says."""
        return _ask(self.shared, caches, self.max_new_tokens)

    def right(self, caches: Sequence[Cache | Delta]) -> list[bool]:
        """Whether what each cache says is the right answer."""
        loaded, gold = self.shared.loaded, self.shared.case.gold
        return [exact_match(answer_text(loaded, said.ids), gold, self.rule) == 1.0 for said in self.ask(caches)]

    def columns(self, said: Answer) -> dict[str, Any]:
        """What one answer adds to a record."""
        loaded, case = self.shared.loaded, self.shared.case
        text = answer_text(loaded, said.ids)
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
    case = shared.case
    continuations = (case.gold_ids, case.deleted_value_ids)
    return ask_caches(shared.loaded.model, shared.base, caches, case.query_ids, max_new_tokens, continuations)


def _finish(row: dict[str, Any]) -> dict[str, Any]:
    """Turn a measurement that breaks an invariant or is not finite into a failure."""
    broken = [n for n in ("input_unchanged", "positions_exact", "unselected_bit_identical") if row.get(n) is False]
    numbers = ("gold_nll", "tv_to_clean", "nr_tv", "deleted_logprob", "leakage")
    broken += [f"{n} is not finite" for n in numbers if row.get(n) is not None and not np.isfinite(row[n])]
    if row["outcome"] == "ok" and broken:
        row |= {"outcome": "case_error", "error": f"broken invariant: {', '.join(broken)}", "em": None}
        row |= dict.fromkeys(numbers)
    return row
