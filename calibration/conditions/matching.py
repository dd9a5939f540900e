"""How well a request supports the conditions of a cached answer (paper equations 1 and 3, appendix B)."""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from cachemend.calibration.conditions.extracting import Condition
from cachemend.calibration.conditions.hashing import N_FEATURES, Sparse, hashed

_PAIRS_AT_ONCE = 1024
_DECIMALS = 12


class MatchedPair(NamedTuple):
    """A condition of the cached answer and its best support in the request.

    Attributes:
        condition: the cached answer's.
        best: the request's condition with the highest score, the first in order of several; None for score 0.
        m1: that score, in [0, 1].
        m2: the second-highest score; 0 for a request of one condition.
    """

    condition: Condition
    best: Condition | None
    m1: float
    m2: float


class Matching(NamedTuple):
    """Support of a cached answer's conditions: mismatch and uncertainty in [0, 1], and each condition's match."""

    d_match: float
    u_match: float
    pairs: tuple[MatchedPair, ...]


class Mismatch(NamedTuple):
    """Mismatch and matching uncertainty of many pairs, float64 ``[n]`` each, in [0, 1]."""

    d_match: NDArray[np.float64]
    u_match: NDArray[np.float64]


class _Supports(NamedTuple):
    """Per cached condition of some pairs: best score, second-best, and the row of the best (-1 for none)."""

    m1: NDArray[np.float64]
    m2: NDArray[np.float64]
    best: NDArray[np.int64]


def serialised(condition: Condition) -> str:
    """Return a record as the text that is hashed: its four parts in lowercase with single spaces."""
    return " ".join(" ".join(condition).lower().split())


def vectors(conditions: Sequence[Condition]) -> list[Sparse]:
    """Return the vector of each record; those of the last 65,536 distinct records are remembered."""
    return [_vector(condition) for condition in conditions]


@lru_cache(maxsize=65536)
def _vector(condition: Condition) -> Sparse:
    return hashed(serialised(condition))


def match(cache: Sequence[Condition], request: Sequence[Condition]) -> Matching:
    """Match the conditions of one cached answer against those of one request.

    Duplicates count once and the order does not matter. Where either side is empty, mismatch and uncertainty are 1.
    Scores are cosines clipped to [0, 1], rounded to 12 decimals so that equal records score exactly 1.
    """
    ours, theirs = sorted(set(cache)), sorted(set(request))
    if not ours or not theirs:
        return Matching(1.0, 1.0, tuple(MatchedPair(condition, None, 0.0, 0.0) for condition in ours))
    found = _supports([vectors(ours)], [vectors(theirs)])
    pairs = tuple(
        MatchedPair(condition, theirs[best] if best >= 0 else None, float(m1), float(m2))
        for condition, best, m1, m2 in zip(ours, found.best, found.m1, found.m2, strict=True)
    )
    return Matching(float(np.mean(1 - found.m1)), float(1 - np.mean(found.m1 - found.m2)), pairs)


def match_many(cache: Sequence[Sequence[Condition]], request: Sequence[Sequence[Condition]]) -> Mismatch:
    """Match pair by pair, all at once: ``[n]`` condition sets of either side, without duplicates and sorted.

    Raises:
        ValueError: the two sides differ in length.
    """
    if len(cache) != len(request):
        raise ValueError(f"{len(cache)} cached sides and {len(request)} requests; give one of each per pair")
    return match_vectors([vectors(side) for side in cache], [vectors(side) for side in request])


def match_vectors(cache: Sequence[Sequence[Sparse]], request: Sequence[Sequence[Sparse]]) -> Mismatch:
    """Match pair by pair from vectors that are made already; the rest as `match_many`."""
    d_match, u_match = np.ones(len(cache)), np.ones(len(cache))
    filled = [i for i in range(len(cache)) if len(cache[i]) and len(request[i])]
    for start in range(0, len(filled), _PAIRS_AT_ONCE):
        part = filled[start : start + _PAIRS_AT_ONCE]
        ours = [cache[i] for i in part]
        found = _supports(ours, [request[i] for i in part])
        first = np.concatenate([[0], np.cumsum([len(side) for side in ours])])[:-1]
        count = np.array([len(side) for side in ours])
        d_match[part] = np.add.reduceat(1 - found.m1, first) / count
        u_match[part] = 1 - np.add.reduceat(found.m1 - found.m2, first) / count
    return Mismatch(np.clip(d_match, 0, 1), np.clip(u_match, 0, 1))


def _supports(cache: Sequence[Sequence[Sparse]], request: Sequence[Sequence[Sparse]]) -> _Supports:
    """Score every cached condition against the request of its own pair, in one sparse product.

    Each pair has columns of its own, so that the product is block-diagonal; only columns of the request are kept.
    """
    their_keys, their_values, their_stops = _flattened(request)
    columns, their_at = np.unique(their_keys, return_inverse=True)
    keys, values, stops = _flattened(cache)
    at = np.searchsorted(columns, keys)
    kept = np.append(columns, -1)[at] == keys
    ours = _rows(values[kept], at[kept], np.concatenate([[0], np.cumsum(kept)])[stops], len(columns))
    theirs = _rows(their_values, their_at, their_stops, len(columns))
    product = ours @ theirs.T
    return _two_best(np.clip(product.data.round(_DECIMALS), 0, 1), product.indices, product.indptr)


def _two_best(scores: NDArray[np.float64], column: NDArray[np.int32], stops: NDArray[np.int32]) -> _Supports:
    """Return the two highest of each row's scores, and the first column with the highest; what is absent scores 0."""
    counts = np.diff(stops)
    m1, m2, best = np.zeros(len(counts)), np.zeros(len(counts)), np.full(len(counts), -1)
    some = np.flatnonzero(counts)
    if some.size:
        first = stops[some]
        highest = np.maximum.reduceat(scores, first)
        is_highest = scores == np.repeat(highest, counts[some])
        lower = np.maximum.reduceat(np.where(is_highest, 0, scores), first)
        m1[some] = highest
        m2[some] = np.where(np.add.reduceat(is_highest, first, dtype=np.intp) > 1, highest, lower)
        leftmost = np.minimum.reduceat(np.where(is_highest, column, column.max()), first)
        best[some] = np.where(highest > 0, leftmost, -1)
    return _Supports(m1, m2, best)


def _rows(values: NDArray[np.float64], at: NDArray[np.intp], stops: NDArray[np.intp], width: int) -> csr_matrix:
    return csr_matrix((values, at, stops), shape=(len(stops) - 1, width))


def _flattened(sides: Sequence[Sequence[Sparse]]) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.intp]]:
    """Return place and value of every entry of every vector, and where each vector begins and the last one ends.

    Places are moved to columns of their pair.
    """
    rows = [vector for side in sides for vector in side]
    lengths = [len(places) for places, _ in rows]
    stops = np.concatenate([[0], np.cumsum(lengths, dtype=np.intp)])
    places = np.concatenate([places for places, _ in rows], dtype=np.int64)
    ends = stops[np.cumsum([len(side) for side in sides])]
    places += np.repeat(np.arange(len(sides)) * N_FEATURES, np.diff(ends, prepend=0))
    return places, np.concatenate([values for _, values in rows]), stops
