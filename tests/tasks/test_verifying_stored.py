"""Verdicts in files: recorded, remembered, and those that follow from labels."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cachemend.calibration.candidate import Candidate
from cachemend.calibration.verdicts import RESPONSE_VALIDITY, Question, Verdict, candidate_digest
from cachemend.repair_core.errors import InputError
from cachemend.tasks.verifying.recorded import RecordedVerdicts, write_recorded
from cachemend.tasks.verifying.source import VerdictSource
from cachemend.tasks.verifying.stored import StoredVerdicts


def candidate(text: str) -> Candidate:
    return Candidate(q_cache=text, r_cache=f"secret {text}", context_cache="", q_probe=text, context_probe="")


CANDIDATES = [candidate(text) for text in ("one", "two", "three", "four", "five", "six")]


@dataclass
class Asked:
    """A source that gives out prepared verdicts and notes what it was asked."""

    answers: dict[str, Verdict]
    fingerprint: str = "m1"
    decoding: str = "greedy"
    question: Question = RESPONSE_VALIDITY
    seen: list[str] = field(default_factory=list)

    def verdicts(self, candidates: Sequence[Candidate]) -> list[Verdict]:
        self.seen += [one.q_cache for one in candidates]
        return [self.answers[one.q_cache] for one in candidates]


def all_kinds() -> dict[str, Verdict]:
    return {one.q_cache: verdict for one, verdict in zip(CANDIDATES, Verdict, strict=True)}


def test_recorded_verdicts_come_back(tmp_path: Path) -> None:
    path = tmp_path / "v.parquet"
    write_recorded(path, [*CANDIDATES, CANDIDATES[0]], [*Verdict, Verdict.VALID])
    source: VerdictSource = RecordedVerdicts(path)
    assert source.verdicts(CANDIDATES[::-1]) == list(Verdict)[::-1]
    assert source.fingerprint == RecordedVerdicts(path).fingerprint
    assert source.fingerprint.startswith("recorded-")
    assert pq.read_table(path).num_rows == 6


def test_what_was_not_recorded_failed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "v.parquet"
    write_recorded(path, CANDIDATES[:1], [Verdict.VALID])
    assert RecordedVerdicts(path).verdicts(CANDIDATES) == [Verdict.VALID] + [Verdict.FAILED] * 5
    assert "none for 5 of 6 candidates" in caplog.text
    assert "secret" not in caplog.text


@pytest.mark.parametrize(
    ("columns", "line"),
    [
        ({"candidate_digest": ["a"]}, "column 'verdict' is missing"),
        ({"candidate_digest": ["a"], "verdict": ["Valid"]}, "a has 'Valid'; give one of VALID"),
        ({"candidate_digest": ["a"], "verdict": [None]}, "a has None; give one of VALID"),
        ({"candidate_digest": ["a", "a"], "verdict": ["VALID", "INVALID"]}, "a has two different verdicts"),
    ],
)
def test_a_recording_that_cannot_be_read_is_refused(tmp_path: Path, columns: dict, line: str) -> None:
    path = tmp_path / "v.parquet"
    pq.write_table(pa.table(columns), path)
    with pytest.raises(InputError, match=line):
        RecordedVerdicts(path)


def test_other_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "v.parquet").write_text("no")
    for name in ("v.parquet", "absent.parquet"):
        with pytest.raises(InputError, match="not a readable Parquet file"):
            RecordedVerdicts(tmp_path / name)
    with pytest.raises(InputError, match="two different verdicts"):
        write_recorded(tmp_path / "w.parquet", [CANDIDATES[0]] * 2, [Verdict.VALID, Verdict.INVALID])
    assert not (tmp_path / "w.parquet").exists()


def test_no_question_is_asked_twice_but_failures_are(tmp_path: Path) -> None:
    source = Asked(all_kinds())
    first = StoredVerdicts(source, tmp_path).verdicts([*CANDIDATES, CANDIDATES[2]])
    assert first == [*Verdict, Verdict.UNCERTAIN]
    assert sorted(source.seen) == sorted(one.q_cache for one in CANDIDATES)
    source.seen.clear()
    source.answers["five"] = Verdict.VALID  # it had failed
    assert StoredVerdicts(source, tmp_path).verdicts(CANDIDATES)[4] is Verdict.VALID
    assert source.seen == ["five"]


def test_another_model_decoding_or_question_is_asked_anew(tmp_path: Path) -> None:
    StoredVerdicts(Asked(all_kinds()), tmp_path).verdicts(CANDIDATES[:2])
    for other in ({"fingerprint": "m2"}, {"decoding": "greedy,4"}):
        source = Asked(all_kinds(), **other)
        StoredVerdicts(source, tmp_path).verdicts(CANDIDATES[:2])
        assert len(source.seen) == 2


def test_parts_hold_no_texts_and_a_damaged_one_is_asked_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    stored = StoredVerdicts(Asked(all_kinds()), tmp_path)
    stored.verdicts(CANDIDATES)
    (part,) = (tmp_path / "verdicts").iterdir()
    assert part.suffix == ".parquet"
    assert pq.read_table(part).column_names == ["key", "verdict"]
    assert b"secret" not in part.read_bytes()
    part.write_bytes(part.read_bytes()[:-9])
    again = Asked(all_kinds())
    with caplog.at_level(logging.WARNING):
        assert StoredVerdicts(again, tmp_path).verdicts(CANDIDATES) == list(Verdict)
    assert len(again.seen) == 6
    assert "is not readable" in caplog.text


def test_what_was_answered_before_an_interruption_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cachemend.tasks.verifying.stored._AT_ONCE", 2)

    class Dies(Asked):
        def verdicts(self, candidates: Sequence[Candidate]) -> list[Verdict]:
            if len(self.seen) >= 4:
                raise KeyboardInterrupt
            return super().verdicts(candidates)

    answers = {one.q_cache: Verdict.VALID for one in CANDIDATES}
    with pytest.raises(KeyboardInterrupt):
        StoredVerdicts(Dies(answers), tmp_path).verdicts(CANDIDATES)
    rest = Asked(answers)
    assert StoredVerdicts(rest, tmp_path).verdicts(CANDIDATES) == [Verdict.VALID] * 6
    assert len(rest.seen) == 2


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "verdicts").write_text("in the way")
    with pytest.raises(InputError, match="cannot be written"):
        StoredVerdicts(Asked(all_kinds()), tmp_path).verdicts(CANDIDATES)


def test_equal_texts_have_equal_digests() -> None:
    assert candidate_digest(candidate("one")) == candidate_digest(CANDIDATES[0])
