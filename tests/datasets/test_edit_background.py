"""Background paragraphs: our own, and those of files in every accepted form."""

import codecs
import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from transformers import PreTrainedTokenizerBase

from cachemend.datasets.edit_background import SPLITS, draw_paragraph, load_background
from cachemend.repair_core.errors import InputError

TEXTS = [
    f"Paragraph number {i} has some plain words, quite enough of them, to be used as a document." for i in range(6)
]
ROWS = [{"title": f"Title {i}", "text": text} for i, text in enumerate(TEXTS)]
HOTPOT = [
    {"_id": "a", "question": "Secret question?", "answer": "secret answer",
     "context": [[f"Title {i}", [TEXTS[i][:40], TEXTS[i][40:]]] for i in range(3)]},
    {"_id": "b", "question": "Secret question?", "answer": "secret answer",
     "context": [[f"Title {i}", [TEXTS[i][:40], TEXTS[i][40:]]] for i in range(2, 6)]},
]  # fmt: skip
PLAIN = json.dumps(ROWS)
LINES = "\n".join(json.dumps(row) for row in ROWS) + "\n\n"


def written(folder: Path, content: str | bytes) -> str:
    path = folder / "paragraphs"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return str(path)


@pytest.mark.parametrize(
    "content",
    [
        PLAIN,
        LINES,
        gzip.compress(PLAIN.encode()),
        gzip.compress(LINES.encode()),
        f"\n {PLAIN}",
        codecs.BOM_UTF8 + PLAIN.encode(),
        codecs.BOM_UTF8 + LINES.encode(),
        gzip.compress(codecs.BOM_UTF8 + LINES.encode()),
    ],
)
def test_every_form_of_a_file_gives_the_same_paragraphs(tmp_path: Path, content: str | bytes) -> None:
    background = load_background(written(tmp_path, content))
    assert background.name == "paragraphs"
    assert [p.document for p in background.paragraphs] == [f"Title {i}\n{text}" for i, text in enumerate(TEXTS)]


def test_hotpot_files_give_their_context_paragraphs_once(tmp_path: Path) -> None:
    """Sentences are cut in the middle of a word here, so a join shows as a blank."""
    background = load_background(written(tmp_path, json.dumps(HOTPOT)))
    assert [p.title for p in background.paragraphs] == [f"Title {i}" for i in range(6)]
    for paragraph, text in zip(background.paragraphs, TEXTS, strict=True):
        assert paragraph.text.replace(" ", "") == text.replace(" ", "")
        assert "ecret" not in paragraph.document


def test_white_space_becomes_one_blank_and_stubs_are_left_out(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"text": TEXTS[0].replace(" ", "\n\n \t")},
        {"title": " A \n B ", "text": TEXTS[1]},
        {"title": "short", "text": "too short"},
        {"title": "long", "text": "word " * 400},
        {"title": "again", "text": TEXTS[1]},
    ]
    background = load_background(written(tmp_path, json.dumps(rows)))
    assert [p.document for p in background.paragraphs] == [TEXTS[0], f"A B\n{TEXTS[1]}"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[{", "neither a JSON list nor JSON lines"),
        ("plain words", "neither a JSON list nor JSON lines"),
        ("[" * 100_000, "neither a JSON list nor JSON lines"),
        (f"{LINES}{'[' * 100_000}", "neither a JSON list nor JSON lines"),
        (f"[{'1' * 5000}]", "neither a JSON list nor JSON lines"),
        ("", "holds 0 usable paragraphs"),
        (json.dumps(ROWS[:1]), "holds 1 usable paragraphs"),
        (json.dumps([*ROWS, {"title": "x"}]), "row 7: expected title and text"),
        (json.dumps([*ROWS, 5]), "row 7"),
        (json.dumps([*ROWS, "text"]), "row 7"),
        (json.dumps([*ROWS, {"title": "x", "text": 5}]), "row 7"),
        (json.dumps([{"context": [["only a title"]]}]), "row 1"),
        (gzip.compress(PLAIN.encode())[:-30], "cannot be read"),
        (b"\x1f\x8bnot gzip", "cannot be read"),
        (b"[\xff\xfe]", "cannot be read"),
    ],
)
def test_a_bad_file_is_one_clear_line(tmp_path: Path, content: str | bytes, message: str) -> None:
    source = written(tmp_path, content)
    with pytest.raises(InputError, match=message) as error:
        load_background(source)
    assert "\n" not in str(error.value)
    assert source in str(error.value)


def test_a_missing_file_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not exist"):
        load_background(str(tmp_path / "nothing.json"))


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    first = load_background(written(tmp_path, json.dumps(ROWS)))
    second = load_background(written(tmp_path, json.dumps(ROWS[::-1] + ROWS[:1])))
    assert first.fingerprint != second.fingerprint
    assert [p.text for p in second.paragraphs] == TEXTS[::-1]


def test_our_own_paragraphs_fill_a_long_context_in_each_split(smol: PreTrainedTokenizerBase) -> None:
    background = load_background()
    seen = []
    for split in SPLITS:
        documents = [p.document for p in background.of_split(split)]
        assert len(smol("\n\n".join(documents))["input_ids"]) >= 9_000
        seen += documents
    assert len(set(seen)) == len(seen) == len(background.paragraphs)
    sentences = [s for p in background.paragraphs for s in p.text.split(". ")]
    assert len(set(sentences)) == len(sentences)
    assert len({p.title for p in background.paragraphs}) == len(background.paragraphs)
    assert not any(character.isdigit() for document in seen for character in document)


def test_draws_use_every_paragraph_once_and_then_none() -> None:
    pool = load_background().of_split("dev")
    used: set[int] = set()
    drawn = [draw_paragraph(pool, used, 5, i) for i in range(len(pool))]
    assert set(drawn) == set(pool)
    assert draw_paragraph(pool, used, 5, len(pool)) is None
    assert drawn[:9] != [draw_paragraph(pool, set(), 6, i) for i in range(9)]
