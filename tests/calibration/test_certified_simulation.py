"""Certified selection on data of known risk: errors stay within delta, and a safe policy is mostly certified."""

import numpy as np
import pytest

from cachemend.calibration.certified.simulation import (
    BOTH_KINDS,
    DIRECT,
    DIRECT_ONLY,
    E_VALUES,
    MAX_PAIRS,
    METHODS,
    RISK_CONTROL,
    VERIFIED,
    SimulationRow,
    _kinds,
    simulate,
)


@pytest.fixture(scope="module")
def rows() -> list[SimulationRow]:
    return simulate()


def test_violations_stay_within_delta(rows: list[SimulationRow]) -> None:
    too_risky = [row for row in rows if row.risk is not None and row.risk > row.alpha]
    assert {(row.method, row.alpha) for row in too_risky} == {
        (method, alpha) for method in METHODS[:3] for alpha in (0.025, 0.05, 0.10)
    }
    for row in too_risky:
        assert row.certified <= 0.05 + 2 * row.standard_error, row


def test_the_exact_test_uses_its_level_up(rows: list[SimulationRow]) -> None:
    """A test that never certified would pass the one above."""
    assert max(row.certified for row in rows if row.method == DIRECT_ONLY and row.risk > row.alpha) > 0.025


@pytest.mark.parametrize(
    ("method", "alphas"), [(DIRECT_ONLY, (0.025, 0.05, 0.10)), (E_VALUES, (0.025, 0.05, 0.10)), (BOTH_KINDS, (0.10,))]
)
def test_a_quarter_of_the_risk_is_mostly_certified(
    rows: list[SimulationRow], method: str, alphas: tuple[float, ...]
) -> None:
    """Verified hits are a third of all: tested apart they reach smaller risks only with more clusters."""
    found = [row for row in rows if row.method == method and row.alpha in alphas and row.risk == row.alpha / 4]
    assert len(found) == len(alphas)
    assert all(row.n_clusters == 400 and row.certified >= 0.8 for row in found)


def test_risk_control_keeps_the_mean_and_wastes_little(rows: list[SimulationRow]) -> None:
    found = [row for row in rows if row.method == RISK_CONTROL]
    assert len(found) == 3
    for row in found:
        assert row.mean_risk is not None
        assert row.mean_risk <= row.alpha + 2 * row.standard_error
        assert row.mean_risk > 0.8 * row.alpha


def test_kinds_of_cluster_have_the_rates_asked_for() -> None:
    """Against pairs drawn one by one."""
    kinds, chances = _kinds(0.1)
    assert chances.sum() == pytest.approx(1)
    route, wrong, hits, invalid = (float(chances @ column) for column in (kinds[:, 0] > 0, *kinds[:, 1:].T))
    assert (route, wrong, invalid / hits) == pytest.approx((DIRECT + VERIFIED, 0.1 * (DIRECT + VERIFIED), 0.1))
    rng = np.random.default_rng(0)
    n = 200_000
    own = rng.beta(0.1 * 7 / 3, 0.9 * 7 / 3, n)
    size = np.minimum(rng.integers(1, 9, n), MAX_PAIRS)
    hit = (rng.random((n, MAX_PAIRS)) < DIRECT + VERIFIED) & (np.arange(MAX_PAIRS) < size[:, None])
    bad = hit & (rng.random((n, MAX_PAIRS)) < own[:, None])
    for k in range(MAX_PAIRS + 1):
        drawn = (hit.sum(axis=1) == MAX_PAIRS) & (bad.sum(axis=1) == k) & bad[:, 0]
        expected = chances[(kinds[:, 1] == 1) & (kinds[:, 2] == MAX_PAIRS) & (kinds[:, 3] == k)].sum()
        assert drawn.mean() == pytest.approx(expected, abs=0.002)


def test_other_sizes_and_refusals() -> None:
    few = simulate(alphas=(0.05,), n_clusters=20, replicates=50)
    assert [row.method for row in few] == [*METHODS[:3], *METHODS[:3], RISK_CONTROL]
    assert all(row.certified == 0 for row in few[:6])
    with pytest.raises(ValueError, match="never be certified"):
        simulate(alphas=(0,))
    with pytest.raises(ValueError, match="0 replicates"):
        simulate(replicates=0)
