"""Run the arms of one edited item and score what each answers: one measurement per arm."""

import json
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from cachemend.calibration.recovery import kl_divergence, kl_recovery, margin_recovery
from cachemend.datasets.edit_case import EditCase
from cachemend.datasets.edit_score import flips
from cachemend.repair_core import Answer, LoadedModel
from cachemend.repair_core.diagnostics import total_variation
from cachemend.repair_core.forward import input_device
from cachemend.repair_core.memory import batch_bytes
from cachemend.tasks.answer_arms import ArmAnswers
from cachemend.tasks.edit_arms import CLEAN, STALE, EditArm
from cachemend.tasks.edit_case_arms import EditCaseArms, margin
from cachemend.tasks.edit_embeddings import embedding_features
from cachemend.tasks.edit_guards import guard_labels, guarded, undisturbed
from cachemend.tasks.ending import answer_text
from cachemend.tasks.failures import outcome_of

INVARIANTS = ("input_unchanged", "positions_exact", "unselected_bit_identical", "upstream_bit_identical")
NUMBERS = ("margin", "logprob_new", "logprob_old", "margin_recovery", "kl_to_clean", "kl_recovery", "tv_to_clean")


def run_edit_case(
    loaded: LoadedModel,
    case: EditCase,
    arms: Sequence[EditArm],
    *,
    executor: str = "packed",
    attention: str = "sdpa",
    max_new_tokens: int = 16,
    min_gap: float = 0.0,
) -> list[dict[str, Any] | None]:
    """Return one measurement per arm, in the order of `arms`, as the measurement columns of `edit_records`.

    Stale and clean cache are answered first. An item is retained when the clean answer flips and its margin exceeds
    the stale one by more than `min_gap` (edit paper, "Paired edit benchmark"); the arms of one that is not are None,
    but for the references and unconditional arms. A failure of one arm, or of the whole item, becomes that arm's
    outcome and error. Of one retained item in four the guards are run, all but one of them before any other arm; their
    labels go to the clean arm.

    Args:
        loaded: the model.
        case: the item.
        arms: what to run.
        executor, attention: how chosen rows are recomputed.
        max_new_tokens: greedy tokens of an answer.
        min_gap: nats per token.
    """
    failed = partial(failed_edit, case)
    try:
        shared = EditCaseArms(loaded=loaded, case=case, executor=executor, attention=attention)
        score = _Scoring.prepare(shared, max_new_tokens, min_gap)
    except Exception as error:  # noqa: BLE001  (a failing item becomes records with its reason)
        return [failed(*outcome_of(error)) for _ in arms]
    needed = [arm for arm in arms if score.retained or arm.is_reference or arm.unconditional]
    labels: dict[str, str] = {}
    is_guarded = score.retained and guarded(case) and CLEAN.name in (arm.name for arm in needed)
    if is_guarded:
        labels |= guard_labels(shared, score.stale, score.clean, max_new_tokens)
    answers = ArmAnswers(
        build=shared.build,
        ask=lambda caches: shared.ask(caches, max_new_tokens),
        columns=score.columns,
        failed=failed,
        forget=shared.forget,
        limit=batch_bytes(input_device(loaded.model)),
    )
    said = {STALE.name: score.stale, CLEAN.name: score.clean}
    rows = answers.run([arm for arm in needed if arm.name not in said])
    for arm in needed:
        if arm.name in said:
            rows[arm.name] = shared.build(arm).row | score.columns(said[arm.name])
    if STALE.name in rows:
        rows[STALE.name]["embedding_features"] = json.dumps(embedding_features(loaded.model, case))
    if is_guarded:
        labels |= undisturbed(shared, score.stale, score.clean, max_new_tokens)
        rows[CLEAN.name]["guards"] = json.dumps(labels)
    return [_finish(rows[arm.name]) if arm.name in rows else None for arm in arms]


def failed_edit(case: EditCase, outcome: str, error: str) -> dict[str, Any]:
    """The measurement columns of an arm that gave no answer."""
    return {**answer_columns(case), "outcome": outcome, "error": error}


def answer_columns(case: EditCase) -> dict[str, Any]:
    """The answers an item is scored by."""
    return {"old_answer": case.old_answer, "new_answer": case.new_answer}


class _Scoring(NamedTuple):
    """How the answers of one item are read.

    Attributes:
        stale, clean: what these two caches say, decoded.
        retained: whether the item counts.
    """

    shared: EditCaseArms
    stale: Answer
    clean: Answer
    retained: bool

    @classmethod
    def prepare(cls, shared: EditCaseArms, max_new_tokens: int, min_gap: float) -> "_Scoring":
        """Prefill both contexts and answer from both."""
        stale, clean = shared.ask([shared.build(arm).cache for arm in (STALE, CLEAN)], max_new_tokens)
        text = answer_text(shared.loaded, clean.ids)
        gap = margin(clean) - margin(stale)
        return cls(shared, stale, clean, flips(text, shared.case.new_answer, shared.case.old_answer) and gap > min_gap)

    def columns(self, said: Answer) -> dict[str, Any]:
        """What one answer adds to a record."""
        case, text = self.shared.case, answer_text(self.shared.loaded, said.ids)
        new, old = said.logprobs
        divergence = float(kl_divergence(said.first, self.clean.first))
        return {
            **answer_columns(case),
            "answer": text,
            "answer_ids": list(said.ids),
            "logprob_new": new,
            "logprob_old": old,
            "margin": margin(said),
            "margin_stale": margin(self.stale),
            "margin_clean": margin(self.clean),
            "margin_recovery": _share(margin(said), margin(self.stale), margin(self.clean)),
            "flip": flips(text, case.new_answer, case.old_answer),
            "retained": self.retained,
            "kl_to_clean": divergence if np.isfinite(divergence) else None,
            "kl_recovery": _kl_share(divergence, float(kl_divergence(self.stale.first, self.clean.first))),
            "tv_to_clean": total_variation(said.first, self.clean.first),
            "outcome": "ok",
        }


def _share(value: float, stale: float, clean: float) -> float | None:
    share = float(margin_recovery(value, stale, clean))
    return share if np.isfinite(share) else None


def _kl_share(divergence: float, stale: float) -> float | None:
    share = float(kl_recovery(divergence, stale))
    return share if np.isfinite(share) else None


def _finish(row: dict[str, Any]) -> dict[str, Any]:
    """Turn a measurement that breaks an invariant or is not finite into a failure."""
    broken = [name for name in INVARIANTS if row.get(name) is False]
    broken += [f"{name} is not finite" for name in NUMBERS if row.get(name) is not None and not np.isfinite(row[name])]
    if row["outcome"] == "ok" and broken:
        row |= {"outcome": "case_error", "error": f"broken invariant: {', '.join(broken)}", "flip": None}
        row |= dict.fromkeys(NUMBERS)
    return row
