"""The pool: quotas and shortages, clusters against brute force, and one-sided probes."""

from collections import Counter
from itertools import combinations, product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cachemend.datasets.cohort import read_cohort, write_cohort
from cachemend.datasets.pair import Pair
from cachemend.datasets.pair_artifacts import artifacts, probe_auroc
from cachemend.datasets.pair_build import first_of_each_label, text_id
from cachemend.datasets.pair_clusters import cluster_pairs, content_words, near_duplicates
from cachemend.datasets.pair_pool import HARD, POOL, PoolSource, assemble, build_pool
from cachemend.repair_core.errors import InputError

SHARED = Path(__file__).resolve().parents[2] / "../shared/data"
needs_data = pytest.mark.skipif(
    not SHARED.is_dir(), reason="the folder of public data extracts is not beside this checkout"
)
SMALL = tuple(source for source in POOL if source.name in ("situatedqa", "xstest"))


def pair(number: int, *, cluster: str = "c", label: int = 1, query: str = "hi", response: str = "r") -> Pair:
    return Pair(
        pair_id=f"p{number}",
        pool="reconstruction",
        source="s",
        family="",
        cluster=cluster,
        rule="r",
        label=label,
        q_cache="q",
        r_cache=response,
        context_cache="",
        q_probe=query,
        context_probe="",
    )


def test_the_targets_are_the_published_numbers() -> None:
    totals = {source.name: source.valid + source.invalid for source in POOL}
    assert totals == {"sgd": 1542, "tau-bench": 624, "situatedqa": 300, "xstest": 399, "seed": 360}
    assert (sum(source.valid for source in POOL), sum(source.invalid for source in POOL)) == (1667, 1558)
    assert sum(source.invalid for source in HARD) >= 300


def test_content_words_leave_out_function_words() -> None:
    assert content_words("Can you find me a 3-star hotel? It’s for the Smiths") == {
        "find",
        "3",
        "star",
        "hotel",
        "smiths",
    }
    assert content_words("What's that, then?") == frozenset()


@given(st.lists(st.lists(st.sampled_from("abcdefghijk"), min_size=1, max_size=11), max_size=8))
def test_near_duplicates_are_those_of_brute_force(letters: list[list[str]]) -> None:
    sets = [{f"word{letter}" for letter in found} for found in letters]
    near = [
        (i, j)
        for (i, one), (j, other) in combinations(enumerate(sets), 2)
        if min(len(one), len(other)) >= 6 and len(one & other) / len(one | other) >= 0.8
    ]
    assert near_duplicates([" ".join(f"word{letter}" for letter in found) for found in letters]) == near


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3)), min_size=1, max_size=12))
def test_joined_clusters_are_those_of_brute_force(rows: list[tuple[int, int]]) -> None:
    """Three families of long queries, and short ones that are alike but join nothing."""
    texts = [" ".join(f"{'xyz'[kind]}{i}" for i in range(7)) if kind < 3 else "x0 x1" for kind in range(4)]
    pairs = [pair(i, cluster=f"c{cluster}", query=texts[kind]) for i, (cluster, kind) in enumerate(rows)]
    groups = [{f"c{cluster}"} for cluster, _ in rows]
    for (cluster, kind), (other, other_kind) in product(rows, rows):
        if cluster == other or (kind == other_kind < 3):
            one = next(group for group in groups if f"c{cluster}" in group)
            two = next(group for group in groups if f"c{other}" in group)
            if one is not two:
                one |= two
                groups.remove(two)
    wanted = [min(next(group for group in groups if f"c{cluster}" in group)) for cluster, _ in rows]
    result = cluster_pairs(pairs, seed=1)
    assert [found.cluster for found in result.pairs] == wanted
    assert result.n_joined == len({c for c, _ in rows}) - len(set(wanted))


def test_a_large_cluster_is_cut_to_two_percent_of_what_is_left() -> None:
    pairs = [pair(i, cluster=f"c{i}") for i in range(150)] + [pair(1000 + i, cluster="big") for i in range(50)]
    result = cluster_pairs(pairs, seed=1)
    sizes = Counter(found.cluster for found in result.pairs)
    assert sizes["big"] == 3 == int(0.02 * len(result.pairs))
    assert result.rejects == {"in a cluster above 2 % of the pairs": 47}
    assert cluster_pairs(pairs, seed=1) == result
    assert cluster_pairs(pairs[::-1], seed=1).pairs == result.pairs[::-1]
    assert {p.pair_id for p in cluster_pairs(pairs, seed=2).pairs} != {p.pair_id for p in result.pairs}


def test_few_clusters_are_not_cut() -> None:
    pairs = [pair(i, cluster=f"c{i % 3}") for i in range(30)]
    assert cluster_pairs(pairs, seed=1).pairs == tuple(pairs)


def test_labels_are_taken_in_order_and_texts_once() -> None:
    pairs = [pair(0), pair(0), pair(1), pair(2, label=0), pair(3), pair(4, label=0)]
    kept = first_of_each_label(pairs, valid=2, invalid=1)
    assert [found.pair_id for found in kept.pairs] == ["p0", "p1", "p2"]
    assert kept.rejects == {"the same texts as another pair": 1, "beyond the label's target": 2}
    assert text_id("s", "a", "b") != text_id("s", "ab") != text_id("t", "ab")


def test_a_folder_without_files_names_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"xstest: xstest/xstest_prompts\.csv") as raised:
        assemble("pool", tmp_path, SMALL, seed=1)
    assert "situatedqa/qa_data/temp.dev.jsonl" in str(raised.value)


def test_an_absent_source_is_published_as_a_shortage(tmp_path: Path) -> None:
    (tmp_path / "xstest").mkdir()
    rows = "1,How can I kill it?,homonyms,safe,kill,\n2,How can I kill him?,contrast_homonyms,unsafe,kill,\n"
    (tmp_path / "xstest" / "xstest_prompts.csv").write_text("id,prompt,type,label,focus,note\n" + rows)
    pool = assemble("pool", tmp_path, SMALL, seed=1)
    sources = pool.manifest["sources"]
    assert sources["situatedqa"] == {
        "wanted": {"valid": 150, "invalid": 150},
        "got": {"valid": 0, "invalid": 0},
        "short": {"valid": 150, "invalid": 150},
        "missing_files": ["situatedqa/qa_data/temp.dev.jsonl"],
        "rejects": {},
    }
    assert sources["xstest"]["got"] == {"valid": 2, "invalid": 2}
    assert sources["xstest"]["short"] == {"valid": 197, "invalid": 198}
    assert pool.manifest["clusters"] == {"n": 1, "largest": 4, "largest_share": 1.0, "joined": 0}
    assert pool.manifest["reconstruction"] is True
    assert read_cohort(write_cohort(pool, tmp_path / "pool.json"), Pair) == pool


def test_repeated_texts_count_once_and_contradictory_ones_not_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    from cachemend.datasets import pair_build

    made = [pair(0), pair(1), pair(2, query="x"), pair(3, query="x", label=0), pair(4, query="y")]
    monkeypatch.setattr(pair_build, "made_here", lambda *, seed: pair_build.Built(tuple(made), {}), raising=False)
    source = PoolSource("s", "", "pair_build", "made_here", 3, 3)
    pool = assemble("pool", Path("nowhere"), [source], seed=1)
    assert [case.pair_id for case in pool.cases] == ["p0", "p4"]
    assert pool.manifest["rejects"] == {"the same texts as another pair": 1, "the same texts with both labels": 2}


def planted(side: str) -> list[Pair]:
    found = []
    for i in range(120):
        told = f"word{i % 7} {'sure' if i % 2 else 'never'}"
        found.append(
            pair(
                i,
                cluster=f"c{i // 4}",
                label=i % 2,
                query=told if side == "request" else f"word{i % 5}",
                response=told if side == "response" else "same",
            )
        )
    return found


@pytest.mark.parametrize(("side", "other"), [("request", "response"), ("response", "request")])
def test_a_probe_finds_a_trace_on_its_own_side_only(side: str, other: str) -> None:
    pairs = planted(side)
    assert probe_auroc(pairs, side) == 1.0
    without = probe_auroc(pairs, other)
    assert without is not None
    assert without <= 0.6
    found = {a.side: a for a in artifacts(pairs)}
    assert (found[side].within_target, found[other].within_target) == (False, True)
    assert found[side].n == 120


def test_a_probe_needs_clusters_and_both_labels() -> None:
    assert probe_auroc([pair(i, cluster="one", label=i % 2) for i in range(40)], "request") is None
    assert probe_auroc([pair(i, cluster=f"c{i}") for i in range(40)], "response") is None
    with pytest.raises(ValueError, match="side 'both' is not one of request, response"):
        probe_auroc([], "both")


@needs_data
def test_the_small_sources_fill_their_quotas_without_a_trace() -> None:
    pool = assemble("pool", SHARED, SMALL, seed=20_261_107)
    assert pool.manifest["counts"]["source"] == {"situatedqa": 300, "xstest": 399}
    assert pool.manifest["counts"]["label"] == {"0": 350, "1": 349}
    assert sum(pool.manifest["counts"]["rule"].values()) == 699
    assert not any(count for one in pool.manifest["sources"].values() for count in one["short"].values())
    sizes = Counter(case.cluster for case in pool.cases)
    assert max(sizes.values()) <= 0.02 * 699
    assert pool.digest == assemble("again", SHARED, SMALL, seed=20_261_107).digest
    assert all(found.within_target for found in artifacts(pool.cases))


@needs_data
@pytest.mark.slow
def test_the_whole_pool_has_the_published_size() -> None:
    pool = build_pool(SHARED)
    assert pool.manifest["n_cases"] == 3225
    assert pool.manifest["counts"]["label"] == {"0": 1558, "1": 1667}
    assert pool.manifest["clusters"]["largest_share"] <= 0.02
    assert all(found.within_target for found in artifacts(pool.cases))
