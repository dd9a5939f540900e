"""Repair after one in-place edit as a kind of work."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from transformers import PreTrainedTokenizerBase

from cachemend.datasets.edit_build import build_edits
from cachemend.datasets.edit_case import EditCase
from cachemend.tasks.edit_arms import EditArm
from cachemend.tasks.edit_case_arms import TIMED_STAGES
from cachemend.tasks.identity import SharedIdentity
from cachemend.tasks.run_edit_case import answer_columns, failed_edit, run_edit_case
from cachemend.tasks.token_stops import token_stops
from cachemend.tasks.work import Measured, Place, Work, one_row

EXPERIMENT = "edit-repair"


@dataclass(frozen=True, kw_only=True)
class EditIdentity(SharedIdentity):
    """What all records of edited items share of their identity."""

    def of(self, case_digest: str, arm: EditArm) -> dict[str, Any]:
        """The identity columns of one record."""
        return {
            **asdict(self),
            "case_digest": case_digest,
            "policy": arm.policy,
            "k": arm.k,
            "operator": arm.operator,
            "arm": arm.name,
        }


def retention_rule(score_rule: str, min_gap: float) -> str:
    """The score rule of a run: records that were retained by another gap are other records."""
    return f"{score_rule} gap>{min_gap:g}"


def _facts(case: EditCase) -> dict[str, Any]:
    return {
        "case_digest": case.digest,
        "case_id": case.case_id,
        "item_id": case.item_id,
        "split": case.split,
        "condition": case.condition,
        "distance": case.distance,
        "family": case.family,
        "seed": case.seed,
        "n_tokens": case.n_tokens,
        "span_start": case.span[0],
        "span_stop": case.span[1],
        "carrier_start": case.carrier[0],
        "carrier_stop": case.carrier[1],
        "block_stop": case.block_stop,
    }


def _case_row(tokenizer: PreTrainedTokenizerBase, case: EditCase, store_text: bool) -> dict[str, Any]:
    texts = ("context_text", "query_text", "old_span_text", "new_span_text")
    return {
        **_facts(case),
        **answer_columns(case),
        "actual_distance": case.actual_distance,
        **{name: getattr(case, name) if store_text else None for name in texts},
        "token_stops": token_stops(tokenizer, case.edited_ids, case.context_text),
    }


def _tokens(case: EditCase) -> int:
    return case.n_tokens + len(case.query_ids)


def _run(place: Place, case: EditCase, arms: Sequence[EditArm]) -> list[Measured]:
    spec = place.spec
    rows = run_edit_case(
        place.loaded,
        case,
        arms,
        executor=spec.executor,
        attention=spec.attention,
        max_new_tokens=spec.max_new_tokens,
        min_gap=spec.min_gap,
    )
    return [Measured(arm, row) for arm, row in zip(arms, rows, strict=True) if row is not None]


def _failed(case: EditCase, arm: EditArm, outcome: str, error: str) -> list[Measured]:
    return [Measured(arm, failed_edit(case, outcome, error))]


WORK = Work(
    name="edit-repair",
    experiment=EXPERIMENT,
    case_type=EditCase,
    table="edit_records",
    timed_stages=TIMED_STAGES,
    seeds={"random, structural top-up": "SHA-256 of the case id"},
    build=build_edits,
    tokens=_tokens,
    case_table="edit_cases",
    case_row=_case_row,
    facts=_facts,
    run=_run,
    failed=_failed,
    cells=one_row,
)
