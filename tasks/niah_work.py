"""Erasing-NIAH as a kind of work."""

from collections.abc import Sequence
from typing import Any

from transformers import PreTrainedTokenizerBase

from cachemend.datasets.niah import build_niah
from cachemend.datasets.niah_case import NiahCase
from cachemend.repair_core import Arm
from cachemend.tasks.case_arms import TIMED_STAGES
from cachemend.tasks.failures import failed_measurement
from cachemend.tasks.repair_case import run_case
from cachemend.tasks.token_stops import token_stops
from cachemend.tasks.work import Measured, Place, Work, one_row


def _facts(case: NiahCase) -> dict[str, Any]:
    deletion = case.deletion
    return {
        "case_digest": case.digest,
        "case_id": case.case_id,
        "stratum": case.stratum,
        "length": case.length,
        "n_tokens": case.n_tokens,
        "prefix_length": deletion.prefix_length,
        "deleted_length": deletion.deleted_length,
        "suffix_length": deletion.suffix_length,
        "seed": case.seed,
    }


def _case_row(tokenizer: PreTrainedTokenizerBase, case: NiahCase, store_text: bool) -> dict[str, Any]:
    return {
        **_facts(case),
        "gold": list(case.gold),
        "context_text": case.context_text if store_text else None,
        "deleted_text": case.deleted_text if store_text else None,
        "query_text": case.query_text if store_text else None,
        "token_stops": token_stops(tokenizer, case.deletion.edited_ids, case.context_text),
    }


def _tokens(case: NiahCase) -> int:
    return len(case.deletion.original_ids) + len(case.query_ids)


def _run(place: Place, case: NiahCase, arms: Sequence[Arm]) -> list[Measured]:
    spec = place.spec
    rows = run_case(
        place.loaded,
        case,
        arms,
        executor=spec.executor,
        attention=spec.attention,
        max_new_tokens=spec.max_new_tokens,
        score_rule=spec.score_rule,
        auxiliary=place.auxiliary,
    )
    return [Measured(arm, row) for arm, row in zip(arms, rows, strict=True)]


def _failed(case: NiahCase, arm: Arm, outcome: str, error: str) -> list[Measured]:
    return [Measured(arm, failed_measurement(case.gold, outcome, error))]


WORK = Work(
    name="erasing-niah",
    experiment="erasing-niah",
    case_type=NiahCase,
    table="records",
    timed_stages=TIMED_STAGES,
    seeds={"random-units": "SHA-256 of the case id"},
    build=build_niah,
    tokens=_tokens,
    case_table="cases",
    case_row=_case_row,
    facts=_facts,
    run=_run,
    failed=_failed,
    cells=one_row,
)
