"""A cohort: typed cases in a fixed order, and the manifest that says how they came to be."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol, Self

from cachemend.repair_core.errors import InputError
from cachemend.repair_core.whole_file import write_whole


class Case(Protocol):
    """What a cohort needs of a case; cases are dataclasses."""

    @property
    def digest(self) -> str:
        """SHA-256 hex digest over all fields."""
        ...


def _sha256(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def cohort_digest(case_digests: Sequence[str], score_rule: str, decoding: str) -> str:
    """Return the SHA-256 over the ordered case digests, the score rule and the decoding settings."""
    return _sha256({"cases": list(case_digests), "score_rule": score_rule, "decoding": decoding})


@dataclass(frozen=True, kw_only=True)
class Cohort:
    """An immutable list of cases and its manifest.

    Attributes:
        name: the roster's name.
        cases: the cases, or a prefix of them.
        manifest: name, builder_version, tokenizer, seeds, lengths, n_candidates, n_cases, drops, score_rule,
            decoding, case_digests and digest; always those of the full cohort.
    """

    name: str
    cases: tuple[Any, ...]
    manifest: dict[str, Any]

    def __post_init__(self) -> None:
        known = self.manifest["case_digests"]
        if [case.digest for case in self.cases] != known[: len(self.cases)]:
            raise InputError(f"cohort {self.name!r}: its cases are not those of its manifest")
        if self.digest != cohort_digest(known, self.manifest["score_rule"], self.manifest["decoding"]):
            raise InputError(f"cohort {self.name!r}: the digest in its manifest is not that of its cases")

    @classmethod
    def of(cls, name: str, cases: Sequence[Case], *, score_rule: str, decoding: str, **facts: Any) -> Self:
        """Make the cohort of all `cases`; `facts` are the manifest's other entries.

        Raises:
            InputError: no cases, or two with the same content.
        """
        digests = [case.digest for case in cases]
        if not digests:
            raise InputError(f"cohort {name!r} has no cases")
        if len(set(digests)) != len(digests):
            raise InputError(f"cohort {name!r} holds the same case twice")
        manifest = {
            "name": name,
            **facts,
            "n_cases": len(digests),
            "score_rule": score_rule,
            "decoding": decoding,
            "case_digests": digests,
            "digest": cohort_digest(digests, score_rule, decoding),
        }
        # Through JSON once, so that a cohort read back from its file equals the one written.
        return cls(name=name, cases=tuple(cases), manifest=json.loads(json.dumps(manifest)))

    @property
    def digest(self) -> str:
        """The full cohort's digest, also of a prefix: a limited run and a full run share record keys."""
        return str(self.manifest["digest"])

    def prefix(self, limit: int | None) -> "Cohort":
        """Return the cohort with only its first `limit` cases (all of them for None or a larger limit).

        Raises:
            InputError: a limit below 1.
        """
        if limit is None:
            return self
        if limit < 1:
            raise InputError(f"limit {limit} is below 1; give the number of cases to run")
        return Cohort(name=self.name, cases=self.cases[:limit], manifest=self.manifest)


def write_cohort(cohort: Cohort, path: Path) -> Path:
    """Write a cohort as one JSON file, atomically: readers see the old file or the whole new one."""
    content = {"manifest": cohort.manifest, "cases": [asdict(case) for case in cohort.cases]}
    write_whole(path, json.dumps(content).encode())
    return path


def read_cohort(path: Path, case_type: type) -> Cohort:
    """Read a cohort whose cases are `case_type`, and check every digest.

    Raises:
        InputError: no such file, not a cohort file, or content that does not match its digests.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        manifest = content["manifest"]
        cases = tuple(case_type(**fields) for fields in content["cases"])
        return Cohort(name=manifest["name"], cases=cases, manifest=manifest)
    except FileNotFoundError as error:
        raise InputError(f"cohort file {path} does not exist") from error
    except (json.JSONDecodeError, UnicodeDecodeError, KeyError, TypeError) as error:
        raise InputError(f"{path} is not a cohort file: {type(error).__name__} {error}") from error
