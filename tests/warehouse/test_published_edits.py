"""The edit paper's figures: each stands in the section it is said to stand in, and joins to what is measured."""

import csv
import re
from functools import cache
from importlib.resources import files
from pathlib import Path

import pytest

from cachemend.warehouse.published_edits import published_edits
from cachemend.warehouse.report.edits.names import _LABELS, DIAGNOSTICS, REFERENCES

PAPER = Path(__file__).resolve().parents[2] / "../shared/papers/contiguity-edit-repair.txt"
WORDS = {"1": ("more than one of",), "3e-9": ("3×10−9",)}
LINES = list(csv.DictReader(files("cachemend.warehouse").joinpath("published_edits.csv").read_text().splitlines()))


@cache
def section(heading: str) -> str:
    """The text under a heading down to the next of the same or a higher level, without escapes and emphasis."""
    text = PAPER.read_text(encoding="utf-8").replace("\\", "").replace("{", "").replace("}", "")
    start = re.search(rf"(#+) {re.escape(heading)}$", text, re.MULTILINE)  # a caption may stand before it on its line
    assert start, heading
    stop = re.search(rf"(?<!#)#{{1,{len(start[1])}}} ", text[start.end() :])
    return text[start.end() :][: stop.start() if stop else None]


def stands(number: str, text: str) -> bool:
    """Whether the extraction's doubled form of a number ("0.9930.993", "13–21×" as "1313–21×21") is in a text."""
    shown = re.escape(number)
    doubled = rf"(?<![\d.]){shown}[%×+]?<?{shown}(?!\d|\.\d)"
    listed = any(number in found.split("/") for found in re.findall(r"\d+(?:/\d+)+", text))  # n per distance
    return bool(re.search(doubled, text)) or listed or bool(re.search(rf"={shown}(?!\d|\.\d)", text))


@pytest.mark.skipif(not PAPER.exists(), reason="the edit paper's text is not here")
@pytest.mark.parametrize("line", LINES, ids=lambda line: f"{line['place']}-{line['policy']}-{line['metric']}")
def test_each_figure_stands_in_its_section(line: dict[str, str]) -> None:
    numbers = [line[name] for name in ("value", "low", "high") if line[name]]
    assert numbers
    text = section(line["place"])
    for number in numbers:
        words = WORDS.get(number, ())
        assert stands(number, text) or any(word in text for word in words), number


def test_figures_are_single_and_name_known_policies() -> None:
    rows = published_edits()
    keys = [(r.place, r.model, r.split, r.condition, r.distance, r.arm, r.length, r.metric, r.n) for r in rows]
    assert len(keys) == len(set(keys))
    for row in rows:
        assert row.policy in _LABELS or row.policy in ("rivals", "other rules", "all")
        assert (row.value is not None) != (
            row.low is not None or row.high is not None
        ) or row.metric == "median_positions"
        assert row.low is None or row.high is None or row.low < row.high
        assert (row.k is None) or row.policy not in REFERENCES
    assert {row.table for row in rows} == {2, 3, 4, None}


def test_every_policy_has_a_name_here() -> None:
    from cachemend.repair_core.policies import DIAGNOSTICS as diagnostics
    from cachemend.repair_core.policies import POLICIES as policies

    assert set(policies) | set(diagnostics) <= set(_LABELS)
    assert set(DIAGNOSTICS) == set(diagnostics)
