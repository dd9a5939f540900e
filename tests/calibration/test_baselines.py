"""Fixed rules at their exact thresholds, and what a language model that is down does to them."""

from dataclasses import fields

import numpy as np
import pytest

from cachemend.calibration.baselines import BASELINES, Decisions, Evidence, baseline
from cachemend.calibration.baselines.contextcache import dialogue_similarity, sentences
from cachemend.calibration.baselines.groundedcache import grounds
from cachemend.calibration.errors import CalibrationError
from cachemend.calibration.verdicts import Verdict

BELOW = np.nextafter


def decide(method: str, setting: str, evidence: Evidence) -> Decisions:
    return baseline(method, setting).fit(evidence, np.zeros(len(evidence)))(evidence)


def test_methods_and_settings_are_those_of_the_tables() -> None:
    assert list(BASELINES) == [
        ("gptcache", "tau=0.7"),
        ("gptcache", "tau=0.8"),
        ("gptcache", "tau=0.9"),
        ("vcache", "tau=0.95"),
        ("vcache", "tau=0.98"),
        ("vcache", "tau=0.99"),
        ("vcache", "online"),
        ("cache-me", "tau=0.75"),
        ("cache-me", "tau=0.85"),
        ("cache-me", "tau=0.95"),
        ("contextcache", "default"),
        ("conditional-ppl", "max-f1"),
        ("conditional-ppl", "youden-j"),
        ("groundedcache", "selected"),
        ("exact-match", "query"),
        ("similarity-verifier", "alpha=0 B=0.16"),
        ("similarity-verifier", "alpha=0 B=0.3"),
        ("similarity-verifier", "alpha=0.025 B=0.3"),
        ("no-cache", "reference"),
    ]
    with pytest.raises(CalibrationError, match=r"no setting 'tau=0\.5'"):
        baseline("gptcache", "tau=0.5")


@pytest.mark.parametrize("method", ["gptcache", "vcache"])
def test_similarity_thresholds_include_their_own_value(method: str) -> None:
    for _, setting in (key for key in BASELINES if key[0] == method and key[1] != "online"):
        tau = float(setting.removeprefix("tau="))
        found = decide(method, setting, Evidence(similarity=np.array([tau, BELOW(tau, 0), 1.0, -1.0, np.nan])))
        assert found.accepted.tolist() == [True, False, True, False, False]
        assert not found.verifier_called.any()


@pytest.mark.parametrize("tau", [0.70, 0.80, 0.90])
def test_the_released_gptcache_rule_is_a_lower_cosine(tau: float) -> None:
    """``4 - d^2 >= 4 tau`` on unit vectors is ``cos >= 2 tau - 1``, as its documentation says here."""
    angles = np.linspace(0, np.pi, 10_001)
    squared = (1 - np.cos(angles)) ** 2 + np.sin(angles) ** 2
    clear = np.abs(np.cos(angles) - (2 * tau - 1)) > 1e-9
    assert np.array_equal((4 - squared >= 4 * tau)[clear], (np.cos(angles) >= 2 * tau - 1)[clear])


def test_cache_me_asks_about_similar_requests_and_needs_a_yes() -> None:
    verdicts = [Verdict.VALID, Verdict.INVALID, Verdict.FAILED, Verdict.MALFORMED, Verdict.OVERFLOW, Verdict.VALID]
    evidence = Evidence(
        similarity=np.array([0.75, 0.9, 0.9, 0.9, 0.9, BELOW(0.75, 0)]),
        query_filter=np.array([verdict.accepts for verdict in verdicts]),
    )
    found = decide("cache-me", "tau=0.75", evidence)
    assert found.accepted.tolist() == [True, False, False, False, False, False]
    assert found.verifier_called.tolist() == [True] * 5 + [False]


def test_contextcache_needs_both_similarities() -> None:
    evidence = Evidence(
        similarity=np.array([0.75, BELOW(0.75, 0), 0.75, 1.0]),
        dialogue_similarity=np.array([0.60, 0.60, BELOW(0.60, 0), np.nan]),
    )
    assert decide("contextcache", "default", evidence).accepted.tolist() == [True, False, False, False]


def test_dialogues_are_compared_by_their_means() -> None:
    cache, probe = np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([[1.0, 0.0]])
    assert dialogue_similarity(cache, probe) == pytest.approx(np.sqrt(0.5))
    assert dialogue_similarity(cache, np.array([[-1.0, 0.0], [1.0, 0.0]])) == 0.0


def test_contexts_are_split_into_lines_and_sentences() -> None:
    assert sentences("user: anna\n\nIt rains. Is v2.1 out? \n") == ("user: anna", "It rains.", "Is v2.1 out?")
    assert sentences(" \n") == ()


def test_references() -> None:
    evidence = Evidence(similarity=np.ones(2), same_query=np.array([True, False]))
    assert decide("exact-match", "query", evidence).accepted.tolist() == [True, False]
    assert not decide("no-cache", "reference", evidence).accepted.any()


def test_missing_evidence_is_named() -> None:
    with pytest.raises(CalibrationError, match="'query_filter' is missing"):
        decide("cache-me", "tau=0.85", Evidence(similarity=np.ones(2)))


def test_evidence_has_one_value_per_candidate_and_no_label() -> None:
    with pytest.raises(ValueError, match="likelihood has shape"):
        Evidence(similarity=np.ones(2), likelihood=np.ones(3))
    with pytest.raises(ValueError, match="give booleans"):
        Evidence(similarity=np.ones(2), verified=np.ones(2))
    assert not {"valid", "label", "family", "cluster", "source"} & {field.name for field in fields(Evidence)}


def test_grounds_of_a_response() -> None:
    same = grounds("status: open\nupdated: 2024-05-01", "Status:  open\nupdated: 2024-05-01", "It is open.")
    assert same == (True, 1.0, pytest.approx(1 / 3))
    changed = grounds("status: open\nupdated: 2024-05-01", "status: open\nupdated: 2024-05-02", "status open 2024")
    assert changed == (False, pytest.approx(1 / 3), 1.0)
    assert grounds("", "", "") == (True, 0.0, 0.0)
    assert not grounds("version: 3", "", "x").same_version
    assert not grounds("It uses v1.2.3.", "It uses v1.2.4.", "x").same_version
    assert not grounds("the capital in 2019", "the capital in 2021", "x").same_version
