"""Verdicts from a file, and the file."""

import hashlib
import logging
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from cachemend.calibration.candidate import Candidate
from cachemend.calibration.verdicts import RESPONSE_VALIDITY, Question, Verdict, candidate_digest
from cachemend.repair_core.errors import InputError
from cachemend.tasks.verifying.files import write_whole

logger = logging.getLogger(__name__)

_COLUMNS = ("candidate_digest", "verdict")


class RecordedVerdicts:
    """A source of verdicts: a Parquet file with one row per candidate.

    Rows are found by `candidate_digest`, a digest of the five texts that a verifier sees, so that a corrected label
    or family leaves them valid. A candidate without a row is `FAILED`.

    Args:
        path: columns ``candidate_digest`` and ``verdict`` (a verdict's name); further ones are ignored.
        question: what was asked.

    Raises:
        InputError: the file cannot be read, lacks a column, holds an unknown verdict or two for one candidate.
    """

    decoding = "recorded"

    def __init__(self, path: Path, question: Question = RESPONSE_VALIDITY) -> None:
        self.question = question
        self._path = path
        try:
            self.fingerprint = f"recorded-{hashlib.sha256(path.read_bytes()).hexdigest()[:16]}"
            rows = pq.read_table(path)
        except (OSError, pa.ArrowException) as error:
            raise InputError(f"recorded verdicts {path}: not a readable Parquet file") from error
        for column in _COLUMNS:
            if column not in rows.column_names:
                raise InputError(f"recorded verdicts {path}: column {column!r} is missing; found {rows.column_names}")
        self._verdicts: dict[str, Verdict] = {}
        for digest, word in zip(*(rows[column].to_pylist() for column in _COLUMNS), strict=True):
            if word not in Verdict.__members__:
                known = ", ".join(Verdict.__members__)
                raise InputError(f"recorded verdicts {path}: {digest} has {word!r}; give one of {known}")
            if self._verdicts.setdefault(digest, Verdict[word]) is not Verdict[word]:
                raise InputError(f"recorded verdicts {path}: {digest} has two different verdicts")

    def verdicts(self, candidates: Sequence[Candidate]) -> list[Verdict]:
        found = [self._verdicts.get(candidate_digest(candidate), Verdict.FAILED) for candidate in candidates]
        if missing := sum(candidate_digest(candidate) not in self._verdicts for candidate in candidates):
            logger.warning("recorded verdicts %s: none for %d of %d candidates", self._path, missing, len(candidates))
        return found


def write_recorded(path: Path, candidates: Sequence[Candidate], verdicts: Sequence[Verdict]) -> None:
    """Write verdicts so that `RecordedVerdicts` reads them; equal candidates share a row.

    Raises:
        InputError: the folder cannot be written, or equal candidates have different verdicts.
        ValueError: lengths that differ.
    """
    rows: dict[str, Verdict] = {}
    for candidate, verdict in zip(candidates, verdicts, strict=True):
        digest = candidate_digest(candidate)
        if rows.setdefault(digest, verdict) is not verdict:
            raise InputError(f"candidate {digest} has two different verdicts; give one")
    columns = (list(rows), [verdict.name for verdict in rows.values()])
    write_whole(pa.table([pa.array(column, pa.string()) for column in columns], names=list(_COLUMNS)), path)
