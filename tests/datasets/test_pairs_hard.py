"""The hard arm: the same words in another state, other words in the same state, and no trace of the label in style."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from cachemend.datasets.pair_build import Built, in_hard_arm
from cachemend.datasets.pairs_hard import build_sgd_hard, build_situated_hard, names_a_value, turned_round
from cachemend.datasets.pairs_sgd_files import read_dialogues, read_schema
from cachemend.datasets.pairs_sgd_rings import lines
from cachemend.datasets.pairs_sgd_turns import answer_turns
from cachemend.datasets.pairs_situated_files import read_questions

from support.sgd_files import act, search, write_sgd

SHARED = Path(__file__).resolve().parents[2] / "../shared/data"
needs_data = pytest.mark.skipif(
    not SHARED.is_dir(), reason="the folder of public data extracts is not beside this checkout"
)


@pytest.fixture(scope="module")
def some_sgd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with three of the published files: enough for the rules, quick to read."""
    folder = tmp_path_factory.mktemp("data")
    dev = folder / "sgd" / "dev"
    dev.mkdir(parents=True)
    published = SHARED.resolve() / "sgd" / "dev"
    for path in (published / "schema.json", *sorted(published.glob("dialogues_*"))[5:8]):
        (dev / path.name).symlink_to(path)
    return folder


def hard_names(n: int) -> list[str]:
    return [name for i in range(9 * n) if in_hard_arm("sgd", name := f"9_{i:05}", seed=1)][:n]


def test_the_same_words_are_used_only_where_they_fit_both_states(tmp_path: Path) -> None:
    cities = ("Oslo", "Bergen")
    quiet: list[dict[str, Any]] = [
        search(name, cities[i % 2], f"Inn {cities[i % 2]}", "A hotel there") for i, name in enumerate(hard_names(8))
    ]
    built = build_sgd_hard(write_sgd(tmp_path / "a", quiet), n=100, seed=1)
    assert Counter(pair.label for pair in built.pairs)[0] >= 4
    for pair in built.pairs:
        assert pair.pool == "hard"
        assert (pair.q_cache == pair.q_probe) == (pair.label == 0)
        assert (pair.context_cache == pair.context_probe) == (pair.label == 1)  # there is one service only
    assert {pair.q_cache for pair in built.pairs} == {"A hotel there", "Look for a hotel."}
    loud = [
        search(name, cities[i % 2], f"Inn {cities[i % 2]}", f"A hotel in {cities[i % 2]}")
        for i, name in enumerate(hard_names(8))
    ]
    for dialogue in loud:
        dialogue["turns"] = dialogue["turns"][:2]
    assert build_sgd_hard(write_sgd(tmp_path / "b", loud), n=100, seed=1).pairs == ()


def test_a_stated_slot_and_a_value_as_a_word_are_named(tmp_path: Path) -> None:
    dialogues = [search("1_1", "1", "Grand", "Some 10 hotels"), search("1_2", "2", "Plaza", "plaza, number 2")]
    turns, _ = answer_turns(read_dialogues(write_sgd(tmp_path, dialogues)), read_schema(tmp_path))
    by_slot = {line.slot: line for line in lines([t for t in turns if t.kind == "search"], seed=1)}
    first, second = turns[0], turns[2]
    assert not names_a_value(first, by_slot["city"])
    assert names_a_value(first._replace(stated=(("city", "one"),)), by_slot["city"])
    assert names_a_value(second, by_slot["city"])
    offered = by_slot["city"]._replace(slot="offered", turns=((turns[1],), (turns[3],)))
    assert names_a_value(second, offered)
    assert not names_a_value(turns[1], offered)
    assert act("OFFER", "name", "Grand")["canonical_values"] == ["Grand"]


def test_questions_are_turned_round() -> None:
    assert turned_round("when did it rain last") == "it rain last - please tell me when"
    assert turned_round("how many people live here") == "people live here - please tell me how many"
    assert turned_round("who was first") == "first - please tell me who"
    assert turned_round("whoever wins") == "regarding whoever wins, please give me the answer"


def check(built: Built, n: int) -> None:
    labels = Counter(pair.label for pair in built.pairs)
    assert labels[0] == labels[1] == n
    assert len({pair.pair_id for pair in built.pairs}) == len(built.pairs)
    for pair in built.pairs:
        assert (pair.q_cache == pair.q_probe) == (pair.label == 0)
        if pair.label == 0:
            assert pair.context_cache != pair.context_probe
    # Every cached answer, with its context, is asked for once in each way.
    cached = [
        Counter((p.q_cache, p.r_cache, p.context_cache) for p in built.pairs if p.label == label) for label in (0, 1)
    ]
    assert sum((cached[0] - cached[1]).values()) <= 2


@needs_data
def test_published_dialogues_give_both_labels(some_sgd: Path) -> None:
    built = build_sgd_hard(some_sgd, n=40)
    check(built, 20)
    assert build_sgd_hard(some_sgd, n=40) == built
    assert all(in_hard_arm("sgd", pair.cluster.removeprefix("sgd:"), seed=20_261_107) for pair in built.pairs)
    schema_said = Counter(
        (pair.label, any(pair.q_probe.startswith(text) for text in read_schema(some_sgd).lookups.values()))
        for pair in built.pairs
        if not pair.q_probe.startswith("Of that one")
    )
    assert all(schema_said[label, style] for label in (0, 1) for style in (False, True))


@needs_data
def test_published_questions_give_both_labels() -> None:
    built = build_situated_hard(SHARED)
    check(built, 120)
    wordings = {q.words: turned_round(q.words) for q in read_questions(SHARED)}
    turned = {other: words for words, other in wordings.items()}
    requests = [Counter((p.q_probe, p.context_probe) for p in built.pairs if p.label == label) for label in (0, 1)]
    assert requests[0] == requests[1]
    for pair in built.pairs:
        if pair.label:
            assert {pair.q_cache, pair.q_probe} in (
                {pair.q_cache, wordings.get(pair.q_cache)},
                {pair.q_cache, turned.get(pair.q_cache)},
            )
