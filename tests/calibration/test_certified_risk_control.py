"""Conformal risk control: the choice against a loop, and its expectation by leaving each cluster out."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cachemend.calibration.certified import control_risk
from cachemend.calibration.errors import CalibrationError


def path(scores: np.ndarray, steps: int = 8) -> np.ndarray:
    """Accept pairs of a score up to each threshold, strict ones first."""
    return scores[None] <= np.arange(1, steps + 1)[:, None]


def losses(accepted: np.ndarray, valid: np.ndarray, clusters: np.ndarray) -> np.ndarray:
    """Share of each cluster's pairs returned though invalid, shape [clusters, policies]."""
    return np.array([(accepted & ~valid)[:, clusters == name].mean(axis=1) for name in np.unique(clusters)])


@st.composite
def pools(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    n = draw(st.integers(3, 12))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    clusters = np.repeat(np.arange(n), rng.integers(1, 5, n))
    order = rng.permutation(len(clusters))
    return rng.integers(1, 10, len(clusters)), rng.random(len(clusters)) < 0.6, clusters[order]


@given(pools(), st.sampled_from([0.1, 0.2, 0.4]))
def test_choice_against_a_loop(pool: tuple[np.ndarray, np.ndarray, np.ndarray], alpha: float) -> None:
    scores, valid, clusters = pool
    accepted = path(scores)
    found = control_risk(accepted, valid, clusters, alpha=alpha)
    loss = losses(accepted, valid, clusters)
    n = len(loss)
    bound = [(n * loss[:, row].mean() + 1) / (n + 1) for row in range(8)]
    assert found.bound == pytest.approx(bound)
    assert found.n_clusters == n
    below = [row for row in range(8) if found.bound[row] <= alpha]
    assert found.chosen == (below[-1] if below else None)
    assert bool(found.reason) == (not below)


@settings(deadline=None)
@given(pools(), st.sampled_from([0.1, 0.25, 0.4]))
def test_the_mean_loss_of_the_cluster_left_out_is_at_most_alpha(
    pool: tuple[np.ndarray, np.ndarray, np.ndarray], alpha: float
) -> None:
    """Exchangeable clusters: each is equally likely to be the new one, so the mean over them is the expectation."""
    scores, valid, clusters = pool
    accepted = path(scores)
    loss = losses(accepted, valid, clusters)
    seen = []
    for left_out in range(len(loss)):
        rest = clusters != left_out
        chosen = control_risk(accepted[:, rest], valid[rest], clusters[rest], alpha=alpha).chosen
        seen.append(0.0 if chosen is None else loss[left_out, chosen])
    assert np.mean(seen) <= alpha + 1e-12


def test_abstentions_say_why() -> None:
    accepted, valid, clusters = np.ones((2, 10)), np.ones(10), np.arange(10)
    few = control_risk(accepted, valid, clusters, alpha=0.05)
    assert few.chosen is None
    assert "10 clusters without a loss give 9.09 %" in few.reason
    assert control_risk(accepted, valid, clusters, alpha=0.1).chosen == 1
    never = control_risk(accepted, valid, clusters, alpha=0)
    assert never.chosen is None
    assert "never" in never.reason


@pytest.mark.parametrize("alpha", [0.025, 0.05, 0.1, 0.2, 0.3, 0.7])
@pytest.mark.parametrize("size", [1, 3, 7])
def test_a_bound_equal_to_alpha_is_within_it(alpha: float, size: int) -> None:
    """Of 3 k - 1 clusters of `size` pairs, those that lose everything bring the bound to alpha exactly."""
    n = 119
    lost = round(alpha * (n + 1)) - 1
    clusters = np.repeat(np.arange(n), size)
    found = control_risk(np.ones((1, n * size)), clusters >= lost, clusters, alpha=alpha)
    assert found.chosen == 0
    # The same loss in thirds or sevenths, one pair of each of `lost * size` clusters, where there are as many.
    if lost * size <= n:
        spread = (np.arange(n * size) % size == 0) & (clusters < lost * size)
        assert control_risk(np.ones((1, n * size)), ~spread, clusters, alpha=alpha).chosen == 0
        more = spread | (np.arange(n * size) == n * size - 1)
        assert control_risk(np.ones((1, n * size)), ~more, clusters, alpha=alpha).chosen is None


def test_refusals() -> None:
    with pytest.raises(CalibrationError, match="policy 2 refuses a pair that policy 1 returns"):
        control_risk([[0, 0], [1, 0], [0, 1]], [1, 1], [0, 1], alpha=0.1)
    with pytest.raises(ValueError, match=r"alpha 1\.5"):
        control_risk([[1, 1]], [1, 1], [0, 1], alpha=1.5)
