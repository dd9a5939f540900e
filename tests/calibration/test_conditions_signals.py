"""The signals as a whole: batch and single agree, identical texts are safest, odd text does no harm."""

import json
import time
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cachemend.calibration.candidate import Candidate
from cachemend.calibration.conditions import (
    candidate_signals,
    explain,
    extract_conditions,
    load_lexicon,
    match,
    prepare_entry,
    score_request,
)

ANY = st.text(st.characters(), max_size=60)
LINES = st.lists(
    st.sampled_from(
        [
            *("permission: denied", "tenant: acme", "order.status: pending", "The shop is closed.", "as of 2019"),
            *("Actually no, I meant 7 pm.", "Do not cancel #W1234.", "Please redact Bob Lee.", "tool_result: failed"),
            *(
                "Fly from Boston to Denver!",
                '{"a": [1, {"b": null}]}',
                "I can't help with that.",
                "user: x; role: admin",
            ),
        ]
    ),
    max_size=4,
).map("\n".join)
TEXTS = st.one_of(ANY, LINES)


def candidate(q_cache: str, r_cache: str, context: str, q_probe: str, new_context: str) -> Candidate:
    return Candidate(
        q_cache=q_cache, r_cache=r_cache, context_cache=context, q_probe=q_probe, context_probe=new_context
    )


CANDIDATES = st.builds(candidate, TEXTS, TEXTS, TEXTS, TEXTS, TEXTS)


@given(st.lists(CANDIDATES, max_size=3))
@settings(max_examples=40, deadline=None)
def test_batch_single_and_explained_signals_agree(candidates: list[Candidate]) -> None:
    found = candidate_signals(candidates)
    *arrays, fired = found
    assert all(part.shape == (len(candidates),) for part in arrays)
    assert len(fired) == len(candidates)
    for i, one in enumerate(candidates):
        entry = prepare_entry(one.q_cache, one.r_cache, one.context_cache)
        single = score_request(entry, one.q_probe, one.context_probe)
        told = explain(one)
        ours, theirs = (
            extract_conditions(one.q_cache, one.context_cache, one.r_cache),
            extract_conditions(one.q_probe, one.context_probe),
        )
        assert (single.n_cache, single.n_request) == (len(ours), len(theirs)) == (found.n_cache[i], found.n_request[i])
        assert single.conflicts == told.conflicts
        assert single.conflicts[:3] == (found.h_rule[i], found.h_ctx[i], found.h_own[i])
        assert set(fired[i]) == {one.rule for one in single.conflicts.fired}
        matching = match(ours, theirs)
        assert matching == told.matching
        for d, u in ((single.d_match, single.u_match), (found.d_match[i], found.u_match[i])):
            assert (d, u) == pytest.approx(matching[:2], abs=1e-12)
            assert 0 <= d <= 1
            assert 0 <= u <= 1
        if not ours or not theirs:
            assert matching[:2] == (1.0, 1.0)


@given(TEXTS, TEXTS, TEXTS, TEXTS, TEXTS)
@settings(max_examples=50, deadline=None)
def test_identical_texts_contradict_nothing_and_match_best(q: str, r: str, c: str, other_q: str, other_c: str) -> None:
    same = explain(candidate(q, r, c, q, c))
    # Rules on the cached answer alone may speak against any repeat.
    assert not same.conflicts.h_rule | same.conflicts.h_ctx
    assert {one.rule for one in same.conflicts.fired} <= {"unfinished", "error message", "nothing asked"}
    asked = {found.condition for found in same.request}
    ours = [found.condition for found in same.cache]
    assert all(pair.m1 == 1 for pair in same.matching.pairs if pair.condition in asked)
    # Only what the response alone says can find better support elsewhere; what the request says cannot.
    grounded = [condition for condition in ours if condition in asked]
    if grounded:
        other = extract_conditions(other_q, other_c)
        assert match(grounded, tuple(asked)).d_match == 0 <= match(grounded, other).d_match


def test_an_answer_to_the_same_request_has_no_mismatch() -> None:
    assert explain(candidate("Where is it?", "There.", "tenant: acme", "Where is it?", "tenant: acme")).matching[0] == 0


def test_nothing_to_go_by_fails_closed() -> None:
    for one in (
        candidate("", "", "", "", ""),
        candidate("Hi there", "Hi", "", "", ""),
        candidate("", "", "", "Hi", ""),
    ):
        found = candidate_signals([one])
        assert (found.d_match[0], found.u_match[0]) == (1.0, 1.0)
    assert candidate_signals([]).d_match.shape == (0,)


def test_only_texts_are_accepted() -> None:
    labelled = SimpleNamespace(q_cache="", r_cache="", context_cache="", q_probe="", context_probe="", label=1)
    with pytest.raises(TypeError, match="SimpleNamespace may say more than the texts"):
        candidate_signals([labelled])  # type: ignore[list-item]


def test_an_explanation_is_json_and_quotes_its_sources() -> None:
    one = candidate("Cancel #W1111", "Done.", "tenant: acme", "Cancel #W2222", "tenant: acme")
    told = json.loads(json.dumps(explain(one).to_dict()))
    assert told["lexicon_digest"] == load_lexicon().digest
    assert {"level": "rule", "rule": "disjoint ids", "cache_value": "#w1111", "request_value": "#w2222"} in told[
        "conflicts"
    ]["fired"]
    (tenant,) = [found for found in told["cache"] if found["condition"]["subject"] == "tenant"]
    assert tenant["origins"] == [{"part": "context", "text": "tenant: acme"}]
    assert [pair["m1"] for pair in told["matching"]["pairs"] if pair["condition"]["subject"] == "tenant"] == [1.0]


def test_signs_that_are_no_words_are_told_apart() -> None:
    assert explain(candidate("👍", "ok", "", "👎", "")).matching.d_match > 0
    assert explain(candidate("👍", "ok", "", "👍", "")).matching.d_match == 0


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\ud800 alone \udfff",
        '{"\ud800": "\udfff"}',
        "👍" * 50,
        "مرحبا كيف حالك؟ اطلب #W1234",
        "你好，请取消我的订单",
        "\x00\x1f\u2028\u202e",
        "[" * 3000 + "]" * 3000,
        '{"a": ' * 800 + "1" + "}" * 800,
        "9" * 6000,
        '{"n": ' + "9" * 6000 + "}",
    ],
)
def test_odd_text_is_read(text: str) -> None:
    found = candidate_signals(
        [candidate(text, text, text, text, text), candidate("Hi there", "Hi", text, text, "x: 1")]
    )
    assert np.isfinite(found.d_match).all()
    assert not found.h_rule[0] | found.h_ctx[0] | found.h_own[0]
    json.dumps(explain(candidate(text, text, text, "other", "")).to_dict())


@pytest.mark.parametrize(
    "text",
    [
        *("a" * 40_000, "a.a" * 13_000, "a-1 " * 10_000, "may  " * 8_000, " " * 40_000, "Do not go. " * 3_600),
        *("a_b" * 13_000, '"k": "' * 6_500, "k: v; " * 6_500, "word " * 8_000, "x1@y." * 8_000, "1,1" * 13_000),
        " ".join(f"s{i} t{i}." for i in range(3_600)),
        "\n".join(f"k{i}: v{i}" for i in range(3_600)),
    ],
)
def test_the_time_a_long_text_takes_grows_no_faster_than_its_length(text: str) -> None:
    start = time.process_time()
    extract_conditions(text, "", None)
    extract_conditions("", text, None)
    # Two readings of 40 kB, a fifth of a second each at most; where every sign is compared with every other, minutes.
    # Processor time, so that other programs do not count.
    assert time.process_time() - start < 2.0
