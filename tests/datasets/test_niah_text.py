"""Filler, facts and their arrangement; the seeded draws must never change."""

import re
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from cachemend.datasets.niah_facts import NAMES, draw_facts
from cachemend.datasets.niah_filler import CLAUSES, OPENINGS, filler_sentences
from cachemend.datasets.niah_rosters import ROSTERS
from cachemend.datasets.niah_text import compose
from cachemend.datasets.seeded import below, draw, shuffled, uniform

SEEDS = st.integers(0, 2**40)
FORBIDDEN = {"code", "codes", "key", "keys", "access", "number", "numbers", "value", "list", "text", "mentioned"}


def test_draws_are_fixed_for_good() -> None:
    """Golden: a change here silently changes every cohort."""
    assert draw(7, "x") == 9646028769132121576  # the first 16 hex digits of: printf '7\\x1fx' | sha256sum
    assert [below(10, 7, "digit", i) for i in range(8)] == [2, 9, 1, 8, 6, 7, 3, 0]
    assert shuffled("abcdef", 7, "order") == ["e", "f", "b", "a", "d", "c"]
    assert filler_sentences(7, 2) == (
        "During the quiet season, the cobbler stitches the sole with thick waxed thread.",
        "When the weather allows, the mechanic listens to the engine with closed eyes.",
    )
    assert draw_facts(7, 1024, 6) == ("indigo stoat", ("744711", "818776"))


@given(SEEDS, st.floats(0, 1), st.floats(0, 1))
def test_uniform_stays_in_its_range(seed: int, a: float, b: float) -> None:
    low, high = min(a, b), max(a, b)
    assert low <= uniform(low, high, seed, "depth") <= high


def test_draws_are_even() -> None:
    counts = [0] * 10
    for i in range(20_000):
        counts[below(10, "even", i)] += 1
    assert max(abs(c - 2000) for c in counts) < 5 * 2000**0.5


def test_filler_has_variety_and_none_of_the_facts_words() -> None:
    assert len(set(CLAUSES)) == len(CLAUSES) >= 120
    assert len(set(OPENINGS)) == len(OPENINGS)
    words = {w for s in (*CLAUSES, *OPENINGS) for w in re.findall(r"[a-z]+", s.lower())}
    assert not words & FORBIDDEN
    assert not words & {part for name in NAMES for part in name.split()}
    assert all(s.isascii() and not re.search(r"[0-9.!?]", s) for s in (*CLAUSES, *OPENINGS))


@given(SEEDS)
def test_filler_never_repeats_and_a_longer_text_begins_with_a_shorter(seed: int) -> None:
    sentences = filler_sentences(seed, 500)
    assert len(set(sentences)) == 500
    assert filler_sentences(seed, 37) == sentences[:37]
    assert all(re.fullmatch(r"[A-Z][A-Za-z, ]+\.", s) for s in sentences)


def test_every_sentence_is_used_before_one_returns() -> None:
    total = len(CLAUSES) * len(OPENINGS)
    assert len(set(filler_sentences(5, total))) == total


@given(SEEDS, st.integers(1, 40_000), st.integers(2, 18))
def test_values_cannot_be_confused(seed: int, length: int, digits: int) -> None:
    name, (a, b) = draw_facts(seed, length, digits)
    assert name in NAMES
    assert len(a) == len(b) == digits
    assert a[0] != b[0]
    assert "0" not in (a[0], b[0])
    assert a not in b
    assert b not in a


def test_all_pairs_of_first_digits_occur() -> None:
    leads = {(v[0][0], v[1][0]) for v in (draw_facts(s, 1024, 6).values for s in range(3000))}
    assert len(leads) == 9 * 8


@given(SEEDS, st.integers(6, 300), st.floats(0, 0.45), st.floats(0.55, 1))
def test_cutting_a_fact_leaves_the_text_without_it(seed: int, count: int, first: float, second: float) -> None:
    facts = ("The access code for jade lynx is 111111.", "The access code for jade lynx is 222222.")
    sentences = filler_sentences(seed, count)
    document = compose(sentences, facts, (first, second), seed)
    for (start, stop), fact in zip(document.spans, facts, strict=True):
        assert document.text[start:stop] == f" {fact}"
        left, right = document.text[:start], document.text[stop:]
        assert left.endswith(".")
        assert re.match(r" [A-Z]", right)  # never at the edge of a paragraph
    assert document.spans[0][1] < document.spans[1][0]
    without = document.text.replace(f" {facts[0]}", "").replace(f" {facts[1]}", "")
    assert " ".join(without.split()) == " ".join(sentences)
    sizes = [paragraph.count(".") for paragraph in without.split("\n\n")]
    assert all(4 <= size <= 21 for size in sizes[:-1])  # at most two breaks were left out


def test_rosters_use_disjoint_seed_ranges() -> None:
    """At most 20 seeds are tried per case."""
    rosters = sorted(ROSTERS.values(), key=lambda roster: roster.first_seed)
    for roster, after in pairwise(rosters):
        assert roster.first_seed + 20 * roster.cases_per_length * len(roster.lengths) <= after.first_seed
