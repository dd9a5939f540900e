"""Timing a repair beside a re-prefill as a kind of work; for one worker that has the machine to itself."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from transformers import PreTrainedTokenizerBase

from cachemend.datasets.cohort import Cohort
from cachemend.tasks.edit_cost import TIMED_STAGES, CostArm, CostCase, time_costs
from cachemend.tasks.edit_work import EXPERIMENT
from cachemend.tasks.identity import SharedIdentity
from cachemend.tasks.work import Measured, Place, Work


@dataclass(frozen=True, kw_only=True)
class CostIdentity(SharedIdentity):
    """What all times of a run share of their identity.

    Attributes:
        device: what they were measured on.
    """

    device: str

    def of(self, case_digest: str, arm: CostArm) -> dict[str, Any]:  # noqa: ARG002
        """The identity columns of the times at one length."""
        return asdict(self)


def device_name(hardware: dict[str, Any]) -> str:
    """A worker's device as the timings name it."""
    accelerators = [gpu["name"] for gpu in hardware["accelerators"]]
    return ", ".join(accelerators) or f"{hardware['processor']}, {hardware['threads']} threads"


def _build(tokenizer: PreTrainedTokenizerBase, lengths: Sequence[int]) -> Cohort:  # noqa: ARG001
    cases = [CostCase(case_id=f"edit-cost-{length}", length=length) for length in lengths]
    return Cohort.of(
        "edit-cost",
        cases,
        score_rule="none",
        decoding="none",
        seeds=[case.seed for case in cases],
        lengths=list(lengths),
        drops=[],
    )


def _facts(case: CostCase) -> dict[str, Any]:
    return {"length": case.length}


def _tokens(case: CostCase) -> int:
    return case.length


def _run(place: Place, case: CostCase, arms: Sequence[CostArm]) -> list[Measured]:
    attention = place.spec.attention
    return [Measured(arm, row) for arm in arms for row in time_costs(place.loaded, case, arm, attention)]


def _failed(case: CostCase, arm: CostArm, outcome: str, error: str) -> list[Measured]:  # noqa: ARG001
    # A time that is missing is no result: the run ends, and the next one takes it up.
    raise RuntimeError(f"timing {case.case_id} ended as {outcome}: {error}")


def _cells(case: CostCase, arm: CostArm) -> list[dict[str, Any]]:  # noqa: ARG001
    return [line._asdict() for line in arm.lines()]


WORK = Work(
    name="edit-cost",
    experiment=EXPERIMENT,
    case_type=CostCase,
    table="edit_timings",
    timed_stages=TIMED_STAGES,
    seeds={"order of the timed functions": "0"},
    build=_build,
    tokens=_tokens,
    facts=_facts,
    run=_run,
    failed=_failed,
    cells=_cells,
)
