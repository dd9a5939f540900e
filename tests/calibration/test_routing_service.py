"""The router that serves: the same decisions as an offline replay, readable reasons, and refusals."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cachemend.calibration.candidate import Candidate
from cachemend.calibration.conditions import EXTRACTOR_VERSION, candidate_signals, load_lexicon
from cachemend.calibration.conditions.lexicon import PACKAGED
from cachemend.calibration.errors import CalibrationError
from cachemend.calibration.routing import (
    REGENERATE,
    REGENERATE_ALL,
    REUSE,
    VERIFY,
    CalibrationCounts,
    ReusePolicy,
    RiskBlock,
    RiskMap,
    Thresholds,
    TokenBucket,
    VerifierBudget,
    load_policy,
    replay,
    route,
    routing_scores,
    save_policy,
)
from cachemend.calibration.routing.reasons import reason
from cachemend.calibration.routing.service import Decision, Router

LEXICON = load_lexicon()
POLICY = ReusePolicy(
    lexicon_version=LEXICON.version,
    lexicon_digest=LEXICON.digest,
    extractor_version=EXTRACTOR_VERSION,
    encoder="letters",
    alpha=0.025,
    budget=0.3,
    thresholds=Thresholds(0.9, 0.2, 0.9, 0.6, 0.8, 0.95, 1.0),
    risk_map=RiskMap(blocks=(RiskBlock(0.0, 0.3, 400, 10), RiskBlock(0.35, 1.0, 400, 300))),
    own_guards=True,
    calibration=CalibrationCounts(10, 5, 0, 3, 3, 16480, 100),
    selected_by="by hand",
)
NAMES = {"reuse": REUSE, "verify": VERIFY, "regenerate": REGENERATE}


def letters(texts: Sequence[str]) -> NDArray[np.float32]:
    """An encoder for tests: counts of letter pairs."""
    vectors = np.zeros((len(texts), 26 * 26), dtype=np.float32)
    for row, text in zip(vectors, texts, strict=True):
        plain = [ord(letter) - 97 for letter in text.lower() if letter.isascii() and letter.isalpha()]
        for left, right in pairwise(plain):
            row[26 * left + right] += 1
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def candidates() -> list[Candidate]:
    """Requests about an order, each with a context that is the same, changed in one field, or lacking."""
    base = {"order id": "#W1234", "status": "pending", "user id": "anna_01", "authorization": "granted"}
    contexts = [
        base,
        base | {"status": "delivered"},
        base | {"authorization": "denied"},
        base | {"order id": "#W9876"},
        base | {"note": "call before noon"},
        {},
    ]
    queries = [
        "What is the status of my order #W1234?",
        "what is the status of my order #W1234",
        "Please tell me the status of my order #W1234.",
        "Cancel my order #W1234.",
        "Hello there",
    ]
    text = ["\n".join(f"{key}: {value}" for key, value in context.items()) for context in contexts]
    return [
        Candidate(
            q_cache=queries[0],
            r_cache="Your order #W1234 is pending.",
            context_cache=text[0],
            q_probe=query,
            context_probe=probe,
        )
        for query in queries
        for probe in text
    ]


NUMBERS = Candidate(
    q_cache="Book a table for four people at the diner.",
    r_cache="Yes, done.",
    context_cache="city: Leeds",
    q_probe="Book a table for five people at the diner.",
    context_probe="city: Leeds",
)


def decided(router: Router, found: Sequence[Candidate]) -> list[Decision]:
    return [
        router.route(router.prepare(one.q_cache, one.r_cache, one.context_cache), one.q_probe, one.context_probe)
        for one in found
    ]


@pytest.mark.parametrize("window", [7, 100, TokenBucket(capacity=2)])
@pytest.mark.parametrize("own_guards", [True, False])
def test_serving_decides_as_a_replay_does(window: int | TokenBucket, own_guards: bool) -> None:
    served = [*candidates(), NUMBERS] * 2
    policy = replace(POLICY, own_guards=own_guards)
    router = Router(policy, letters, encoder="letters", verifier_budget=VerifierBudget(0.3, window))
    online = decided(router, served)

    similarity = (
        letters([one.q_cache for one in served]).astype(float) * letters([one.q_probe for one in served])
    ).sum(1)
    scores = routing_scores(
        np.clip(similarity, -1, 1), candidate_signals(served), policy.risk_map, own_guards=own_guards
    )
    actions = route(scores, policy.thresholds)
    # A window that no request completes has, while serving, the calls of a whole one.
    padded = np.concatenate([actions, np.zeros(-len(served) % 700, np.int8)])
    offline = replay(padded, np.ones(len(padded), bool), np.arange(len(padded)), 0.3, window)
    assert [NAMES[one.action] for one in online] == offline.action[: len(served)].tolist()
    assert [one.similarity for one in online] == pytest.approx(scores.similarity, abs=1e-6)
    assert [one.d for one in online] == pytest.approx(scores.d, abs=1e-12)
    assert [one.u for one in online] == pytest.approx(scores.u, abs=1e-12)
    assert [one.h for one in online] == scores.h.tolist()
    assert set(Counter(one.action for one in online)) == {"reuse", "verify", "regenerate"}


def test_guards_of_our_own_count_where_the_policy_says_so() -> None:
    for own_guards, action in ((True, "verify"), (False, "reuse")):
        policy = replace(POLICY, own_guards=own_guards, thresholds=POLICY.thresholds._replace(tau_r=0.8))
        router = Router(policy, letters, encoder="letters", verifier_budget=VerifierBudget(1))
        assert [(one.h, one.action) for one in decided(router, [NUMBERS])] == [(own_guards, action)]


def test_a_saved_policy_serves(tmp_path: Path) -> None:
    again = load_policy(save_policy(POLICY, tmp_path / "policy.json"))
    found = candidates()
    ours, theirs = (decided(Router(policy, letters, encoder="letters"), found) for policy in (POLICY, again))
    assert [one.reason for one in ours] == [one.reason for one in theirs]


def one_of(found: Sequence[Decision], start: str) -> Decision:
    return next(one for one in found if one.reason.startswith(start))


def test_reasons_name_the_values_that_decided() -> None:
    found = decided(Router(POLICY, letters, encoder="letters", verifier_budget=VerifierBudget(1)), candidates())
    reused = one_of(found, "reused")
    assert reused.action == "reuse"
    assert f"similarity {reused.similarity:.3f} >= 0.9, risk {reused.d:.3f} <= 0.2" in reused.reason
    assert reused.reason.endswith("no conflict")
    verified = one_of(found, "to be verified: not reused directly (a conflict")
    assert (verified.action, verified.h) == ("verify", True)
    assert f"similarity {verified.similarity:.3f} >= 0.8" in verified.reason
    regenerated = next(one for one in found if one.similarity < 0.6 and one.action == "regenerate" and one.d < 1)
    assert f"not verified (similarity {regenerated.similarity:.3f} < " in regenerated.reason
    for one in found:
        assert "\n" not in one.reason
        assert "W1234" not in one.reason
        assert "W1234" not in repr(one)
        assert (
            one.reason.split(":")[0]
            == {
                "reuse": "reused",
                "verify": "to be verified",
                "regenerate": "regenerated",
            }[one.action]
        )


def test_without_budget_left_nothing_is_verified() -> None:
    found = decided(Router(POLICY, letters, encoder="letters", verifier_budget=VerifierBudget(0)), candidates())
    assert {one.action for one in found} == {"reuse", "regenerate"}
    assert one_of(found, "regenerated, as the verifier budget is used up").action == "regenerate"


@pytest.mark.parametrize(
    ("query", "context", "name"), [(None, "", "query"), ("Is it paid?", {"paid": True}, "context")]
)
def test_what_is_no_text_is_refused_before_it_counts(query: Any, context: Any, name: str) -> None:
    # The second of every two candidates may be verified, so that one that was counted would change the next decision.
    router = Router(POLICY, letters, encoder="letters", verifier_budget=VerifierBudget(0.5, TokenBucket(capacity=1)))
    budget = router.verifier_budget
    entry = router.prepare("Is it paid?", "Yes.", "")
    with pytest.raises(CalibrationError, match=rf"^{name} is a (NoneType|dict); give a string$"):
        router.route(entry, query, context)
    assert [budget.take(True), budget.take(True)] == [False, True]
    with pytest.raises(CalibrationError, match=r"^response is a int; give a string$"):
        router.prepare("Is it paid?", 7, "")  # type: ignore[arg-type]


def test_the_policys_own_budget_is_the_default() -> None:
    router = Router(POLICY, letters, encoder="letters")
    actions = Counter(one.action for one in decided(router, candidates()[2:3] * 200))
    assert actions == {"verify": 60, "regenerate": 140}


def test_a_policy_that_regenerates_everything_says_so() -> None:
    policy = replace(POLICY, thresholds=REGENERATE_ALL)
    found = decided(Router(policy, letters, encoder="letters"), candidates())
    assert {one.action for one in found} == {"regenerate"}
    assert "the policy reuses nothing unverified" in found[0].reason
    assert "the policy verifies no such request" in found[0].reason


def test_a_side_without_conditions_is_regenerated() -> None:
    """Limits of 1, which every other candidate meets, do not let it through."""
    policy = replace(POLICY, thresholds=Thresholds(0.0, 1.0, 1.0, 0.0, 0.0, 1.0, 1.0))
    router = Router(
        policy, lambda texts: np.eye(1, 4, dtype=np.float32), encoder="letters", verifier_budget=VerifierBudget(1)
    )
    for cached, asked, side in (("Is it sold?", "...", "request"), ("...", "Is it sold?", "cached response")):
        found = router.route(router.prepare(cached, "ok", ""), asked, "")
        assert (found.action, found.d, found.u) == ("regenerate", 1.0, 1.0)
        assert found.reason == f"regenerated: no condition was found on the side of the {side}"


def test_close_values_are_not_rounded_to_their_limit() -> None:
    found = reason(REGENERATE, False, 0.8999999, 0.0, 0.0, False, Thresholds(0.9, 1, 1, 0.9, 0.9, 1, 1))
    assert "similarity 0.8999999 < 0.9" in found


def test_the_explanation_is_made_on_demand_and_is_plain_json() -> None:
    found = decided(Router(POLICY, letters, encoder="letters"), candidates()[2:3])[0]
    explanation = json.loads(json.dumps(found.explanation().to_dict()))
    assert explanation["lexicon_digest"] == LEXICON.digest
    assert explanation["conflicts"]["fired"]


def test_a_policy_of_another_extractor_is_refused() -> None:
    made_before = replace(POLICY, extractor_version=EXTRACTOR_VERSION - 1)
    with pytest.raises(CalibrationError, match=f"extractor version {EXTRACTOR_VERSION - 1}; this release has version"):
        Router(made_before, letters, encoder="letters")


def test_another_encoder_or_lexicon_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CalibrationError, match="made with encoder 'letters', not 'words'"):
        Router(POLICY, letters, encoder="words")
    other = tmp_path / "lexicon.json"
    other.write_bytes(PACKAGED.read_bytes() + b"\n")
    digest = sha256(other.read_bytes()).hexdigest()
    with pytest.raises(CalibrationError, match=f"made with lexicon .*{LEXICON.digest[:12]}.*{digest[:12]}"):
        Router(POLICY, letters, encoder="letters", lexicon=load_lexicon(other))
    own = Router(replace(POLICY, lexicon_digest=digest), letters, encoder="letters", lexicon=load_lexicon(other))
    entry = own.prepare("order", "b", "")
    with pytest.raises(CalibrationError, match="the entry was prepared with lexicon"):
        Router(POLICY, letters, encoder="letters").route(entry, "order", "")


@pytest.mark.parametrize(
    ("encode", "message"),
    [
        (lambda texts: np.zeros((1, 4), np.float32), "a vector of length 0"),
        (lambda texts: np.full((1, 4), np.nan, np.float32), "a vector of length nan"),
        (lambda texts: np.array([3.0, 4.0]), r"returned shape \(2,\) for one text"),
        (lambda texts: np.array([[1.0, 0], [0, 1]]), r"returned shape \(2, 2\) for one text"),
    ],
)
def test_an_encoder_that_returns_something_else_is_refused(encode, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(CalibrationError, match=message):
        Router(POLICY, encode, encoder="letters").prepare("a", "b", "")


def test_an_entry_of_another_length_is_refused() -> None:
    entry = Router(POLICY, lambda texts: np.eye(1, 4, dtype=np.float32), encoder="letters").prepare("a", "b", "")
    with pytest.raises(CalibrationError, match="gave 676 dimensions, and 4 for the entry"):
        Router(POLICY, letters, encoder="letters").route(entry, "order", "")
