"""Matching against scikit-learn's own vectoriser and plain arithmetic."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.feature_extraction.text import HashingVectorizer

from cachemend.calibration.conditions.extracting import Condition
from cachemend.calibration.conditions.hashing import hashed
from cachemend.calibration.conditions.matching import match, match_many, serialised

PLAIN = HashingVectorizer(
    n_features=2**18, ngram_range=(1, 2), alternate_sign=True, norm="l2", token_pattern=r"[\w#:./-]+"
)
WORDS = st.sampled_from(["order", "status", "pending", "#w123", "a/b", "7:15", "é", "x.y", "sino", "is", "tool"])
PHRASES = st.lists(WORDS, min_size=1, max_size=4).map(" ".join)
RECORDS = st.builds(Condition, WORDS, WORDS, WORDS, PHRASES)


def cosines(cache: list[Condition], request: list[Condition]) -> NDArray[np.float64]:
    texts = [" ".join(record) for record in (*cache, *request)]
    vectors = PLAIN.transform(texts)
    return np.clip((vectors[: len(cache)] @ vectors[len(cache) :].T).toarray(), 0, 1)


def by_hand(cache: list[Condition], request: list[Condition]) -> tuple[float, float]:
    if not cache or not request:
        return 1.0, 1.0
    ranked = np.sort(cosines(sorted(set(cache)), sorted(set(request))), axis=1)[:, ::-1]
    first = ranked[:, 0]
    second = ranked[:, 1] if ranked.shape[1] > 1 else np.zeros_like(first)
    return float((1 - first).mean()), float(1 - (first - second).mean())


@given(st.text(max_size=60))
@settings(max_examples=80, deadline=None)
def test_a_vector_is_scikit_learns(text: str) -> None:
    if any(0xD800 <= ord(sign) < 0xE000 for sign in text):
        return
    plain = PLAIN.transform([text])
    plain.sort_indices()
    assert hashed(text).places.tolist() == plain.indices.tolist()
    np.testing.assert_allclose(hashed(text).values, plain.data, atol=1e-15)


@given(st.lists(RECORDS, max_size=6), st.lists(RECORDS, max_size=6))
@settings(max_examples=40, deadline=None)
def test_matching_is_the_plain_computation(cache: list[Condition], request: list[Condition]) -> None:
    found = match(cache, request)
    np.testing.assert_allclose(found[:2], by_hand(cache, request), atol=1e-10)
    assert 0 <= found.d_match <= 1
    assert 0 <= found.u_match <= 1


@given(st.lists(st.tuples(st.lists(RECORDS, max_size=4), st.lists(RECORDS, max_size=4)), max_size=8))
@settings(max_examples=25, deadline=None)
def test_many_at_once_are_each_alone(sides: list[tuple[list[Condition], list[Condition]]]) -> None:
    cache, request = [sorted(set(a)) for a, _ in sides], [sorted(set(b)) for _, b in sides]
    found = match_many(cache, request)
    alone = [match(a, b)[:2] for a, b in zip(cache, request, strict=True)]
    np.testing.assert_allclose(np.column_stack(found), np.array(alone).reshape(-1, 2), atol=1e-12)


@given(st.lists(RECORDS, min_size=1, max_size=6), st.randoms())
@settings(max_examples=25, deadline=None)
def test_the_order_of_the_records_changes_nothing(records: list[Condition], random: object) -> None:
    mixed = list(records)
    random.shuffle(mixed)  # type: ignore[attr-defined]
    assert match(records, records[:3]) == match(mixed, records[:3][::-1])
    assert match(records[:3], records) == match(records[:3], mixed)


def test_figures_by_hand() -> None:
    """Words and pairs of words: "a b c d" has 7 features, "a b c e" shares 5 of them."""
    cache, near, far = Condition("a", "b", "c", "d"), Condition("a", "b", "c", "e"), Condition("p", "q", "r", "s")
    assert match([cache], [cache])[:2] == (0.0, 0.0)
    assert match([cache], [near])[:2] == pytest.approx((2 / 7, 2 / 7))
    assert match([cache], [near, cache])[:2] == pytest.approx((0.0, 5 / 7))
    assert match([cache], [far])[:2] == (1.0, 1.0)
    assert match([], [cache])[:2] == match([cache], [])[:2] == match([], [])[:2] == (1.0, 1.0)
    (pair,) = match([cache], [far, near]).pairs
    assert (pair.condition, pair.best, pair.m2) == (cache, near, 0.0)
    (pair,) = match([cache], [far]).pairs
    assert pair.best is None


def test_a_record_is_serialised_in_lowercase_with_single_spaces() -> None:
    assert serialised(Condition("Tool", "order", "status", "  In   Transit ")) == "tool order status in transit"


def test_sides_of_different_length_are_refused() -> None:
    with pytest.raises(ValueError, match="1 cached sides and 0 requests"):
        match_many([[]], [])


def test_an_empty_batch() -> None:
    assert [part.shape for part in match_many([], [])] == [(0,), (0,)]
