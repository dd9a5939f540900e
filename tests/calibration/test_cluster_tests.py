"""Cluster bootstrap and label swap against loops and full enumeration."""

from itertools import product

import numpy as np
import pytest

from cachemend.calibration.cluster_tests import cluster_bootstrap, label_swap
from cachemend.calibration.intervals import resamples


def rates(hit: np.ndarray, valid: np.ndarray) -> tuple[float, float]:
    return float((hit & valid).mean()), float((hit & ~valid).sum() / hit.sum()) if hit.any() else 0.0


def data(n_clusters: int, seed: int, size: int = 4) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    clusters = np.repeat(np.arange(n_clusters), rng.integers(1, size + 1, n_clusters))
    valid = rng.random(len(clusters)) < 0.5
    a = rng.random(len(clusters)) < np.where(valid, 0.8, 0.1)
    b = rng.random(len(clusters)) < np.where(valid, 0.6, 0.4)
    order = rng.permutation(len(clusters))
    return a[order], b[order], valid[order], clusters[order]


def test_bootstrap_against_a_loop_over_the_same_draws() -> None:
    a, b, valid, clusters = data(12, 0)
    members = [np.flatnonzero(clusters == name) for name in range(12)]
    draws = []
    for _, drawn in resamples(12, 300, 3):
        for row in drawn:
            at = np.concatenate([members[name] for name in row])
            one, other = rates(a[at], valid[at]), rates(b[at], valid[at])
            draws.append((one[0] - other[0], one[1] - other[1]))
    vchr, fh = np.array(draws).T
    found = cluster_bootstrap(a, b, valid, clusters, replicates=300, seed=3, margin=0.01)
    one, other = rates(a, valid), rates(b, valid)
    assert found.vchr == pytest.approx((one[0] - other[0], *np.percentile(vchr, [2.5, 97.5]), 12))
    assert found.fh == pytest.approx((one[1] - other[1], *np.percentile(fh, [2.5, 97.5]), 12))
    assert found.p_vchr == (1 + (vchr <= -0.01).sum()) / 301
    assert found.p_fh == (1 + (fh >= 0).sum()) / 301
    assert found.p == max(found.p_vchr, found.p_fh)


def test_swap_against_all_swaps() -> None:
    a, b, valid, clusters = data(8, 1)
    one, other = rates(a, valid), rates(b, valid)
    vchr, fh = one[0] - other[0], one[1] - other[1]
    as_large, as_small = [], []
    for swapped in product((False, True), repeat=8):
        at = np.array(swapped)[clusters]
        first, second = rates(np.where(at, b, a), valid), rates(np.where(at, a, b), valid)
        as_large.append(first[0] - second[0] >= vchr - 1e-12)
        as_small.append(first[1] - second[1] <= fh + 1e-12)
    found = label_swap(a, b, valid, clusters, replicates=20_000)
    assert (found.vchr, found.fh) == pytest.approx((vchr, fh))
    assert found.p_vchr == pytest.approx(np.mean(as_large), abs=0.015)
    assert found.p_fh == pytest.approx(np.mean(as_small), abs=0.015)
    assert 0.01 < np.mean(as_large) < 0.99
    assert found.p == max(found.p_vchr, found.p_fh)


def test_methods_that_are_the_same_or_swapped() -> None:
    a, b, valid, clusters = data(20, 2)
    for test in (cluster_bootstrap, label_swap):
        same = test(a, a, valid, clusters, replicates=200)
        assert (same.p_vchr, same.p_fh, same.p) == (1, 1, 1)
    forth, back = label_swap(a, b, valid, clusters), label_swap(b, a, valid, clusters)
    assert (forth.vchr, forth.fh) == pytest.approx((-back.vchr, -back.fh))
    assert forth.p < 0.05 < 0.9 < back.p


def test_a_clear_difference_cannot_have_a_p_of_zero() -> None:
    """60 clusters where a is right and b wrong: no swap reaches it, and the observed one still counts."""
    clusters = np.repeat(np.arange(60), 2)
    valid = np.tile([True, False], 60)
    swap, boot = (test(valid, ~valid, valid, clusters, replicates=999) for test in (label_swap, cluster_bootstrap))
    assert (swap.p_vchr, swap.p_fh, boot.p_vchr, boot.p_fh) == (0.001,) * 4
    assert (boot.vchr.low, boot.fh.high) == (0.5, -1.0)


def test_clusters_count_and_not_exposures() -> None:
    """Twenty exposures of every pair, as over 20 splits, add no evidence."""
    a, b, valid, clusters = data(15, 4)
    many = [np.repeat(array, 20) for array in (a, b, valid, clusters)]
    for test in (cluster_bootstrap, label_swap):
        once, often = test(a, b, valid, clusters, replicates=500), test(*many, replicates=500)
        for figure, same in zip(once, often, strict=True):
            assert same == pytest.approx(figure)


def test_the_papers_size() -> None:
    """13,911 exposures of 562 clusters, 10,000 draws; no hits at all is a false-hit rate of 0."""
    a, _, valid, clusters = data(562, 5, size=48)
    for test in (cluster_bootstrap, label_swap):
        found = test(a, np.zeros_like(a), valid, clusters)
        assert found.p_vchr == 1 / 10_001
        assert found.p_fh == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"accepted_a": [1, 0]}, "one shape"),
        ({"valid": [1, 0, 2]}, "valid must be 0 or 1"),
        ({"accepted_b": []}, "not empty"),
        ({"replicates": 0}, "replicates 0"),
    ],
)
def test_refusals(change: dict[str, object], message: str) -> None:
    given = {"accepted_a": [1, 0, 1], "accepted_b": [0, 0, 1], "valid": [1, 0, 1], "clusters": ["x", "x", "y"]}
    for test in (cluster_bootstrap, label_swap):
        with pytest.raises(ValueError, match=message):
            test(**(given | change))  # type: ignore[arg-type]
