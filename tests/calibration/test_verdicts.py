"""The verifier's question and the reading of its answer, against the oracle and published counts."""

import json
from dataclasses import replace
from math import comb

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cachemend.calibration.baselines.cache_me import QUERY_PAIR
from cachemend.calibration.candidate import Candidate
from cachemend.calibration.errors import CalibrationError
from cachemend.calibration.verdicts import (
    INSTRUCTION,
    RESPONSE_VALIDITY,
    Verdict,
    candidate_digest,
    parse_verdict,
    verdict_key,
    verifier_message,
)
from cachemend.calibration.verifier_quality import VerifierQuality, verifier_quality

from oracles import routing_verdicts as oracle

PLAIN = Candidate(q_cache="a?", r_cache='say "b"', context_cache="k: v\nw: x", q_probe="é?", context_probe="")
ANY = st.builds(Candidate, **{name: st.text() for name in oracle.FIELDS})


def test_the_instruction_is_the_published_one() -> None:
    assert INSTRUCTION == oracle.INSTRUCTION


def test_the_message_is_compact_json_in_the_fixed_order() -> None:
    assert verifier_message(PLAIN) == (
        '{"q_cache":"a?","r_cache":"say \\"b\\"","context_cache":"k: v\\nw: x","q_probe":"é?","context_probe":""}'
    )


@settings(max_examples=40)
@given(ANY)
def test_the_message_carries_every_text_unchanged(candidate: Candidate) -> None:
    values = {name: getattr(candidate, name) for name in oracle.FIELDS}
    text = verifier_message(candidate)
    assert oracle.is_message(text, values)
    assert json.loads(text) == values


def test_half_a_surrogate_pair_can_still_be_sent() -> None:
    broken = replace(PLAIN, r_cache="x\ud800y")
    assert json.loads(verifier_message(broken).encode())["r_cache"] == "x\ud800y"


@pytest.mark.parametrize(
    "text",
    [
        *(
            "VALID",
            "INVALID",
            "UNCERTAIN",
            "valid",
            "VALID.",
            " VALID",
            "VALID\n",
            "VALID VALID",
            "**VALID**",
            '"VALID"',
        ),
        *("", "FAILED", "OVERFLOW", "MALFORMED", "INVALID VALID", "VALID\u200b", "\uff36ALID", "VALIDE"),
    ],
)
def test_only_the_three_words_are_read(text: str) -> None:
    assert parse_verdict(text).name.lower() == oracle.reading(text).lower()
    assert parse_verdict(text).accepts is oracle.accepts(text)


@given(st.text())
def test_nothing_but_valid_accepts(text: str) -> None:
    assert parse_verdict(text).accepts is (text == "VALID")


@pytest.mark.parametrize(
    ("text", "verdict"),
    [("yes", Verdict.VALID), (" Yes.\n", Verdict.VALID), ("NO", Verdict.INVALID), ("yes, but", Verdict.MALFORMED)],
)
def test_the_query_pair_filter_reads_yes_and_no(text: str, verdict: Verdict) -> None:
    assert QUERY_PAIR.parse(text) is verdict
    assert QUERY_PAIR.message(PLAIN) == '{"q_cache":"a?","q_probe":"é?"}'


def test_a_key_follows_from_all_that_determines_an_answer() -> None:
    keys = [
        verdict_key(RESPONSE_VALIDITY, PLAIN, "m1", "greedy"),
        verdict_key(RESPONSE_VALIDITY, PLAIN, "m2", "greedy"),
        verdict_key(RESPONSE_VALIDITY, PLAIN, "m1", "greedy,4"),
        verdict_key(QUERY_PAIR, PLAIN, "m1", "greedy"),
        verdict_key(replace(RESPONSE_VALIDITY, instruction="Judge."), PLAIN, "m1", "greedy"),
        *(
            verdict_key(RESPONSE_VALIDITY, replace(PLAIN, **{name: getattr(PLAIN, name) + "!"}), "m1", "greedy")
            for name in oracle.FIELDS
        ),
    ]
    assert len(set(keys)) == len(keys)
    assert keys[0] == verdict_key(RESPONSE_VALIDITY, replace(PLAIN), "m1", "greedy")
    assert candidate_digest(PLAIN) != candidate_digest(replace(PLAIN, q_cache=PLAIN.q_probe, q_probe=PLAIN.q_cache))


def test_a_key_without_a_model_is_refused() -> None:
    with pytest.raises(CalibrationError, match="fingerprint"):
        verdict_key(RESPONSE_VALIDITY, PLAIN, "", "greedy")


def quality_of(ta: int, tr: int, fa: int, fr: int, reject: Verdict = Verdict.INVALID) -> VerifierQuality:
    verdicts = [Verdict.VALID] * (ta + fa) + [reject] * (tr + fr)
    return verifier_quality(verdicts, [1] * ta + [0] * fa + [0] * tr + [1] * fr)


def test_published_verifier_quality() -> None:
    """Paper Table 13."""
    found = quality_of(1818, 41, 9, 43)
    assert found.n == 1911
    assert round(100 * found.agreement, 2) == 97.28
    assert found[1:5] == (1818, 41, 9, 43)
    assert found.agreement == float(oracle.agreement(1818, 41, 9, 43))
    assert found.youden == pytest.approx(1818 / 1861 - 9 / 50)
    assert found.flag is None


@pytest.mark.parametrize(
    ("ta", "tr", "fa", "fr"), [(3, 4, 1, 2), (5, 1, 1, 1), (2, 2, 2, 2), (0, 3, 2, 4), (6, 6, 0, 0)]
)
def test_chance_is_counted_out(ta: int, tr: int, fa: int, fr: int) -> None:
    """p is the share of all ways to place the acceptances that accept as many valid candidates or more."""
    n_valid, n_invalid, accepted = ta + fr, fa + tr, ta + fa
    as_good = sum(
        comb(n_valid, k) * comb(n_invalid, accepted - k)
        for k in range(ta, n_valid + 1)
        if 0 <= accepted - k <= n_invalid
    )
    p = as_good / comb(n_valid + n_invalid, accepted)
    found = quality_of(ta, tr, fa, fr)
    assert found.p_chance == pytest.approx(p)
    assert found.flag == ("chance-level" if p >= 0.05 else None)


@pytest.mark.parametrize("counts", [(30, 0, 20, 0), (0, 20, 0, 30), (30, 0, 0, 0), (0, 0, 0, 30)])
def test_a_verifier_that_never_varies_is_constant(counts: tuple[int, int, int, int]) -> None:
    assert quality_of(*counts).flag == "constant"


def test_a_single_verdict_is_judged_neither_constant_nor_chance() -> None:
    found = quality_of(1, 0, 0, 0)
    assert (found.flag, found.p_chance, found.youden) == (None, None, None)


def test_rejections_of_every_kind_are_counted() -> None:
    kinds = list(Verdict)
    found = verifier_quality(kinds, [True] * len(kinds))
    assert (found.ta, found.fr, found.n_malformed, found.n_failed) == (1, 5, 1, 2)


def test_one_label_per_verdict() -> None:
    with pytest.raises(ValueError, match="2 verdicts and 1 labels"):
        verifier_quality([Verdict.VALID] * 2, [True])
