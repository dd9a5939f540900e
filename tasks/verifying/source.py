"""What every source of verdicts offers."""

from collections.abc import Sequence
from typing import Protocol

from cachemend.calibration.candidate import Candidate
from cachemend.calibration.verdicts import Question, Verdict


class VerdictSource(Protocol):
    """Answers one question about candidates.

    Attributes:
        question: what it answers.
        fingerprint: identifies what answers; other weights, endpoints or recordings have other fingerprints.
        decoding: its decoding settings, canonical text.
    """

    @property
    def question(self) -> Question: ...

    @property
    def fingerprint(self) -> str: ...

    @property
    def decoding(self) -> str: ...

    def verdicts(self, candidates: Sequence[Candidate]) -> list[Verdict]:
        """Return one verdict per candidate, in their order.

        Trouble with one candidate is its verdict, `FAILED` or `OVERFLOW`, and never an exception.
        """
        ...
