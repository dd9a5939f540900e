"""Timing recovery as a kind of work: one context of natural text per length."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from transformers import PreTrainedTokenizerBase

from cachemend.datasets.cohort import Cohort
from cachemend.datasets.niah import build_niah
from cachemend.datasets.niah_case import NiahCase
from cachemend.datasets.niah_rosters import EMBEDDED_DEV
from cachemend.tasks.execution.identity import EXPERIMENT
from cachemend.tasks.execution.recovery_timing import TIMED_STAGES, RecoverySetup, time_recovery
from cachemend.tasks.execution.work import failed_cells
from cachemend.tasks.work import Measured, Place, Work


def _build(tokenizer: PreTrainedTokenizerBase, lengths: Sequence[int]) -> Cohort:
    roster = replace(EMBEDDED_DEV, name="execution-contexts", lengths=tuple(sorted(lengths)), cases_per_length=1)
    return build_niah(tokenizer, roster)


def _facts(case: NiahCase) -> dict[str, Any]:
    return {
        "case_digest": case.digest,
        "case_id": case.case_id,
        "length": case.length,
        "n_tokens": case.n_tokens,
        "suffix_length": case.deletion.suffix_length,
    }


def _tokens(case: NiahCase) -> int:
    return len(case.deletion.original_ids)


def _run(place: Place, case: NiahCase, arms: Sequence[RecoverySetup]) -> list[Measured]:
    stages = list(TIMED_STAGES)
    return [
        Measured(arm, {**row, "timed_stages": stages})
        for arm in arms
        for row in time_recovery(place.loaded, case.deletion, case.query_text, arm)
    ]


def _failed(case: NiahCase, arm: RecoverySetup, outcome: str, error: str) -> list[Measured]:  # noqa: ARG001
    return failed_cells(arm, outcome, error, TIMED_STAGES)


def _cells(case: NiahCase, arm: RecoverySetup) -> list[dict[str, Any]]:  # noqa: ARG001
    return arm.cells()


WORK = Work(
    name="execution-recovery",
    experiment=EXPERIMENT,
    case_type=NiahCase,
    table="recovery_timing_rows",
    timed_stages=TIMED_STAGES,
    seeds={"order of the timed functions": "0"},
    build=_build,
    tokens=_tokens,
    facts=_facts,
    run=_run,
    failed=_failed,
    cells=_cells,
)
