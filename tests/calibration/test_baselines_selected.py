"""Thresholds chosen on the calibration subset, against every choice tried one by one."""

from itertools import product
from math import floor, inf

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from cachemend.calibration.baselines import BASELINES, Evidence, Rule, baseline
from cachemend.calibration.baselines.conditional_ppl import CRITERIA, conditional_ppl, fit_conditional_ppl
from cachemend.calibration.baselines.groundedcache import LEVELS, TAUS, fit_groundedcache, groundedcache
from cachemend.calibration.baselines.similarity_verifier import Target, fit_similarity_verifier
from cachemend.calibration.errors import CalibrationError

N = 24
FLAGS = hnp.arrays(bool, N)
COARSE = hnp.arrays(float, N, elements=st.sampled_from([-3.0, -2.0, -1.0, -0.5, np.nan]))
SIMILAR = hnp.arrays(float, N, elements=st.sampled_from([0.4, 0.7, 0.79, 0.8, 0.9, 0.95, 1.0]))
SHARES = hnp.arrays(float, N, elements=st.sampled_from([0.0, 0.1, 0.3, 0.5, 0.75, 1.0]))


def criterion_value(accepted: np.ndarray, good: np.ndarray, criterion: str) -> float:
    hits, misses = (accepted & good).sum(), (accepted & ~good).sum()
    if criterion == "max-f1":
        return 2 * hits / max(hits + misses + good.sum(), 1)
    return hits / max(good.sum(), 1) - misses / max((~good).sum(), 1)


@settings(max_examples=40)
@given(SIMILAR, COARSE, FLAGS, st.sampled_from(CRITERIA))
def test_the_likelihood_cutoff_is_the_best_of_all(
    similarity: np.ndarray, likelihood: np.ndarray, valid: np.ndarray, criterion: str
) -> None:
    evidence = Evidence(similarity=similarity, likelihood=likelihood)
    judged = similarity >= 0.80
    tried = [inf, -0.5, -1.0, -2.0, -3.0]
    tried = [cutoff for cutoff in tried if cutoff == inf or cutoff in likelihood[judged]]
    values = [criterion_value((likelihood >= cutoff)[judged], valid[judged], criterion) for cutoff in tried]
    best = tried[int(np.argmax(values))]
    found = fit_conditional_ppl(evidence, valid, criterion)(evidence)
    assert found.accepted.tolist() == (judged & (likelihood >= best)).tolist()
    assert found.verifier_called.tolist() == judged.tolist()


def test_a_likelihood_that_is_missing_regenerates() -> None:
    evidence = Evidence(similarity=np.array([1.0, 1.0, 0.8]), likelihood=np.array([np.nan, -1.0, -1.0]))
    assert conditional_ppl(evidence, -1.0).accepted.tolist() == [False, True, True]
    assert conditional_ppl(evidence, -inf).accepted.tolist() == [False, True, True]
    with pytest.raises(CalibrationError, match="give one of max-f1, youden-j"):
        fit_conditional_ppl(evidence, np.ones(3), "f1")


@settings(max_examples=15)
@given(SIMILAR, SHARES, SHARES, FLAGS, FLAGS)
def test_grounds_are_the_most_generous_without_a_wrong_hit(
    similarity: np.ndarray, overlap: np.ndarray, support: np.ndarray, version: np.ndarray, valid: np.ndarray
) -> None:
    evidence = Evidence(similarity=similarity, evidence_overlap=overlap, response_support=support, same_version=version)
    most = 0
    for thresholds in product(TAUS, LEVELS, LEVELS):
        accepted = [
            version[i]
            and similarity[i] >= thresholds[0]
            and overlap[i] >= thresholds[1]
            and support[i] >= thresholds[2]
            for i in range(N)
        ]
        assert groundedcache(evidence, thresholds).accepted.tolist() == accepted
        if not any(accepted[i] and not valid[i] for i in range(N)):
            most = max(most, sum(accepted))
    found = fit_groundedcache(evidence, valid)(evidence).accepted
    assert not (found & ~valid).any()
    assert found.sum() == most


def played(
    similarity: np.ndarray, says: np.ndarray, order: np.ndarray, taus: tuple[float, float], budget: float
) -> list:
    left, out = floor(round(budget * 100) * len(order) / 100), [(False, False)] * len(order)
    for i in order:
        direct, wanted = similarity[i] >= taus[0], similarity[i] >= taus[1]
        called = bool(not direct and wanted and left > 0)
        left -= called
        out[i] = (bool(direct or (called and says[i])), called)
    return out


@settings(max_examples=15)
@given(SIMILAR, FLAGS, FLAGS, st.permutations(range(N)), st.sampled_from([(0.0, 0.16), (0.0, 0.3), (0.25, 0.3)]))
def test_two_similarities_are_chosen_like_a_routing_policy(
    similarity: np.ndarray, valid: np.ndarray, says: np.ndarray, order: list[int], point: tuple[float, float]
) -> None:
    alpha, budget = point
    assume(valid.any() and not valid.all())
    evidence = Evidence(similarity=similarity, verified=says, order=np.array(order))
    best = (-1, 0, 0)
    steps = [0.69, 0.7, 0.79, 0.8, 0.9, 0.95, 1.0, inf]  # between two of them nothing changes
    for taus in product(steps, steps):
        if min(taus) < inf and (taus[1] <= taus[0] or taus[1] == inf):
            now = played(similarity, says, np.array(order), taus, budget)
            hits = sum(accepted and valid[i] for i, (accepted, _) in enumerate(now))
            misses = sum(accepted and not valid[i] for i, (accepted, _) in enumerate(now))
            if misses <= alpha * max(hits + misses, 1):
                best = max(best, (hits, -misses, -sum(called for _, called in now)))
    found = fit_similarity_verifier(evidence, valid, Target(alpha, budget))(evidence)
    counts = (found.accepted & valid).sum(), -(found.accepted & ~valid).sum(), -found.verifier_called.sum()
    # Where no pair of them is feasible, everything is regenerated.
    assert tuple(map(int, counts)) == (best if best[0] >= 0 else (0, 0, 0))
    assert found.verifier_called.sum() <= budget * N


def test_a_verifier_that_is_down_regenerates_what_it_should_have_verified() -> None:
    good = np.array([True, True, False])
    calibration = Evidence(similarity=np.array([0.95, 0.6, 0.6]), verified=good, order=np.arange(3))
    rule = fit_similarity_verifier(calibration, good, Target(0.0, 1.0))
    up = Evidence(similarity=np.array([0.95, 0.6]), verified=np.array([True, True]), order=np.arange(2))
    down = Evidence(similarity=up.similarity, verified=np.array([False, False]), order=up.order)
    assert rule(up).accepted.tolist() == [True, True]
    assert rule(down).accepted.tolist() == [True, False]
    assert rule(down).verifier_called.tolist() == [False, True]


def everything(n: int, rng: np.random.Generator) -> Evidence:
    flags = {name: rng.random(n) < 0.5 for name in ("same_query", "query_filter", "same_version", "verified")}
    numbers = {name: rng.random(n) for name in ("dialogue_similarity", "evidence_overlap", "response_support")}
    return Evidence(
        similarity=rng.uniform(0.4, 1, n),
        likelihood=-rng.random(n),
        order=rng.permutation(n),
        entry=rng.integers(0, 3, n),
        regenerated=lambda index: index % 2 == 0,
        **flags,
        **numbers,
    )


@pytest.mark.parametrize("key", list(BASELINES))
def test_every_baseline_decides_all_candidates_and_keeps_its_evidence(key: tuple[str, str]) -> None:
    rng = np.random.default_rng(1)
    calibration, test = everything(50, rng), everything(40, rng)
    rule: Rule = baseline(*key).fit(calibration, rng.random(50) < 0.5)
    before = test.similarity.copy()
    first, again = rule(test), rule(test)
    for found in first[:2]:
        assert found.shape == (40,)
        assert found.dtype == bool
    assert (first.observations is not None) == (key == ("vcache", "online"))
    assert np.array_equal(first.accepted, again.accepted)
    assert np.array_equal(test.similarity, before)
