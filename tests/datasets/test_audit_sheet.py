"""Sheets for people: nothing in them tells a label, no cell runs, and verdicts come back to their pairs."""

import csv
import os
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cachemend.calibration.candidate import Candidate
from cachemend.datasets.audit_sheet import (
    read_label_sheet,
    row_id,
    score_audit,
    write_audit_sheet,
    write_label_sheet,
)
from cachemend.datasets.pair_log import LogRow
from cachemend.datasets.pairs_seed import build_seed
from cachemend.datasets.sheet_file import cell, text_of, write_sheet
from cachemend.repair_core.errors import InputError

SEEDS = build_seed().pairs
# Sources of 200, 110 and 50 pairs: of 120 rows they get 66.7, 36.7 and 16.7, so largest remainders give 67, 37 and 16.
PAIRS = tuple(
    replace(pair, source="a" if place < 200 else "b" if place < 310 else "c") for place, pair in enumerate(SEEDS)
)


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file))


def fill(path: Path, verdicts: dict[str, str]) -> Path:
    """Write verdicts into a sheet as a spreadsheet program would save it: plain line ends in cells, CRLF after rows."""
    rows = [{**row, "verdict": verdicts.get(row["row"], row["verdict"])} for row in rows_of(path)]
    with path.open("w", encoding="utf-8-sig", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def labels() -> dict[str, str]:
    return {row_id(pair.pair_id, pair.candidate): str(pair.label) for pair in PAIRS}


def test_the_sheet_is_stratified_and_blind(tmp_path: Path) -> None:
    rows = rows_of(write_audit_sheet(PAIRS, tmp_path / "audit.csv"))
    assert list(rows[0]) == ["row", "q_cache", "context_cache", "r_cache", "q_probe", "context_probe", "verdict"]
    by_row = {row_id(pair.pair_id, pair.candidate): pair for pair in PAIRS}
    assert Counter(by_row[row["row"]].source for row in rows) == {"a": 67, "b": 37, "c": 16}
    assert len({row["row"] for row in rows}) == 120
    assert {row["verdict"] for row in rows} == {""}
    assert all(text_of(row["r_cache"]) == by_row[row["row"]].r_cache for row in rows)
    assert all(row["row"][0] == "p" and row["row"].isalnum() for row in rows)


def test_labels_families_clusters_and_rules_change_nothing_in_it(tmp_path: Path) -> None:
    other = [replace(pair, label=1 - pair.label, family="", cluster="x", rule="y") for pair in PAIRS]
    one, two = write_audit_sheet(PAIRS, tmp_path / "1.csv"), write_audit_sheet(other, tmp_path / "2.csv")
    assert one.read_bytes() == two.read_bytes()
    assert one.read_bytes() == write_audit_sheet(PAIRS[::-1], tmp_path / "3.csv").read_bytes()
    assert one.read_bytes() != write_audit_sheet(PAIRS, tmp_path / "4.csv", seed=1).read_bytes()


def test_sources_and_labels_are_spread_over_the_sheet(tmp_path: Path) -> None:
    truth = labels()
    rows = rows_of(write_audit_sheet(PAIRS, tmp_path / "audit.csv"))
    half = [truth[row["row"]] for row in rows[:60]]
    assert 18 <= half.count("1") <= 42
    assert [row["row"] for row in rows] != sorted(row["row"] for row in rows)


def test_agreement_counts_and_names(tmp_path: Path) -> None:
    path = write_audit_sheet(PAIRS, tmp_path / "audit.csv")
    truth, wrong = labels(), rows_of(path)[7]["row"]
    fill(path, {**truth, wrong: str(1 - int(truth[wrong]))})
    found = score_audit(path, PAIRS)
    (pair,) = [pair for pair in PAIRS if row_id(pair.pair_id, pair.candidate) == wrong]
    assert found.rate == pytest.approx(119 / 120)
    assert found == (120, 119, (pair.pair_id,))


def test_unfilled_unknown_repeated_and_odd_rows_are_named(tmp_path: Path) -> None:
    path = write_audit_sheet(PAIRS, tmp_path / "audit.csv", n=9)
    names = [row["row"] for row in rows_of(path)]
    with pytest.raises(InputError, match=f"9 rows have no verdict: {', '.join(names[:5])} and 4 more$"):
        score_audit(path, PAIRS)
    fill(path, {**labels(), names[3]: " "})
    with pytest.raises(InputError, match=f"1 rows have no verdict: {names[3]}$"):
        score_audit(path, PAIRS)
    fill(path, {names[3]: "maybe"})
    with pytest.raises(InputError, match=f"1 rows have a verdict other than 0 and 1: {names[3]}$"):
        score_audit(path, PAIRS)
    fill(path, labels())
    rest = [pair for pair in PAIRS if row_id(pair.pair_id, pair.candidate) != names[2]]
    with pytest.raises(InputError, match=f"1 rows are not of these pairs: {names[2]}$"):
        score_audit(path, rest)
    path.write_bytes(path.read_bytes() + path.read_bytes().split(b"\r\n", 1)[1])
    with pytest.raises(InputError, match="9 rows are there twice"):
        score_audit(path, PAIRS)


def test_what_is_no_sheet(tmp_path: Path) -> None:
    (tmp_path / "other.csv").write_text("row,answer\np1,1\n", encoding="utf-8")
    with pytest.raises(InputError, match="column 'verdict' is missing; there are: row, answer"):
        score_audit(tmp_path / "other.csv", PAIRS)
    with pytest.raises(InputError, match="is not there"):
        score_audit(tmp_path / "none.csv", PAIRS)


def test_bad_samples(tmp_path: Path) -> None:
    for n in (0, 361):
        with pytest.raises(InputError, match=f"audit of {n} pairs: give a number from 1 to 360"):
            write_audit_sheet(PAIRS, tmp_path / "audit.csv", n=n)
    with pytest.raises(InputError, match=f"pair '{PAIRS[0].pair_id}' is there twice"):
        write_audit_sheet([*PAIRS, replace(PAIRS[0], rule="again")], tmp_path / "audit.csv")
    assert not list(tmp_path.iterdir())


LOG = [LogRow(pair.pair_id, pair.cluster, pair.candidate) for pair in PAIRS[:40]]
SCORES = np.linspace(-0.2, 0.95, 40)


def test_a_label_sheet_is_ordered_and_comes_back(tmp_path: Path) -> None:
    path = write_label_sheet(LOG, SCORES, tmp_path / "label.csv")
    rows = rows_of(path)
    assert [float(row["score"]) for row in rows] == sorted((round(score, 4) for score in SCORES), reverse=True)
    assert "label" not in rows[0]
    truth = labels()
    fill(path, {row["row"]: truth[row["row"]] for row in rows[:25]})
    pairs = read_label_sheet(path, LOG)
    assert [(pair.pair_id, pair.cluster, pair.candidate) for pair in pairs] == LOG[15:]
    assert [pair.label for pair in pairs] == [pair.label for pair in PAIRS[15:40]]
    assert {(pair.pool, pair.family) for pair in pairs} == {("log", "")}


def test_label_sheets_with_nothing_to_learn(tmp_path: Path) -> None:
    path = write_label_sheet(LOG, SCORES, tmp_path / "label.csv")
    with pytest.raises(InputError, match="no row has a verdict"):
        read_label_sheet(path, LOG)
    fill(path, {row["row"]: "0" for row in rows_of(path)})
    with pytest.raises(InputError, match="all labels are 0"):
        read_label_sheet(path, LOG)
    with pytest.raises(InputError, match="rows are not of these pairs"):
        read_label_sheet(path, LOG[1:])
    with pytest.raises(InputError, match="no rows without a label"):
        write_label_sheet([], [], path)
    for scores in (SCORES[1:], np.full(40, np.nan)):
        with pytest.raises(ValueError, match="one finite number"):
            write_label_sheet(LOG, scores, path)


@settings(max_examples=200, deadline=None)
@given(st.text())
def test_no_cell_is_a_formula_and_each_reads_back(text: str) -> None:
    assert text_of(cell(text)) == text
    assert cell(text).lstrip()[:1] not in set("=+-@＝＋－＠")
    assert cell(text)[:1] not in set("\t\r\n")


def test_formulas_and_only_they_are_marked() -> None:
    for text in ("=1+1", "+49 30", "-5", "@SUM(A1)", "  =HYPERLINK(1)", "\t=1", "\r=1", "＝1", "'quoted'"):
        assert cell(text) == "'" + text
    for text in ("", "a=1", "key: -5", "   ", "it's"):
        assert cell(text) == text


@settings(max_examples=60, deadline=None)
@given(texts=st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=5, max_size=5))
def test_texts_read_back_from_the_file(texts: list[str], tmp_path_factory: pytest.TempPathFactory) -> None:
    candidate = Candidate(
        q_cache=texts[0], r_cache=texts[1], context_cache=texts[2], q_probe=texts[3], context_probe=texts[4]
    )
    path = write_label_sheet([LogRow("1", "c", candidate)], [0.5], tmp_path_factory.mktemp("sheet") / "s.csv")
    (row,) = rows_of(path)
    names = ("q_cache", "r_cache", "context_cache", "q_probe", "context_probe")
    assert [text_of(row[name]) for name in names] == texts


def test_writing_is_all_or_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_sheet(tmp_path / "new" / "sheet.csv", ("row",), [("p1",)])
    before = path.read_bytes()
    with pytest.raises(InputError, match="row p2: a text holds half of a surrogate pair"):
        write_sheet(path, ("row", "text"), [("p2", "\ud83d")])

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InputError, match=r"cannot be written \(No space left on device\); give a writable file"):
        write_sheet(path, ("row",), [("p3",)])
    assert path.read_bytes() == before
    assert [file.name for file in path.parent.iterdir()] == ["sheet.csv"]


def test_a_place_that_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    with pytest.raises(InputError, match="cannot be written"):
        write_sheet(tmp_path / "taken" / "sheet.csv", ("row",), [("p1",)])
    with pytest.raises(InputError, match="cannot be written"):
        write_sheet(tmp_path, ("row",), [("p1",)])
