"""Certified selection on data of known risk: errors stay within delta, and a safe policy is mostly certified."""

import numpy as np
import pytest
from scipy.stats import binomtest

from cachemend.calibration.certified import simulation
from cachemend.calibration.certified.learn_then_test import binomial_p
from cachemend.calibration.certified.simulation import (
    BOTH_KINDS,
    DIRECT,
    DIRECT_ONLY,
    E_VALUES,
    MAX_PAIRS,
    METHODS,
    N_CLUSTERS,
    RISK_CONTROL,
    VERIFIED,
    SimulationRow,
    _cells,
    _drawn,
    needs,
    simulate,
)
from cachemend.flows.simulate import keeps


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


@pytest.mark.parametrize("alpha", [0.025, 0.05, 0.10])
def test_a_test_at_four_times_its_level_is_caught(alpha: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulation, "binomial_p", lambda *counts: binomial_p(*counts) / 4)
    [row] = [row for row in simulate(alphas=(alpha,)) if row.method == BOTH_KINDS and row.risk != alpha / 4]
    assert row.certified > 0.05 + 2 * row.standard_error
    assert not keeps(row)


def test_the_exact_test_uses_its_level_up(rows: list[SimulationRow]) -> None:
    """A test that never certified would pass the one above."""
    assert max(row.certified for row in rows if row.method == DIRECT_ONLY and row.risk > row.alpha) > 0.025


@pytest.mark.parametrize(
    ("method", "alphas"),
    [(DIRECT_ONLY, (0.025, 0.05, 0.10)), (E_VALUES, (0.025, 0.05, 0.10)), (BOTH_KINDS, (0.05, 0.10))],
)
def test_a_quarter_of_the_risk_is_mostly_certified(
    rows: list[SimulationRow], method: str, alphas: tuple[float, ...]
) -> None:
    """Verified hits are a third of all: tested apart they reach the smallest risk only with more clusters."""
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


def drawn_one_by_one(
    risk: float, n: int, factors: tuple[float, float] = (1, 1)
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the kind of every pair (0 direct, 1 verified, 2 regenerated, 3 not there) and whether it is wrong."""
    rng = np.random.default_rng(0)
    own = rng.beta(risk * 7 / 3, (1 - risk) * 7 / 3, n)
    size = rng.integers(1, 9, n)
    kind = np.searchsorted([DIRECT, DIRECT + VERIFIED, 1], rng.random((n, 8)))
    kind[np.arange(8) >= size[:, None]] = 3
    return kind, rng.random((n, 8)) < own[:, None] * np.array([*factors, 1, 1])[kind], size


@pytest.mark.parametrize("factors", [(1, 1), (1, 0.25), (0.25, 1)])
def test_outcomes_of_a_cluster_have_the_rates_of_pairs_drawn_one_by_one(factors: tuple[float, float]) -> None:
    kind, wrong, _ = drawn_one_by_one(0.1, 200_000, factors)
    outcomes, chances = _drawn([0.1 * factor for factor in factors], (DIRECT, VERIFIED))
    assert chances.sum() == pytest.approx(1)
    seen = []
    for of_kind in (kind == 0, kind == 1):
        first = of_kind.argmax(axis=1)
        is_wrong = wrong[np.arange(len(kind)), first]
        seen.append(np.where(of_kind.any(axis=1), 1 + is_wrong, 0))
    for outcome, chance in zip(outcomes, chances, strict=True):
        found = np.mean([one == a and two == b for one, two in zip(*seen, strict=True) for a, b in [outcome]])
        assert found == pytest.approx(chance, abs=0.003), outcome


def test_cells_of_a_cluster_have_the_rates_of_pairs_drawn_one_by_one() -> None:
    kind, wrong, _ = drawn_one_by_one(0.1, 200_000)
    hit = kind[:, :MAX_PAIRS] < 2
    hits, invalid = hit.sum(axis=1), (hit & wrong[:, :MAX_PAIRS]).sum(axis=1)
    cells = _cells(0.1)
    assert cells.sum() == pytest.approx(1)
    found = np.bincount(5 * hits + invalid, minlength=25).reshape(5, 5) / len(kind)
    assert found == pytest.approx(cells, abs=0.003)


def test_what_a_test_needs_is_what_it_certifies(rows: list[SimulationRow]) -> None:
    for alpha in (0.025, 0.05, 0.10):
        direct, verified = needs(alpha)
        assert direct.hits > verified.hits > N_CLUSTERS / 2
        for need in (direct, verified):
            assert binomtest(need.allowed, need.hits, alpha, alternative="less").pvalue <= 0.05
            assert binomtest(need.allowed + 1, need.hits, alpha, alternative="less").pvalue > 0.05
        [row] = [r for r in rows if (r.method, r.alpha, r.risk) == (BOTH_KINDS, alpha, alpha / 4)]
        assert row.certified == pytest.approx(direct.chance * verified.chance, abs=0.05)
    assert needs(0.025, n_clusters=50)[1].allowed == -1


def test_other_sizes_and_refusals() -> None:
    few = simulate(alphas=(0.05,), n_clusters=20, replicates=50)
    assert [row.method for row in few] == [*METHODS[:3], *METHODS[:3], RISK_CONTROL]
    assert all(row.certified == 0 for row in few[:6])
    with pytest.raises(ValueError, match="never be certified"):
        simulate(alphas=(0,))
    with pytest.raises(ValueError, match="0 replicates"):
        simulate(replicates=0)
