"""From a worker's measurements to complete rows of `records`."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from cachemend.datasets.niah_case import NiahCase
from cachemend.repair_core import Arm
from cachemend.repair_core.allocators import Signal, get_allocator
from cachemend.warehouse.columns import RECORDS
from cachemend.warehouse.schemas import record_key


@dataclass(frozen=True, kw_only=True)
class RunIdentity:
    """What all records of a run share of their identity.

    Attributes:
        experiment: experiment name.
        cohort_digest: digest of the whole cohort.
        model: the model as the user named it; not part of a record's key, its fingerprint is.
        model_fingerprint, dtype: the model as loaded.
        auxiliary: fingerprint of the model whose states score tokens, or "target"; of those arms only.
        executor, attention: how chosen rows are recomputed.
        decoding, score_rule: how an answer is made and read.
        engine_version: raised by hand when results may change.
    """

    experiment: str
    cohort_digest: str
    model: str
    model_fingerprint: str
    dtype: str
    auxiliary: str
    executor: str
    attention: str
    decoding: str
    score_rule: str
    engine_version: int

    def of(self, case_digest: str, arm: Arm) -> dict[str, Any]:
        """The identity columns of one record."""
        return {
            **asdict(self),
            "case_digest": case_digest,
            "allocator": arm.allocator,
            "budget": arm.budget,
            "auxiliary": self.auxiliary if _scored_by_auxiliary(arm) else None,
        }

    def key(self, case_digest: str, arm: Arm) -> str:
        """The `record_key` of one record."""
        return record_key(self.of(case_digest, arm))


def _scored_by_auxiliary(arm: Arm) -> bool:
    return arm.budget is not None and Signal.AUXILIARY_MODEL in get_allocator(arm.allocator).signals


def case_facts(case: NiahCase) -> dict[str, Any]:
    """The columns that describe a case, common to `cases` and `records`."""
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


def record_rows(
    identity: RunIdentity,
    run_id: str,
    case: NiahCase,
    arms: Sequence[Arm],
    worker: str,
    measurements: Sequence[dict[str, Any]],
) -> list[dict[str, Any]]:
    """Return one complete row per arm; what was not measured is NULL."""
    now = datetime.now(UTC)
    shared = {
        **dict.fromkeys(column.name for column in RECORDS if column.nullable),
        **case_facts(case),
        "run_id": run_id,
        "worker": worker,
        "recorded_at": now,
    }
    return [
        {**shared, **measured, **identity.of(case.digest, arm), "arm": arm.name}
        for arm, measured in zip(arms, measurements, strict=True)
    ]
