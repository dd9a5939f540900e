"""The shipped lexicon: what identifies it, what it recognises, and how a bad one is refused."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from cachemend.calibration.conditions.cues import Cue, cue_table, find_cues
from cachemend.calibration.conditions.lexicon import PACKAGED, load_lexicon
from cachemend.calibration.conditions.typed_values import agree, find_typed
from cachemend.calibration.errors import CalibrationError

LEXICON = load_lexicon()


def test_the_digest_is_of_the_files_bytes_and_loading_is_done_once() -> None:
    assert LEXICON.digest == hashlib.sha256(PACKAGED.read_bytes()).hexdigest()
    assert LEXICON.version == json.loads(PACKAGED.read_text())["version"]
    assert load_lexicon() is LEXICON


def test_every_state_phrase_is_found_as_its_state() -> None:
    for entry in json.loads(PACKAGED.read_text())["states"]:
        for value, phrases in entry["values"].items():
            for phrase in phrases:
                assert phrase == phrase.lower()
                found = {hit.cue for hit in find_cues(phrase.split(), LEXICON.cues)}
                assert Cue("state", entry["name"], value) in found, phrase


def test_of_the_phrases_of_a_kind_the_longest_counts() -> None:
    table = cue_table([("not", Cue("n", "a", "")), ("not only", Cue("n", "b", "")), ("not", Cue("other", "c", ""))])
    hits = find_cues(["not", "only", "not"], table)
    assert [(hit.start, hit.cue.name) for hit in hits] == [(0, "b"), (0, "c"), (2, "a"), (2, "c")]


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("cancel #W5442520 now", "order", "#w5442520"),
        ("code 4WQ150, please", "reservation", "4wq150"),
        ("mail Raj.Lee6137@example.com.", "email", "raj.lee6137@example.com"),
        ("call (408) 247-8880", "phone", "4082478880"),
        ("call 408-247-8880.", "phone", "4082478880"),
        ("user mei_kovacs_8020 asks", "user", "mei_kovacs_8020"),
        ("pay by credit_card_7933535", "payment", "credit_card_7933535"),
        ("item 5120532699 is chipped", "item", "5120532699"),
        ("flight HAT123 is late", "flight", "hat123"),
        ("on 2019-03-08", "date", "2019-03-08"),
        ("on 2019/3/8", "date", "2019-03-08"),
        ("on March 8th", "date", "--03-08"),
        ("on 8 March 2019", "date", "2019-03-08"),
        ("on 03/08/2019", "date", "2019-03-08"),
        ("on 26/10/2019", "date", "2019-10-26"),
        ("in May 2019", "date", "2019-05"),
        ("in 2019", "date", "2019"),
        ("as of July 18, 1960", "as-of", "1960-07-18"),
        ("as of 2019", "as-of", "2019"),
        ("see you tomorrow", "date", "tomorrow"),
        ("next Friday works", "date", "next-friday"),
        ("the last 30 days", "date", "last-30-days"),
        ("at 7:15 pm", "clock", "19:15"),
        ("at 7 p.m.", "clock", "19:00"),
        ("at 7:15", "clock", "07:15?"),
        ("at 19:15", "clock", "19:15"),
        ("at half past 11 in the morning", "clock", "11:30"),
        ("at quarter to five in the evening", "clock", "16:45"),
        ("at 4 in the afternoon", "clock", "16:00"),
        ("at noon", "clock", "12:00"),
        ("at 12 am", "clock", "00:00"),
        ("costs $1,234.50", "money", "1234.5-usd"),
        ("costs 50 dollars", "money", "50-usd"),
        ("costs £3 million", "money", "3000000-gbp"),
        ("rose 15%", "percent", "15-percent"),
        ("rose 15 percent", "percent", "15-percent"),
        ("see https://www.Example.com/a/b/", "url", "example.com/a/b"),
        ("open report_v2.pdf", "file", "report_v2.pdf"),
        ("tag v1.2.3", "version", "1.2.3"),
        ("policy version 4", "version", "4"),
        ("sha256:0a1b2c3d4e5f", "digest", "0a1b2c3d4e5f"),
        ("a table for 12 people", "number", "12"),
        ("about 1,500 people", "number", "1500"),
    ],
)
def test_typed_values_have_one_form(text: str, kind: str, value: str) -> None:
    assert [(found.type, found.value) for found in find_typed(text, LEXICON)] == [(kind, value)]


@pytest.mark.parametrize(
    "text", ["this is what I want", "may I march on", "an email at example", "the past", "www", "a/b"]
)
def test_ordinary_words_are_no_typed_values(text: str) -> None:
    assert find_typed(text, LEXICON) == []


@pytest.mark.parametrize(
    ("kind", "first", "second", "expected"),
    [
        ("date", "2019", "2019-05-28", True),
        ("date", "2019", "2018-05-28", False),
        ("date", "--05-28", "2019-05-28", True),
        ("date", "--05-28", "2019-05-27", False),
        ("date", "tomorrow", "2019-05-28", True),
        ("date", "tomorrow", "today", False),
        ("clock", "07:15?", "19:15", True),
        ("clock", "07:15?", "07:15", True),
        ("clock", "07:15", "19:15", False),
        ("clock", "07:15?", "19:30", False),
        ("clock", "evening", "19:30", False),
        ("order", "#w1", "#w2", False),
        ("order", "#w1", "#w1", True),
    ],
)
def test_when_two_values_can_mean_the_same(kind: str, first: str, second: str, expected: bool) -> None:
    assert agree(kind, first, second) is expected
    assert agree(kind, second, first) is expected


def changed(tmp_path: Path, **fields: Any) -> Path:
    content = json.loads(PACKAGED.read_text()) | fields
    path = tmp_path / "lexicon.json"
    path.write_text(json.dumps({name: value for name, value in content.items() if value is not None}))
    return path


def test_another_file_has_another_digest(tmp_path: Path) -> None:
    other = load_lexicon(changed(tmp_path, version="2"))
    assert other.version == "2"
    assert other.digest != LEXICON.digest


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"stopwords": None}, "'stopwords' is missing"),
        ({"stopwords": ["a", 3]}, "'stopwords' holds something other than words"),
        ({"states": {}}, "'states' is missing or no list"),
        ({"states": [{"name": "x"}]}, "give a file built like lexicon.json"),
        ({"ids": [{"type": "x", "keys": [], "pattern": "("}]}, "give a file built like lexicon.json"),
    ],
)
def test_a_bad_file_is_refused_in_one_line(tmp_path: Path, fields: dict[str, Any], message: str) -> None:
    with pytest.raises(CalibrationError, match=message) as caught:
        load_lexicon(changed(tmp_path, **fields))
    assert "\n" not in str(caught.value)


def test_no_file_and_no_json_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CalibrationError, match="cannot be read"):
        load_lexicon(tmp_path / "none.json")
    (tmp_path / "text.json").write_text("words")
    with pytest.raises(CalibrationError, match="not JSON"):
        load_lexicon(tmp_path / "text.json")
    (tmp_path / "list.json").write_text("[]")
    with pytest.raises(CalibrationError, match="give a JSON object"):
        load_lexicon(tmp_path / "list.json")
