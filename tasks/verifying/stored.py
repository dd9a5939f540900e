"""Verdicts remembered in the results folder, so that no question is asked twice."""

import hashlib
import logging
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from cachemend.calibration.candidate import Candidate
from cachemend.calibration.verdicts import Question, Verdict, verdict_key
from cachemend.tasks.verifying.files import write_whole
from cachemend.tasks.verifying.source import VerdictSource

logger = logging.getLogger(__name__)

FOLDER = "verdicts"
_AT_ONCE = 256


class StoredVerdicts:
    """A source of verdicts that asks another one only what has not been answered yet.

    Keys are digests of instruction, message, model fingerprint and decoding; texts are not stored. `FAILED` is not
    remembered: another run may fare better. What was answered is on disk after every 256 questions.

    Args:
        source: who is asked.
        results: results folder; parts lie in RESULTS/verdicts.
    """

    def __init__(self, source: VerdictSource, results: Path) -> None:
        self._source = source
        self._folder = results / FOLDER

    @property
    def question(self) -> Question:
        return self._source.question

    @property
    def fingerprint(self) -> str:
        return self._source.fingerprint

    @property
    def decoding(self) -> str:
        return self._source.decoding

    def verdicts(self, candidates: Sequence[Candidate]) -> list[Verdict]:
        keys = [verdict_key(self.question, candidate, self.fingerprint, self.decoding) for candidate in candidates]
        known = read_parts(self._folder)
        asked = {key: candidate for key, candidate in zip(keys, candidates, strict=True) if key not in known}
        # In order of length, so that a block makes few batches.
        missing = sorted(asked, key=lambda key: (len(self.question.message(asked[key])), key))
        for start in range(0, len(missing), _AT_ONCE):
            block = missing[start : start + _AT_ONCE]
            answers = dict(zip(block, self._source.verdicts([asked[key] for key in block]), strict=True))
            known |= answers
            write_part(self._folder, {key: got for key, got in answers.items() if got is not Verdict.FAILED})
        return [known[key] for key in keys]


def read_parts(folder: Path) -> dict[str, Verdict]:
    """Return all stored verdicts by key; a part that cannot be read counts as absent, with a warning."""
    known: dict[str, Verdict] = {}
    for path in sorted(folder.glob("*.parquet")):
        try:
            rows = pq.read_table(path, columns=["key", "verdict"]).to_pylist()
            known |= {row["key"]: Verdict[row["verdict"]] for row in rows}
        except (OSError, pa.ArrowException, KeyError) as error:
            logger.warning(
                "verdict part %s is not readable (%s); its questions are asked again", path, type(error).__name__
            )
    return known


def write_part(folder: Path, verdicts: dict[str, Verdict]) -> None:
    """Write verdicts by key as one part named by its content; none, no part.

    Raises:
        InputError: the folder cannot be written.
    """
    if not verdicts:
        return
    keys = sorted(verdicts)
    names = [verdicts[key].name for key in keys]
    digest = hashlib.sha256("\n".join([*keys, *names]).encode()).hexdigest()
    write_whole(pa.table({"key": keys, "verdict": names}), folder / f"{digest}.parquet")
