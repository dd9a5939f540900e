"""E-values against products, exact expectations and SciPy's beta-binomial."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import betabinom

from cachemend.calibration.certified import bet_on_dev, certify_by_e_values
from cachemend.calibration.certified.e_values import best_bets, hit_table, log_e_values

CLUSTERS = st.lists(st.integers(0, 4).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n))), min_size=1)


@given(CLUSTERS, st.sampled_from([0.025, 0.1, 0.5]), st.floats(0, 0.99))
def test_e_value_is_a_product_over_clusters(clusters: list[tuple[int, int]], alpha: float, share: float) -> None:
    bet = share / (1 - alpha)
    product = math.prod(1 + bet * (alpha * n - k) / 4 for n, k in clusters)
    n, k = np.array(clusters).T[:, None]
    assert log_e_values(hit_table(n, k, 4), np.array([[bet]]), alpha)[0, 0] == pytest.approx(math.log(product))


@pytest.mark.parametrize("correlation", [0.01, 0.5, 0.99])
@pytest.mark.parametrize("alpha", [0.025, 0.1])
def test_mean_of_one_cluster_is_one_at_the_risk_itself(alpha: float, correlation: float) -> None:
    """Errors inside a cluster go together, and its number of hits varies: the mean is exact all the same."""
    spread = (1 - correlation) / correlation
    for bet in (0.3, 0.99 / (1 - alpha)):
        mean = 0.0
        for hits in range(5):
            for invalid in range(hits + 1):
                chance = betabinom.pmf(invalid, hits, alpha * spread, (1 - alpha) * spread) / 5
                table = hit_table(np.array([[hits]]), np.array([[invalid]]), 4)
                mean += chance * math.exp(log_e_values(table, np.array([[bet]]), alpha)[0, 0])
        assert mean == pytest.approx(1, abs=1e-9)


@settings(deadline=None)
@given(CLUSTERS, st.sampled_from([0.025, 0.1]))
def test_best_bet_is_the_best_of_a_hundred(clusters: list[tuple[int, int]], alpha: float) -> None:
    def growth(bet: float) -> float:
        return sum(math.log(1 + bet * (alpha * n - k) / 4) for n, k in [*clusters, (1, 1)])

    n, k = np.array(clusters).T[:, None]
    bet = best_bets(hit_table(n, k, 4), alpha)[0]
    assert 0 <= bet < 1 / (1 - alpha)
    assert growth(bet) == pytest.approx(max(growth(i / 100 / (1 - alpha)) for i in range(100)))


def pool(n: int, size: int, invalid_clusters: int = 0) -> dict[str, np.ndarray]:
    clusters = np.repeat(np.arange(n), size)
    return {
        "accepted": np.ones((1, n * size), bool),
        "valid": clusters >= invalid_clusters,
        "clusters": clusters,
        "pair_ids": np.arange(n * size),
    }


def test_without_errors_as_many_clusters_are_needed_as_for_exact_tests() -> None:
    """(1 + bet * alpha)^n >= 20 with a bet just below 1 / (1 - alpha): 59 clusters at 5 %, as (1 - alpha)^-59."""
    bet = [0.9999 / 0.95]
    found = certify_by_e_values(**pool(59, 4), alpha=0.05, bets=bet)
    assert found.p == pytest.approx([(1 + 0.05 * bet[0]) ** -59])
    assert (found.certified, found.chosen, found.n_clusters) == ((0,), 0, 59)
    short = certify_by_e_values(**pool(58, 4), alpha=0.05, bets=bet)
    assert short.chosen is None
    assert "58 clusters" in short.reason


def test_a_large_cluster_counts_with_its_seeded_pairs_only() -> None:
    """A cluster of 1,000 pairs would scale all bets down 250-fold; capped, the others keep their weight."""
    small, large = pool(80, 4), pool(1, 1000)
    both = {
        "accepted": np.hstack([small["accepted"], large["accepted"]]),
        "valid": np.r_[small["valid"], large["valid"]],
        "clusters": np.r_[small["clusters"], np.full(1000, 80)],
        "pair_ids": np.arange(1320),
    }
    capped = certify_by_e_values(**both, alpha=0.05, bets=[0.9])
    assert capped.p == pytest.approx([1.045**-81])
    assert capped.chosen == 0
    assert certify_by_e_values(**both, alpha=0.05, bets=[0.9], max_pairs=1000).chosen is None


def test_bets_come_from_dev_and_a_bad_policy_bets_nothing() -> None:
    dev = pool(300, 3, invalid_clusters=2)
    dev["accepted"] = np.vstack([dev["accepted"][0], dev["clusters"] < 20, np.zeros(900, bool)])
    bets = bet_on_dev(**dev, alpha=0.05)
    assert bets[0] > 0.5
    assert bets[1:].tolist() == [0, 0]
    cal = dev | {"accepted": dev["accepted"]}
    found = certify_by_e_values(**cal, alpha=0.05, bets=bets)
    assert found.certified == (0,)
    assert found.p[1:].tolist() == [1, 1]


def test_starts_divide_delta() -> None:
    given = pool(70, 4)
    given["accepted"] = np.repeat(given["accepted"], 2, axis=0)
    assert certify_by_e_values(**given, alpha=0.05, bets=[0.95, 0.95]).certified == (0, 1)
    assert certify_by_e_values(**given, alpha=0.05, bets=[0.95, 0.95], starts=(0, 1)).certified == ()


def test_a_risk_of_zero_is_never_certified() -> None:
    found = certify_by_e_values(**pool(3000, 4), alpha=0, bets=[0.99])
    assert found.p.tolist() == [1]
    assert "can never be certified" in found.reason


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"bets": [1 / 0.95]}, "a bet is outside 0 to 1.05263"),
        ({"bets": [-0.1]}, "a bet is outside"),
        ({"bets": [0.1, 0.1]}, "bets has shape"),
        ({"delta": 1.0}, "delta 1.0"),
        ({"alpha": -0.1}, "alpha -0.1"),
        ({"pair_ids": np.zeros(20)}, "given twice"),
    ],
)
def test_refusals(change: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        certify_by_e_values(**({**pool(5, 4), "alpha": 0.05, "bets": [0.5]} | change))
