"""Hashing and matching against the oracle, which hashes byte by byte and counts in whole numbers."""

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.utils import murmurhash3_32

from cachemend.calibration.conditions import hashing, matching
from cachemend.calibration.conditions.extracting import Condition
from cachemend.calibration.conditions.matching import MatchedPair, match, match_many, serialised

from oracles import routing_matching as oracle
from support.oracle_cases import QUICK, RECORDS, notices

SIDES = st.lists(RECORDS, max_size=4)
TEXTS = st.text(max_size=30) | RECORDS.map(" ".join)


def compare_vectors(text: str) -> None:
    found = hashing.hashed(text)
    nonzero = {int(place): value for place, value in zip(*found, strict=True) if value}
    assert nonzero == pytest.approx(oracle.unit(text), abs=1e-9)
    assert found.places.tolist() == sorted(set(found.places.tolist()))


def compare_matching(cache: list[Condition], request: list[Condition]) -> None:
    matching._vector.cache_clear()  # a fault may be planted below it
    ours, theirs = sorted(set(cache)), sorted(set(request))
    wanted = oracle.match(ours, theirs)
    found = match(cache, request)
    assert found[:2] == pytest.approx(wanted[:2], abs=1e-9)
    many = match_many([ours, [], theirs], [theirs, theirs, ours])
    assert (many.d_match[0], many.u_match[0]) == pytest.approx(wanted[:2], abs=1e-9)
    assert (many.d_match[1], many.u_match[1]) == (1, 1)
    back = oracle.match(theirs, ours)
    assert (many.d_match[2], many.u_match[2]) == pytest.approx(back[:2], abs=1e-9)
    assert [pair.condition for pair in found.pairs] == ours
    for pair in found.pairs:
        compare_pair(pair, theirs)


def compare_pair(pair: MatchedPair, request: list[Condition]) -> None:
    scores = [oracle.similarity(oracle.serialise(pair.condition), oracle.serialise(other)) for other in request]
    first, second = sorted([*scores, 0.0, 0.0], reverse=True)[:2]
    assert (pair.m1, pair.m2) == pytest.approx((first, second), abs=1e-9)
    if first < 1e-9:
        assert pair.best is None
    else:
        assert pair.best is not None
        assert scores[request.index(pair.best)] == pytest.approx(first, abs=1e-9)


@QUICK
@given(TEXTS)
def test_vectors(text: str) -> None:
    compare_vectors(text)


@QUICK
@given(SIDES, SIDES)
def test_matching(cache: list[Condition], request: list[Condition]) -> None:
    compare_matching(cache, request)


@QUICK
@given(RECORDS)
def test_serialising(record: Condition) -> None:
    assert serialised(record) == oracle.serialise(record)


def opposite_words() -> tuple[str, str]:
    """Two words at one place with opposite signs."""
    seen: dict[tuple[int, int], str] = {}
    for word in map("w{}".format, range(9999)):
        ((place, sign),) = oracle.counts(word).items()
        if (place, -sign) in seen:
            return word, seen[place, -sign]
        seen[place, sign] = word
    raise AssertionError("no such words")


def test_a_negative_cosine_is_no_support() -> None:
    one, other = (Condition(word, "", "", "") for word in opposite_words())
    assert oracle.match([one], [other])[:2] == (1, 1)
    compare_matching([one], [other])


def without_seconds(found: matching._Supports) -> matching._Supports:
    return found._replace(m2=np.zeros_like(found.m2))


def seconds_where_one_is_alone(found: matching._Supports) -> matching._Supports:
    return found._replace(m2=np.where(found.m2 == 0, found.m1, found.m2))


TWO_BEST, SUPPORTS = matching._two_best, matching._supports
VECTOR_FAULTS: list[tuple[str, Any]] = [
    ("N_FEATURES", 2**17),
    ("_TOKENS", re.compile(r"(?u)\b\w\w+\b")),
    ("murmurhash3_32", lambda text: murmurhash3_32(text, seed=1)),
    ("murmurhash3_32", lambda text: abs(murmurhash3_32(text))),
    ("pairwise", lambda words: []),
    ("sqrt", lambda square: square),
]
MATCHING_FAULTS: list[tuple[str, Any]] = [
    ("_DECIMALS", 2),
    ("serialised", lambda record: " ".join(record[:3])),
    ("serialised", lambda record: " ".join(record[::-1])),
    ("_two_best", lambda *scores: without_seconds(TWO_BEST(*scores))),
    ("_two_best", lambda *scores: seconds_where_one_is_alone(TWO_BEST(*scores))),
    ("_two_best", lambda scores, column, stops: TWO_BEST(1 - scores, column, stops)),
    ("_supports", lambda cache, request: SUPPORTS(cache, request[::-1])),
    ("N_FEATURES", 0),  # pairs of a batch share their columns
]


@pytest.mark.parametrize(("name", "fault"), VECTOR_FAULTS)
def test_a_fault_in_the_vectors_is_noticed(name: str, fault: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hashing, name, fault)
    assert notices(compare_vectors, TEXTS)


@pytest.mark.parametrize(("name", "fault"), MATCHING_FAULTS)
def test_a_fault_in_the_matching_is_noticed(name: str, fault: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matching, name, fault)
    assert notices(compare_matching, SIDES, SIDES)
