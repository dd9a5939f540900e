"""What the rows of a run share of their identity, and what an arm adds to it."""

from dataclasses import asdict, dataclass
from typing import Any, Protocol

from cachemend.repair_core import Arm
from cachemend.repair_core.allocators import Signal
from cachemend.repair_core.variants import signals_of
from cachemend.warehouse.schemas import record_key


class Identity(Protocol):
    """What a plan and the written rows need to know of a run."""

    @property
    def experiment(self) -> str:
        """Experiment name."""
        ...

    def of(self, case_digest: str, arm: Any) -> dict[str, Any]:
        """The identity columns of one arm of one case."""
        ...


@dataclass(frozen=True, kw_only=True)
class SharedIdentity:
    """What the rows of every experiment share.

    Attributes:
        experiment: experiment name.
        cohort_digest: digest of the whole cohort.
        model: the model as the user named it; not part of a record's key, its fingerprint is.
        model_fingerprint, dtype: the model as loaded.
        executor, attention: how chosen rows are recomputed.
        decoding, score_rule: how an answer is made and read.
        engine_version: raised by hand when results may change.
    """

    experiment: str
    cohort_digest: str
    model: str
    model_fingerprint: str
    dtype: str
    executor: str
    attention: str
    decoding: str
    score_rule: str
    engine_version: int


@dataclass(frozen=True, kw_only=True)
class RunIdentity(SharedIdentity):
    """What all records of a sweep over allocators share of their identity.

    Attributes:
        auxiliary: fingerprint of the model whose states score tokens, or "target"; of those arms only.
    """

    auxiliary: str

    def of(self, case_digest: str, arm: Arm) -> dict[str, Any]:
        """The identity columns of one record."""
        return {
            **asdict(self),
            "case_digest": case_digest,
            "allocator": arm.allocator,
            "budget": arm.budget,
            "auxiliary": self.auxiliary if _scored_by_auxiliary(arm) else None,
            "arm": arm.name,
        }

    def key(self, case_digest: str, arm: Arm) -> str:
        """The `record_key` of one record."""
        return record_key(self.of(case_digest, arm))


def _scored_by_auxiliary(arm: Arm) -> bool:
    return arm.budget is not None and Signal.AUXILIARY_MODEL in signals_of(arm.allocator)
