"""Timing refreshes, and attention alone, as kinds of work; for one worker that has the machine to itself."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, NamedTuple

from transformers import PreTrainedTokenizerBase

from cachemend.datasets.cohort import Cohort
from cachemend.repair_core.forward import input_device
from cachemend.tasks.execution import attention_timing, refresh_timing
from cachemend.tasks.execution.attention_timing import AttentionSetup, time_attention
from cachemend.tasks.execution.backends import Operands, heads_of
from cachemend.tasks.execution.identity import EXPERIMENT
from cachemend.tasks.execution.refresh_timing import RefreshSetup, time_refresh
from cachemend.tasks.execution.supports import DELETED
from cachemend.tasks.work import Measured, Place, Work


class ExecutionRoster(NamedTuple):
    """Lengths N and the positions B recomputed at each."""

    lengths: tuple[int, ...]
    rows: int


@dataclass(frozen=True, kw_only=True)
class ExecutionCase:
    """A context of random tokens.

    Attributes:
        case_id: names length and positions.
        length: N, tokens of the edited context.
        rows: B, positions recomputed.
        seed: of the tokens, or of the operands.
    """

    case_id: str
    length: int
    rows: int
    seed: int = 0

    @cached_property
    def digest(self) -> str:
        """SHA-256 hex digest over all fields."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()


def failed_cells(arm: Any, outcome: str, error: str, stages: Sequence[str]) -> list[Measured]:
    """A row without times for each line of an arm that ended as a whole."""
    ended = {"timed_stages": list(stages), "outcome": outcome, "error": error}
    return [Measured(arm, {**cell, **ended}) for cell in arm.cells()]


def _build(tokenizer: PreTrainedTokenizerBase, roster: ExecutionRoster) -> Cohort:  # noqa: ARG001
    cases = [
        ExecutionCase(case_id=f"execution-{length}-{roster.rows}", length=length, rows=roster.rows)
        for length in roster.lengths
    ]
    return Cohort.of(
        "execution-bench",
        cases,
        score_rule="none",
        decoding="none",
        seeds=[case.seed for case in cases],
        lengths=list(roster.lengths),
        drops=[],
    )


def _facts(case: ExecutionCase) -> dict[str, Any]:
    return {"length": case.length, "rows": case.rows}


def _tokens(case: ExecutionCase) -> int:
    return case.length + DELETED


def _cells(case: ExecutionCase, arm: RefreshSetup | AttentionSetup) -> list[dict[str, Any]]:  # noqa: ARG001
    return arm.cells()


def _refresh(place: Place, case: ExecutionCase, arms: Sequence[RefreshSetup]) -> list[Measured]:
    stages = list(refresh_timing.TIMED_STAGES)
    return [
        Measured(arm, {**row, "timed_stages": stages})
        for arm in arms
        for row in time_refresh(place.loaded.model, case.length, case.rows, arm, case.seed)
    ]


def _attention(place: Place, case: ExecutionCase, arms: Sequence[AttentionSetup]) -> list[Measured]:
    model, stages = place.loaded.model, list(attention_timing.TIMED_STAGES)
    dtype = next(model.parameters()).dtype
    operands = Operands.random(heads_of(model), case.rows, case.length, dtype, input_device(model), case.seed)
    return [Measured(arm, {**row, "timed_stages": stages}) for arm in arms for row in time_attention(operands, arm)]


def _refresh_failed(case: ExecutionCase, arm: RefreshSetup, outcome: str, error: str) -> list[Measured]:  # noqa: ARG001
    return failed_cells(arm, outcome, error, refresh_timing.TIMED_STAGES)


def _attention_failed(case: ExecutionCase, arm: AttentionSetup, outcome: str, error: str) -> list[Measured]:  # noqa: ARG001
    return failed_cells(arm, outcome, error, attention_timing.TIMED_STAGES)


REFRESH_WORK = Work(
    name="execution-refresh",
    experiment=EXPERIMENT,
    case_type=ExecutionCase,
    table="refresh_timing_rows",
    timed_stages=refresh_timing.TIMED_STAGES,
    seeds={"order of the timed functions": "0"},
    build=_build,
    tokens=_tokens,
    facts=_facts,
    run=_refresh,
    failed=_refresh_failed,
    cells=_cells,
)
ATTENTION_WORK = Work(
    name="execution-attention",
    experiment=EXPERIMENT,
    case_type=ExecutionCase,
    table="attention_timing_rows",
    timed_stages=attention_timing.TIMED_STAGES,
    seeds={"order of the timed functions": "0"},
    build=_build,
    tokens=_tokens,
    facts=_facts,
    run=_attention,
    failed=_attention_failed,
    cells=_cells,
)
