"""Cached entries made ready once, and requests scored against them.

The conditions of an entry can be found when it is stored; those of a request must be found online (paper appendix K).
"""

from dataclasses import dataclass
from typing import NamedTuple

from cachemend.calibration.conditions.evidence import compare
from cachemend.calibration.conditions.extracting import Condition, Texts, conditions_of, read_side
from cachemend.calibration.conditions.guards import Conflicts, conflicts_of
from cachemend.calibration.conditions.hashing import Sparse
from cachemend.calibration.conditions.lexicon import Lexicon, load_lexicon
from cachemend.calibration.conditions.matching import match_vectors, vectors


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class PreparedEntry:
    """The cached side of a candidate, ready to be matched.

    Attributes:
        texts: its request, context and response, read.
        conditions: its conditions, sorted.
        vectors: the vector of each condition.
        lexicon: the words it was read by; requests are read by the same.
    """

    texts: Texts
    conditions: tuple[Condition, ...]
    vectors: tuple[Sparse, ...]
    lexicon: Lexicon


class ReadRequest(NamedTuple):
    """The other side: a request with its context, read; its facts, sorted; and the vector of each."""

    texts: Texts
    facts: tuple[Condition, ...]
    vectors: tuple[Sparse, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class RequestScore:
    """Signals of one request against one entry.

    Attributes:
        d_match: condition mismatch, in [0, 1] (paper equation 1).
        u_match: matching uncertainty, in [0, 1] (paper equation 3).
        conflicts: contradictions found.
        n_cache, n_request: number of conditions of either side.
    """

    d_match: float
    u_match: float
    conflicts: Conflicts
    n_cache: int
    n_request: int


def prepare_entry(query: str, response: str, context: str, *, lexicon: Lexicon | None = None) -> PreparedEntry:
    """Read a cached entry, find its conditions and make their vectors."""
    words = lexicon or load_lexicon()
    texts = read_side(query, context, response, lexicon=words)
    conditions = conditions_of(texts)
    return PreparedEntry(texts=texts, conditions=conditions, vectors=tuple(vectors(conditions)), lexicon=words)


def read_request(query: str, context: str, lexicon: Lexicon) -> ReadRequest:
    """Read a request, find its facts and make their vectors."""
    texts = read_side(query, context, lexicon=lexicon)
    facts = conditions_of(texts)
    return ReadRequest(texts, facts, tuple(vectors(facts)))


def contradictions(entry: PreparedEntry, request: ReadRequest) -> Conflicts:
    """Look for contradictions between an entry and a request that was read by the same lexicon."""
    return conflicts_of(compare(entry.texts, request.texts, entry.conditions, request.facts, entry.lexicon))


def score_request(entry: PreparedEntry, query: str, context: str) -> RequestScore:
    """Find a request's facts, match them with an entry's conditions and look for contradictions."""
    request = read_request(query, context, entry.lexicon)
    mismatch = match_vectors([entry.vectors], [request.vectors])
    return RequestScore(
        d_match=float(mismatch.d_match[0]),
        u_match=float(mismatch.u_match[0]),
        conflicts=contradictions(entry, request),
        n_cache=len(entry.conditions),
        n_request=len(request.facts),
    )
