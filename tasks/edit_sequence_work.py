"""Several edits of one context as a kind of work."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from cachemend.datasets.edit_build import build_edit_sequences
from cachemend.datasets.edit_sequence_case import EditSequenceCase
from cachemend.tasks.edit_sequence_arms import SequenceArm
from cachemend.tasks.edit_work import EXPERIMENT
from cachemend.tasks.identity import SharedIdentity
from cachemend.tasks.run_edit_sequence import TIMED_STAGES, cells_of, failed_rows, run_edit_sequence
from cachemend.tasks.work import Measured, Place, Work


@dataclass(frozen=True, kw_only=True)
class SequenceIdentity(SharedIdentity):
    """What all rows about several edits share of their identity."""

    def of(self, case_digest: str, arm: SequenceArm) -> dict[str, Any]:
        """The identity columns of the rows of one arm, without step and probe."""
        return {**asdict(self), "case_digest": case_digest, **asdict(arm)}


def _facts(case: EditSequenceCase) -> dict[str, Any]:
    return {
        "case_digest": case.digest,
        "case_id": case.case_id,
        "split": case.split,
        "seed": case.seed,
        "n_tokens": case.n_tokens,
    }


def _tokens(case: EditSequenceCase) -> int:
    return case.n_tokens + max(len(probe.query_ids) for probe in case.probes)


def _run(place: Place, case: EditSequenceCase, arms: Sequence[SequenceArm]) -> list[Measured]:
    spec = place.spec
    return run_edit_sequence(
        place.loaded,
        case,
        arms,
        executor=spec.executor,
        attention=spec.attention,
        max_new_tokens=spec.max_new_tokens,
    )


def _cells(case: EditSequenceCase, arm: SequenceArm) -> list[dict[str, Any]]:
    return [cell._asdict() for cell in cells_of(case, arm)]


WORK = Work(
    name="edit-sequences",
    experiment=EXPERIMENT,
    case_type=EditSequenceCase,
    table="edit_sequences",
    timed_stages=TIMED_STAGES,
    seeds={"random, structural top-up": "SHA-256 of the case id and the number of the edit"},
    build=build_edit_sequences,
    tokens=_tokens,
    facts=_facts,
    run=_run,
    failed=failed_rows,
    cells=_cells,
)
