"""What a verifier is asked and how its answer is read (paper appendix D)."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from enum import Enum

from cachemend.calibration.candidate import Candidate
from cachemend.calibration.errors import CalibrationError

INSTRUCTION = (
    "Judge whether r_cache remains valid, safe, and useful for q_probe under context_probe, considering q_cache and "
    "context_cache. Output exactly one token: VALID, INVALID, or UNCERTAIN."
)
MAX_NEW_TOKENS = 8


class Verdict(Enum):
    """What came of asking the verifier. Only `VALID` returns the cached response; every other one regenerates.

    The first three are answers; `MALFORMED` is any other answer, `FAILED` none at all (an error, a time-out),
    `OVERFLOW` a question that does not fit the model, which is never shortened.
    """

    VALID = "VALID"
    INVALID = "INVALID"
    UNCERTAIN = "UNCERTAIN"
    MALFORMED = "MALFORMED"
    FAILED = "FAILED"
    OVERFLOW = "OVERFLOW"

    @property
    def accepts(self) -> bool:
        """Whether the cached response may be returned."""
        return self is Verdict.VALID


@dataclass(frozen=True, kw_only=True)
class Question:
    """A yes-or-no question about a candidate, put to a language model.

    Attributes:
        name: short and unique, e.g. for a table.
        instruction: the system message.
        message: the user message of a candidate.
        parse: reads an answer.
    """

    name: str
    instruction: str
    message: Callable[[Candidate], str]
    parse: Callable[[str], Verdict]


def verifier_message(candidate: Candidate) -> str:
    """Return the user message: compact JSON of q_cache, r_cache, context_cache, q_probe, context_probe, in this order.

    Nothing is shortened. Characters stand for themselves; only a text with half of a surrogate pair, which no
    tokenizer takes, is written with JSON's escapes throughout.
    """
    return compact_json(asdict(candidate))


def compact_json(fields: dict[str, str]) -> str:
    """Return `fields` as JSON without spaces, in their order, as text that can be encoded as UTF-8."""
    text = json.dumps(fields, ensure_ascii=False, separators=(",", ":"))
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(fields, separators=(",", ":"))
    return text


def parse_verdict(text: str) -> Verdict:
    """Read an answer. It must be one of the three words and nothing else.

    No whitespace is removed either: "exactly one token" leaves room for none, and the answer of a model that adds
    some counts as malformed, which regenerates.
    """
    return Verdict(text) if text in ("VALID", "INVALID", "UNCERTAIN") else Verdict.MALFORMED


RESPONSE_VALIDITY = Question(
    name="response-validity", instruction=INSTRUCTION, message=verifier_message, parse=parse_verdict
)
"""The question of selective verification."""


def candidate_digest(candidate: Candidate) -> str:
    """Return the SHA-256 hex digest of a candidate's five texts."""
    return hashlib.sha256(verifier_message(candidate).encode()).hexdigest()


def verdict_key(question: Question, candidate: Candidate, fingerprint: str, decoding: str) -> str:
    """Return the SHA-256 hex digest of all that determines an answer.

    Args:
        question: what is asked.
        candidate: about what.
        fingerprint: of the model that answers.
        decoding: its decoding settings, canonical text.

    Raises:
        CalibrationError: no fingerprint or no decoding: answers of different models would share keys.
    """
    if not fingerprint or not decoding:
        raise CalibrationError("a verdict's key needs the model's fingerprint and its decoding; give both")
    parts = [question.instruction, question.message(candidate), fingerprint, decoding]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()
