"""Learn-then-Test: p-values against SciPy, the sequence against a loop, and what may be certified when."""

from hashlib import sha256

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest

from cachemend.calibration.bounds import exact_upper
from cachemend.calibration.certified import certify_by_binomial_tests, order_on_dev
from cachemend.calibration.certified.fixed_sequence import fixed_sequence
from cachemend.calibration.certified.learn_then_test import binomial_p
from cachemend.calibration.certified.sampling import pairs_per_cluster

DIRECT = [[True, False]]


@given(st.integers(1, 200).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))), st.floats(0.01, 0.3))
def test_p_value_is_the_exact_binomial_test(counts: tuple[int, int], alpha: float) -> None:
    assert binomial_p(*counts, alpha) == pytest.approx(binomtest(*counts, alpha, alternative="less").pvalue)


def test_p_value_at_the_edges() -> None:
    assert binomial_p(0, 0, 0.05) == 1
    assert binomial_p([0, 5], [1000, 5], 0.0).tolist() == [1, 1]


@given(
    st.lists(st.floats(0, 0.2), min_size=1, max_size=12),
    st.sets(st.integers(0, 11), min_size=1, max_size=3),
)
def test_sequence_against_a_loop(p: list[float], places: set[int]) -> None:
    starts = sorted({place % len(p) for place in places})
    expected = set()
    for start in starts:
        at = start
        while at < len(p) and p[at] <= 0.1 / len(starts):
            expected.add(at)
            at += 1
    assert set(np.flatnonzero(fixed_sequence(p, 0.1, starts))) == expected


def test_family_wise_error_of_many_true_hypotheses() -> None:
    """2,000 sequences of 30 independent uniform p-values from three starts: about 5 % have any rejection."""
    rng = np.random.default_rng(0)
    rejected = fixed_sequence(rng.random((2000, 30)), 0.05, (0, 10, 20)).any(axis=1).mean()
    assert rejected == pytest.approx(1 - (1 - 0.05 / 3) ** 3, abs=0.015)


@pytest.mark.parametrize("starts", [(), (0, 0), (3,), (-1,)])
def test_starts_are_places(starts: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="distinct places"):
        fixed_sequence([0.1, 0.1, 0.1], 0.05, starts)


def one_policy(n: int, invalid: int = 0, pairs: int = 1) -> dict[str, object]:
    """n clusters of so many direct hits each, the first `invalid` clusters wrong altogether."""
    clusters = np.repeat(np.arange(n), pairs)
    return {
        "accepted": np.ones((1, n * pairs), bool),
        "verified": np.zeros((1, n * pairs), bool),
        "valid": clusters >= invalid,
        "clusters": clusters,
        "pair_ids": np.arange(n * pairs),
        "regions": DIRECT,
    }


@pytest.mark.parametrize(("alpha", "needed"), [(0.025, 119), (0.05, 59), (0.10, 29)])
@pytest.mark.parametrize("pairs", [1, 7])
def test_clusters_decide_and_not_pairs(alpha: float, needed: int, pairs: int) -> None:
    enough = certify_by_binomial_tests(**one_policy(needed, pairs=pairs), alpha=alpha)
    assert (enough.certified, enough.chosen, enough.reason, enough.n_clusters) == ((0,), 0, "", needed)
    assert enough.p == pytest.approx([(1 - alpha) ** needed])
    short = certify_by_binomial_tests(**one_policy(needed - 1, pairs=pairs), alpha=alpha)
    assert (short.certified, short.chosen) == ((), None)
    assert f"0 invalid of {needed - 1} direct" in short.reason
    assert f"one of a cluster, of {needed - 1} clusters" in short.reason


def test_errors_and_two_starts_cost() -> None:
    assert certify_by_binomial_tests(**one_policy(93, invalid=1), alpha=0.05).chosen == 0
    assert certify_by_binomial_tests(**one_policy(92, invalid=1), alpha=0.05).chosen is None
    assert (0.95**93 + 93 * 0.05 * 0.95**92) <= 0.05 < (0.95**92 + 92 * 0.05 * 0.95**91)
    both = one_policy(65)
    both |= {key: np.repeat(both[key], 2, axis=0) for key in ("accepted", "verified", "regions")}
    assert certify_by_binomial_tests(**both, alpha=0.05).certified == (0, 1)
    assert certify_by_binomial_tests(**both, alpha=0.05, starts=(0, 1)).certified == ()


def test_direct_and_verified_hits_are_tested_apart() -> None:
    """180 error-free direct hits do not pay for 10 verified ones that are all wrong, nor for too few right ones."""
    given = one_policy(200)
    given["verified"] = np.arange(200)[None] >= 190
    given["regions"] = None
    assert certify_by_binomial_tests(**given, alpha=0.1).chosen is None
    given["valid"] = np.arange(200) < 190
    found = certify_by_binomial_tests(**given, alpha=0.1)
    assert found.p == pytest.approx([1])
    assert "10 invalid of 10 verified" in found.reason
    # The whole set of hits would pass a single test at this level.
    assert binomial_p(10, 200, 0.1) < 0.05
    given["verified"] = np.arange(200)[None] >= 150
    given["valid"] = np.ones(200, bool)
    found = certify_by_binomial_tests(**given, alpha=0.1)
    assert found.p == pytest.approx([0.9**50])
    assert found.chosen == 0


def test_a_cluster_gives_one_hit_of_each_kind() -> None:
    """Three pairs a cluster: a direct hit, a verified one, none; whichever pair the hash puts first, both count."""
    n = 60
    kind = np.tile([0, 1, 2], n)
    given = {
        "verified": kind[None] == 1,
        "valid": np.ones(3 * n, bool),
        "clusters": np.repeat(np.arange(n), 3),
        "pair_ids": np.arange(3 * n),
    }
    found = certify_by_binomial_tests(kind[None] < 2, **given, alpha=0.05)
    assert found.p == pytest.approx([0.95**n])
    given["valid"] = (kind != 1) | (np.arange(3 * n) > 3)
    assert certify_by_binomial_tests(kind[None] < 2, **given, alpha=0.05).p == pytest.approx(
        [0.95**n + n * 0.05 * 0.95 ** (n - 1)]
    )


@pytest.mark.parametrize("alpha", [0.05, 0.1])
def test_the_level_holds_where_risky_clusters_have_most_hits(alpha: float) -> None:
    """Pairs drawn one by one: errors of a cluster go together, and large clusters err most. Direct hits have just too
    high a risk, a hit being drawn from a cluster with any; verified hits are safe, so that nothing else protects.
    """
    rng, n, replicates = np.random.default_rng(5), 150, 600
    sizes = rng.integers(1, 9, (replicates, n))
    own = np.where(rng.random((replicates, n)) < 0.2, 0.5, 0.0) * (sizes > 4)
    own *= 1.001 * alpha / (0.1 * (1 - 0.4 ** np.arange(5, 9)).sum() / (1 - 0.4 ** np.arange(1, 9)).sum())
    violations = 0
    for size, risk in zip(sizes, own, strict=True):
        clusters = np.repeat(np.arange(n), size)
        draw = rng.random(len(clusters))
        accepted, verified = draw < 0.95, draw >= 0.6
        valid = verified | (rng.random(len(clusters)) >= risk[clusters])
        found = certify_by_binomial_tests(
            accepted[None], verified[None], valid, clusters, np.arange(len(clusters)), alpha=alpha
        )
        violations += found.chosen is not None
    assert 0.01 < violations / replicates <= 0.05 + 2 * np.sqrt(0.05 * 0.95 / replicates)


def test_a_pair_that_the_verifier_refused_is_no_hit() -> None:
    given = one_policy(60) | {"regions": None}
    given["accepted"] = np.arange(60)[None] < 30
    given["verified"] = np.arange(60)[None] >= 30
    assert "0 invalid of 0 verified" in certify_by_binomial_tests(**given, alpha=0.1).reason


def test_the_policy_of_most_valid_hits_is_chosen_among_the_certified() -> None:
    accepted = np.zeros((4, 200), bool)
    for row, hits in enumerate((80, 120, 120, 200)):
        accepted[row, :hits] = True
    valid = np.arange(200) < 150
    given = {"verified": np.zeros((4, 200)), "valid": valid, "clusters": np.arange(200), "pair_ids": np.arange(200)}
    found = certify_by_binomial_tests(accepted, **given, alpha=0.05, regions=DIRECT * 4)
    assert found.certified == (0, 1, 2)
    assert found.chosen == 1


def test_a_risk_of_zero_is_never_certified() -> None:
    found = certify_by_binomial_tests(**one_policy(5000), alpha=0)
    assert found.chosen is None
    assert "can never be certified" in found.reason


def test_the_pair_of_a_cluster_is_decided_by_its_hash() -> None:
    clusters, ids = ["a", "b", "a", "a", "b"], ["p0", "p1", "p2", "p3", "p4"]
    ranked = sorted(ids, key=lambda name: sha256(f"3\x1f{clusters[ids.index(name)]}\x1f{name}".encode()).hexdigest())
    for most in (1, 2, 3):
        expected = {n for c in "ab" for n in [n for n in ranked if clusters[ids.index(n)] == c][:most]}
        assert {ids[row] for row in pairs_per_cluster(clusters, ids, most, seed=3)} == expected
        back = pairs_per_cluster(clusters[::-1], ids[::-1], most, seed=3)
        assert {ids[::-1][row] for row in back} == expected
    with pytest.raises(ValueError, match="given twice"):
        pairs_per_cluster(["a", "b"], ["p", "p"])
    with pytest.raises(ValueError, match="most 0"):
        pairs_per_cluster(["a"], ["p"], 0)
    with pytest.raises(ValueError, match="1 clusters and 2 pair ids"):
        pairs_per_cluster(["a"], ["p", "q"])


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 6)), min_size=1, max_size=15))
def test_dev_order_keeps_what_no_other_policy_beats(counts: list[tuple[int, int]]) -> None:
    hits, invalid = np.array([(n, min(k, n)) for n, k in counts]).T
    bound, valid = exact_upper(invalid, hits), hits - invalid
    order = order_on_dev(invalid, hits)
    assert (np.diff(bound[order]) > 0).all() or len(order) == 1
    assert (np.diff(valid[order]) > 0).all()
    for policy in range(len(hits)):
        if policy not in order:
            assert any(bound[kept] <= bound[policy] and valid[kept] >= valid[policy] for kept in order)


def test_dev_order_of_two_kinds() -> None:
    hits = np.array([[100, 0], [100, 0], [100, 60]])
    assert order_on_dev(np.zeros((3, 2), int), hits).tolist() == [2]
    regions = np.array([[True, True], [True, False], [True, True]])
    assert order_on_dev(np.zeros((3, 2), int), hits, regions).tolist() == [1, 2]
    with pytest.raises(ValueError, match="shapes"):
        order_on_dev([0], [1, 2])
    with pytest.raises(ValueError, match="regions has shape"):
        order_on_dev([0], [1], [[True]])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"alpha": 1.0}, "alpha 1.0"),
        ({"delta": 0.0}, "delta 0.0"),
        ({"accepted": np.ones((1, 4))}, "5 pairs"),
        ({"accepted": np.full((1, 5), 2)}, "accepted must be 0 or 1"),
        ({"verified": np.zeros((2, 5))}, "accepted and verified have shapes"),
        ({"clusters": np.arange(4)}, "one shape"),
        ({"regions": [[False, False]]}, "policy 0 neither"),
        ({"regions": [[False, True]]}, "policy 0 has hits of a kind switched off"),
        ({"regions": [[True]]}, "regions has shape"),
    ],
)
def test_refusals(change: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        certify_by_binomial_tests(**({**one_policy(5), "alpha": 0.1} | change))
