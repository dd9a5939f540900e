"""Signals of many candidates at once."""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cachemend.calibration.candidate import Candidate
from cachemend.calibration.conditions.guards import Conflicts
from cachemend.calibration.conditions.hashing import Sparse
from cachemend.calibration.conditions.lexicon import Lexicon, load_lexicon
from cachemend.calibration.conditions.matching import match_vectors
from cachemend.calibration.conditions.prepared import (
    PreparedEntry,
    ReadRequest,
    contradictions,
    prepare_entry,
    read_request,
)

_REMEMBERED = 1024


class CandidateSignals(NamedTuple):
    """Safety signals of ``n`` candidates, all of shape ``[n]``.

    Attributes:
        d_match: condition mismatch, float64 in [0, 1].
        u_match: matching uncertainty, float64 in [0, 1].
        h_rule: contradiction between records, bool.
        h_ctx: contradiction between texts, bool.
        h_own: contradiction by a rule of ours, bool.
        n_cache: conditions of the cached answer, int; 0 makes mismatch and uncertainty 1.
        n_request: facts of the request, int; the same.
        fired: names of the rules that found the contradictions, each once, per candidate.
    """

    d_match: NDArray[np.float64]
    u_match: NDArray[np.float64]
    h_rule: NDArray[np.bool_]
    h_ctx: NDArray[np.bool_]
    h_own: NDArray[np.bool_]
    n_cache: NDArray[np.int64]
    n_request: NDArray[np.int64]
    fired: tuple[tuple[str, ...], ...] = ()


def candidate_signals(candidates: Sequence[Candidate], *, lexicon: Lexicon | None = None) -> CandidateSignals:
    """Find and match the conditions of every candidate and look for contradictions.

    An entry or a request that several candidates share is read once, if no thousand others came between.

    Raises:
        TypeError: an item that is no `Candidate`, such as a labelled pair; give its `candidate`.
    """
    words = lexicon or load_lexicon()

    @lru_cache(maxsize=_REMEMBERED)
    def entry_of(query: str, response: str, context: str) -> PreparedEntry:
        return prepare_entry(query, response, context, lexicon=words)

    @lru_cache(maxsize=_REMEMBERED)
    def request_of(query: str, context: str) -> ReadRequest:
        return read_request(query, context, words)

    ours: list[Sequence[Sparse]] = []
    theirs: list[Sequence[Sparse]] = []
    conflicts: list[Conflicts] = []
    for candidate in candidates:
        if type(candidate) is not Candidate:
            raise TypeError(f"a {type(candidate).__name__} may say more than the texts; give its Candidate")
        entry = entry_of(candidate.q_cache, candidate.r_cache, candidate.context_cache)
        request = request_of(candidate.q_probe, candidate.context_probe)
        conflicts.append(contradictions(entry, request))
        ours.append(entry.vectors)
        theirs.append(request.vectors)
    mismatch = match_vectors(ours, theirs)
    flags = np.array([found[:3] for found in conflicts], dtype=bool).reshape(-1, 3)
    h_rule, h_ctx, h_own = flags.T
    n_cache, n_request = (np.array([len(side) for side in sides], dtype=np.int64) for sides in (ours, theirs))
    return CandidateSignals(
        d_match=mismatch.d_match,
        u_match=mismatch.u_match,
        h_rule=h_rule,
        h_ctx=h_ctx,
        h_own=h_own,
        n_cache=n_cache,
        n_request=n_request,
        fired=tuple(tuple(dict.fromkeys(each.rule for each in found.fired)) for found in conflicts),
    )
