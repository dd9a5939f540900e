"""Repeated splits: what they must keep apart, their shares, and that names alone decide them."""

from hashlib import sha256

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cachemend.calibration.errors import CalibrationError
from cachemend.calibration.splits import repeated_splits


def pool(n_clusters: list[int], rows_of: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """Return clusters and strata of rows; cluster i of a stratum has 1 to `rows_of` rows."""
    rows = [(f"{s}-{i}", f"s{s}") for s, n in enumerate(n_clusters) for i in range(n) for _ in range(1 + i % rows_of)]
    clusters, strata = zip(*rows, strict=True)
    return np.array(clusters), np.array(strata)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(1, 40), min_size=1, max_size=4).filter(lambda sizes: max(sizes) >= 3), st.integers(0, 9))
def test_every_split_is_a_partition_that_keeps_clusters_whole_and_strata_in_proportion(
    sizes: list[int], seed: int
) -> None:
    clusters, strata = pool(sizes)
    for split in repeated_splits(clusters, strata, n_splits=3, seed=seed):
        assert sorted(np.concatenate(split)) == list(range(len(clusters)))
        found = [set(clusters[part]) for part in split]
        assert sum(map(len, found)) == len(set(clusters))
        for s, size in enumerate(sizes):
            counts = [len({name for name in part if name.startswith(f"{s}-")}) for part in found]
            if size >= 5:
                assert all(abs(n - f * size) < 1 for n, f in zip(counts, (0.6, 0.2, 0.2), strict=True))
            elif size >= 3:
                assert min(counts) >= 1


def test_the_order_of_the_rows_does_not_matter() -> None:
    clusters, strata = pool([30, 7])
    order = np.random.default_rng(0).permutation(len(clusters))
    for one, other in zip(
        repeated_splits(clusters, strata), repeated_splits(clusters[order], strata[order]), strict=True
    ):
        for part, moved in zip(one, other, strict=True):
            assert set(clusters[part]) == set(clusters[order][moved])
            assert (np.diff(moved) > 0).all()


def test_clusters_are_taken_in_the_order_of_their_hashes() -> None:
    """25 clusters divide evenly: 15, 5 and 5 whatever the rounding."""
    names = [f"d{i:02}" for i in range(25)]
    for number, split in enumerate(repeated_splits(names, ["sgd"] * 25, n_splits=4, seed=5)):
        ranked = sorted(names, key=lambda n: sha256(f"cluster\x1f5\x1f{number}\x1fsgd\x1f{n}".encode()).hexdigest())
        assert [{names[row] for row in part} for part in split] == [
            set(ranked[:15]),
            set(ranked[15:20]),
            set(ranked[20:]),
        ]


def test_splits_and_seeds_differ() -> None:
    clusters, strata = pool([40])
    tests = [tuple(s.test) for seed in (1, 2) for s in repeated_splits(clusters, strata, seed=seed)]
    assert len(set(tests)) == 40


def test_small_strata_get_their_share_over_splits() -> None:
    """A stratum of a single cluster cannot be in each subset, but is a test cluster in a fifth of the splits."""
    clusters, strata = pool([10, 1, 2], rows_of=1)
    splits = repeated_splits(clusters, strata, n_splits=2000)
    for row in (10, 11, 12):
        shares = [np.mean([row in part for part in split]) for split in zip(*splits, strict=True)]
        assert shares == pytest.approx([0.6, 0.2, 0.2], abs=0.04)


def test_nearly_all_clusters_of_a_pool_of_the_papers_size_are_tested() -> None:
    """Appendix A: 562 of 568; a cluster stays out of 20 subsets with probability 0.8^20."""
    clusters, strata = pool([250, 60, 100, 100, 58])
    tested = {name for split in repeated_splits(clusters, strata) for name in clusters[split.test]}
    assert len(tested) == pytest.approx(568 * (1 - 0.8**20), abs=8)


def test_a_cluster_in_two_strata_is_refused_by_name_or_goes_where_most_of_its_rows_are() -> None:
    clusters = ["a"] * 3 + ["b", "c", "d", "e", "f", "g"]
    strata = ["x", "y", "y", "x", "x", "x", "y", "y", "y"]
    with pytest.raises(CalibrationError, match=r"cluster 'a' has rows in the strata 'x', 'y'"):
        repeated_splits(clusters, strata)
    as_y = ["x" if name in "bcd" else "y" for name in clusters]
    for one, other in zip(
        repeated_splits(clusters, strata, allow_mixed=True), repeated_splits(clusters, as_y), strict=True
    ):
        assert all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def test_too_few_clusters() -> None:
    with pytest.raises(CalibrationError, match="2 are too few"):
        repeated_splits(["a", "b", "b"])
    assert [len(part) for part in repeated_splits(["a", "b", "c"])[0]] == [1, 1, 1]


@pytest.mark.parametrize("fractions", [(0.6, 0.2), (0.6, 0.4, 0.0), (0.6, 0.2, 0.1), (1.2, -0.1, -0.1)])
def test_fractions_must_be_shares_of_one(fractions: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="three shares"):
        repeated_splits(list("abcdef"), fractions=fractions)


def test_other_refusals() -> None:
    with pytest.raises(ValueError, match="n_splits 0"):
        repeated_splits(list("abc"), n_splits=0)
    with pytest.raises(ValueError, match="3 clusters and 2 strata"):
        repeated_splits(list("abc"), list("xy"))
    with pytest.raises(ValueError, match="not empty"):
        repeated_splits([])
    thirds = repeated_splits(list("abcdef"), fractions=(1 / 3, 1 / 3, 1 / 3))[0]
    assert [len(part) for part in thirds] == [2, 2, 2]
