"""vCache's online policy: its estimates against statsmodels, its rule against loops, its promise in a simulation."""

from math import exp, inf, sqrt

import numpy as np
import pytest
import statsmodels.api as sm
from scipy.stats import norm

from cachemend.calibration.baselines.evidence import Evidence
from cachemend.calibration.baselines.vcache_online import _Fit, _fitted, exploration, replay_online


def test_the_threshold_is_the_maximum_likelihood_one() -> None:
    rng = np.random.default_rng(0)
    similarity = np.r_[0.0, 1.0, rng.uniform(0.5, 1, 60)]
    correct = np.r_[0.0, 1.0, rng.random(60) < 1 / (1 + np.exp(-12 * (similarity[2:] - 0.8)))].astype(float)
    result = sm.Logit(correct, sm.add_constant(similarity)).fit(disp=0, tol=1e-12)
    intercept, slope = result.params
    gradient = np.array([-1 / slope, intercept / slope**2])
    found = _fitted(np.column_stack([similarity, correct]))
    assert found.slope == pytest.approx(slope, rel=1e-6)
    assert found.t == pytest.approx(-intercept / slope, rel=1e-6)
    assert found.variance == pytest.approx(gradient @ result.cov_params() @ gradient, rel=1e-5)


def test_separable_observations_give_a_step_between_them() -> None:
    observed = np.array([(0.0, 0), (1.0, 1), (0.7, 0), (0.9, 1), (0.95, 1), (0.6, 0)])
    found = _fitted(observed)
    assert (found.t, found.slope) == (pytest.approx(0.8), inf)
    assert found.variance == pytest.approx(0.21 / 6)


@pytest.mark.parametrize("fit", [_Fit(0.8, 0.002, 30.0), _Fit(0.6, 0.02, inf), _Fit(0.9, 1e-6, 200.0)])
@pytest.mark.parametrize("similarity", [0.5, 0.85, 0.99])
def test_the_exploration_probability_is_the_least_over_the_grid(fit: _Fit, similarity: float) -> None:
    least = inf
    for step in range(50):
        e = 1e-6 + step * (1 - 2e-6) / 49
        upper = min(max(fit.t + norm.ppf(1 - e) * sqrt(fit.variance), 0), 1)
        if fit.slope == inf:
            likelihood = 1.0 if similarity > upper else 0.5 if similarity == upper else 0.0
        else:
            likelihood = 1 / (1 + exp(-fit.slope * (similarity - upper)))
        least = min(least, 1 - 0.02 / (1 - (1 - e) * likelihood))
    assert exploration(similarity, fit, 0.02) == pytest.approx(least, rel=1e-9)


def stream(n: int, entries: int, seed: int) -> tuple[Evidence, np.ndarray, list[int]]:
    """Requests whose response is right with a probability that rises with similarity around each entry's threshold."""
    rng = np.random.default_rng(seed)
    entry = rng.integers(0, entries, n)
    similarity = rng.uniform(0.5, 1.0, n)
    threshold = rng.uniform(0.6, 0.9, entries)
    valid = rng.random(n) < 1 / (1 + np.exp(-60 * (similarity - threshold[entry])))
    asked: list[int] = []

    def regenerated(index: int) -> bool:
        asked.append(index)
        return bool(valid[index])

    evidence = Evidence(similarity=similarity, entry=entry, order=rng.permutation(n), regenerated=regenerated)
    return evidence, valid, asked


def test_an_entry_explores_until_it_has_six_observations_with_its_anchors() -> None:
    evidence = Evidence(
        similarity=np.ones(20),
        entry=np.repeat([5, 9], 10),
        order=np.arange(20),
        regenerated=lambda index: True,
    )
    found = replay_online(evidence, delta=0.5)
    for start in (0, 10):
        assert found.explored[start : start + 4].all()
        assert found.accepted[start + 4 : start + 10].all()
    assert found.entries.tolist() == [5, 9]
    assert found.observations.tolist() == [4, 4]


def test_only_what_was_regenerated_is_observed() -> None:
    evidence, _, asked = stream(250, 3, seed=3)
    found = replay_online(evidence, delta=0.05)
    assert sorted(asked) == np.flatnonzero(found.explored).tolist()
    assert np.array_equal(found.accepted, ~found.explored)
    assert found.observations.sum() == found.explored.sum()
    assert [evidence.order.tolist().index(i) for i in asked] == sorted(evidence.order.tolist().index(i) for i in asked)


@pytest.mark.parametrize("delta", [0.02, 0.05])
def test_wrong_answers_stay_below_delta_and_some_requests_are_answered(delta: float) -> None:
    evidence, valid, _ = stream(700, 1, seed=7)
    found = replay_online(evidence, delta=delta)
    assert (found.accepted & ~valid).mean() <= delta
    assert found.accepted.mean() > 0.2


def test_short_streams_leave_nothing_to_learn_from() -> None:
    evidence, _, _ = stream(60, 40, seed=1)
    found = replay_online(evidence)
    assert not found.accepted.any() or found.observations.max() >= 4
    assert found.observations.mean() < 4
