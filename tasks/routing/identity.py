"""What the records and the analysis of a pool share of their identity."""

from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from cachemend.warehouse.schemas import record_key

EXPERIMENT = "response-routing"
ENGINE_VERSION = 4
"""Raised by hand when signals or verdicts of the same pair may change."""

LABEL_ORACLE = "label-oracle"
NOT_ASKED = "none"


@dataclass(frozen=True, kw_only=True)
class RouteIdentity:
    """What the records of a pool share.

    Attributes:
        experiment: experiment name.
        cohort_digest: digest of the whole pool.
        pool: which pairs.
        encoder: sentence encoder, name and fingerprint.
        lexicon_digest, lexicon_version: of the lexicon; the version is not part of a record's key.
        verifier: fingerprint of what gives verdicts.
        language_model: fingerprint of the model that answers what Cache-Me and Conditional-PPL ask; `NOT_ASKED` where
            none is asked.
        verifier_model: the verifier as the user named it; not part of a record's key.
        engine_version: raised by hand when results may change.
    """

    NAMES: ClassVar = ("lexicon_version", "verifier_model")
    """Fields that name what others identify."""

    experiment: str = EXPERIMENT
    cohort_digest: str
    pool: str
    encoder: str
    lexicon_digest: str
    lexicon_version: str
    verifier: str
    verifier_model: str
    language_model: str
    engine_version: int = ENGINE_VERSION

    def of(self, case_digest: str) -> dict[str, Any]:
        """The identity columns of one pair's record."""
        return {**asdict(self), "case_digest": case_digest}

    def key(self, case_digest: str) -> str:
        """The `record_key` of one pair's record."""
        return record_key(self.of(case_digest), "route_records")

    def group(self, *, diagnostic: bool) -> dict[str, Any]:
        """The columns that analysis rows share; with the label oracle's verdicts they are diagnostic."""
        told = {name: value for name, value in asdict(self).items() if name not in self.NAMES}
        return {**told, "verifier": LABEL_ORACLE if diagnostic else self.verifier, "diagnostic": diagnostic}
