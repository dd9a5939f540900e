"""The case viewer: what the page carries of every case, and what a browser makes of it."""

import base64
import itertools
import json
import zlib
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cachemend.repair_core.arms import sweep_arms
from cachemend.warehouse.report import write_report
from cachemend.warehouse.report.case_data import case_data
from cachemend.warehouse.report.rows import read_groups
from cachemend.warehouse.report.texts import CaseText, Texts
from cachemend.warehouse.report.viewer import Viewer, viewer

from support.browser import BROWSER, drawn, under_line
from support.case_texts import DELETED, GOLD, QUERY, case_file_entry, tokens, write_case_rows, write_cohort_file
from support.html_page import Page
from support.parts_count import read_rows
from support.report_pages import read
from support.report_rows import Setup, cases, failed, record, write_results

ARMS = sweep_arms(("sur", "dense-tokens", "random-units"), (5.0, 20.0))
COHORT = "cohort-embedded"
HOSTILE = "<img src=x onerror=alert(1)>\n</script>"


def spoiled(row: dict[str, Any]) -> dict[str, Any]:
    if row["arm"] == "random-units@5":
        return failed(row, "out_of_memory", f"no room {HOSTILE}")
    return row | {"answer": f"{row['answer']} {HOSTILE} 🙂"}


def write(folder: Path, texts: str | None) -> list[dict[str, Any]]:
    """Write eight cases; their texts go to the table, to the cohort file, or nowhere."""
    setup = Setup(arms=ARMS, cases=cases(6, 2), change=spoiled)
    write_results(folder, setup)
    rows = [record(setup, case, ARMS[0]) for case in setup.cases]
    write_case_rows(folder, COHORT, rows, store_text=texts == "table")
    if texts == "file":
        entries = [case_file_entry(case.case_id, case.length - 4, case.seed) for case in setup.cases]
        write_cohort_file(folder, COHORT, entries)
    return read_rows(folder)


def unpacked(packed: Iterable[str]) -> list[dict[str, Any]]:
    """Cases as the page's script reads them."""
    return [json.loads(zlib.decompress(base64.b64decode(text))) for text in packed]


def carried(page: Page) -> list[dict[str, Any]]:
    """Every case the page carries."""
    return unpacked(text for attrs, text in page.scripts if "data-case" in attrs)


def prepared(folder: Path, room: int = 10**9) -> list[Viewer]:
    """The viewer of every group of a folder."""
    texts = Texts(folder)
    return [viewer(identity, rows, texts, room) for identity, rows in read_groups(folder).items()]


def methods(page: Page) -> list[dict[str, Any]]:
    [text] = [text for attrs, text in page.scripts if "data-methods" in attrs]
    found: list[dict[str, Any]] = json.loads(text)
    return found


def test_every_record_is_carried_as_recorded(tmp_path: Path) -> None:
    rows = write(tmp_path, "table")
    page = read(write_report(tmp_path))
    labels = [method["label"] for method in methods(page)]
    assert labels == ["Dirty", "Shift", "Replay", "Re-prefill", "SUR", "Dense tokens", "Random units"]
    found = carried(page)
    assert len(found) == 8
    assert len(rows) == sum(len(case["arms"]) for case in found)
    names = ["dirty", "shift", "replay", "re-prefill", "sur", "dense-tokens", "random-units"]
    for case in found:
        for arm in case["arms"]:
            [row] = [
                r
                for r in rows
                if (r["case_id"], r["allocator"], r["budget"]) == (case["id"], names[arm["method"]], arm["budget"])
            ]
            assert (arm["outcome"], arm["em"]) == (row["outcome"], row["em"])
            assert arm["answer"] == (row["answer"] if row["outcome"] == "ok" else row["error"])
            for short, name in (("nll", "gold_nll"), ("tv", "tv_to_clean"), ("leakage", "leakage")):
                assert arm[short] == (None if row[name] is None else pytest.approx(row[name], abs=1e-4))
            positions = [s + i for s, n in zip(arm["runs"][::2], arm["runs"][1::2], strict=True) for i in range(n)]
            whole = {"replay": range(row["prefix_length"], row["n_tokens"]), "re-prefill": range(row["n_tokens"])}
            assert positions == list(whole.get(row["allocator"], row["positions"]))


def test_texts_and_token_places(tmp_path: Path) -> None:
    write(tmp_path, "table")
    [found] = prepared(tmp_path)
    for case, chosen in zip(unpacked(case.data for case in found.cases), found.cases, strict=True):
        right = sum(arm["em"] == 1 for arm in case["arms"])
        assert chosen.label == f"{case['id']}: {right} of 10 arms right"
        wanted = tokens(case["tokens"], int(case["id"].rsplit("-", 1)[-1]))
        assert case["text"] == "".join(wanted)
        assert case["widths"] == [len(token) for token in wanted]
        assert (case["deleted"], case["query"], case["gold"]) == (DELETED, QUERY, [GOLD])
        assert [case["text"][start:stop] for start, stop in case["marks"]] == [GOLD]
        [(first, stop)] = case["goldTokens"]
        assert wanted[first:stop] == [f" {GOLD}"]


def test_gold_tokens_are_those_that_hold_a_character_of_the_value(tmp_path: Path) -> None:
    """Every way to cut a short text into tokens, so that some end or begin just where the value does."""
    text, gold, empty = "at 41.", "41", 3
    write_results(tmp_path, Setup(arms=ARMS[:1], cases=cases(1)))
    [[row]] = read_groups(tmp_path).values()
    for cuts in itertools.product((False, True), repeat=len(text) - 1):
        inner = [at for at, cut in enumerate(cuts, start=1) if cut]
        for stops in ([*inner, len(text)], sorted([*inner, empty, empty, len(text)])):
            owner = [token for token, (a, b) in enumerate(itertools.pairwise([0, *stops])) for _ in range(a, b)]
            begin = text.index(gold)
            holding = owner[begin : begin + len(gold)]
            known = replace(row, gold=[gold], n_tokens=len(stops))
            found = case_data([known], CaseText(context=text, stops=stops), {row.allocator: 0})
            assert found["goldTokens"] == [(min(holding), max(holding) + 1)], stops


def test_strata_and_lengths_order_the_cases(tmp_path: Path) -> None:
    write(tmp_path, None)
    [found] = prepared(tmp_path)
    shown = [(case.stratum, case.label) for case in found.cases]
    assert shown == sorted(shown)
    assert [case.number for case in found.cases] == list(range(8))
    assert found.budgets == [5.0, 20.0]


@pytest.mark.parametrize(
    ("texts", "sentence"),
    [
        ("table", "Texts come from the table cases, where a run stored them."),
        ("file", f"Texts come from cohorts/{COHORT}.json in the results folder; no run stored them"),
        (None, "8 cases without a text in the table cases or in a readable cohort file"),
    ],
)
def test_the_page_says_where_texts_come_from(tmp_path: Path, texts: str | None, sentence: str) -> None:
    write(tmp_path, texts)
    [found] = prepared(tmp_path)
    assert sentence in " ".join(found.notes)
    for case in unpacked(case.data for case in found.cases):
        assert (case["text"] is None) == (texts is None)
        assert (case["widths"] is None) == (texts is None)


@pytest.mark.parametrize("damage", ["changed", "not JSON", "a list", "a folder"])
def test_a_cohort_file_that_does_not_hold_these_cases_is_not_shown(tmp_path: Path, damage: str) -> None:
    write(tmp_path, "file")
    path = tmp_path / "cohorts" / f"{COHORT}.json"
    text = path.read_text(encoding="utf-8")
    path.unlink()
    if damage == "a folder":
        path.mkdir()
    else:
        path.write_text({"changed": text.replace("opens", "shuts"), "not JSON": text[:-9], "a list": "[1]"}[damage])
    [found] = prepared(tmp_path)
    assert {case["text"] for case in unpacked(case.data for case in found.cases)} == {None}


def test_a_cohort_name_leads_nowhere_else(tmp_path: Path) -> None:
    rows = write(tmp_path, None)
    entry = case_file_entry(rows[0]["case_id"], rows[0]["n_tokens"], rows[0]["seed"])
    write_cohort_file(tmp_path, "here", [entry]).rename(tmp_path / "outside.json")
    digest = rows[0]["case_digest"]
    assert Texts(tmp_path).of("erasing-niah", "../outside", digest).context is None
    write_cohort_file(tmp_path, "here", [entry])
    assert Texts(tmp_path).of("erasing-niah", "here", digest).context == entry["context_text"]


def test_cases_without_room_are_counted(tmp_path: Path) -> None:
    write(tmp_path, "table")
    [every] = prepared(tmp_path)
    [some] = prepared(tmp_path, room=sum(len(case.data) for case in every.cases[:3]))
    assert some.cases == every.cases[:3]
    assert "5 further cases left out" in " ".join(some.notes)
    assert "left out" not in " ".join(every.notes)


def test_the_complete_sweep_of_several_models_stays_small(tmp_path: Path) -> None:
    """88 arms; per case and model a page grows by what a case of 896 tokens weighs here: 120 cases stay below 2 MB."""
    names = ("sur", "dense-tokens", "max-relevance-window", "bm25-units", "random-units", "prophetkv", "infoflow")
    names += ("cache-craft", "cacheblend", "a3", "legolink", "cachetune", "speccache", "clean-state-oracle")
    arms = sweep_arms(names, (2.0, 5.0, 10.0, 20.0, 40.0, 80.0))
    assert len(arms) == 88
    for model in ("one", "two"):
        setup = Setup(model=model, run_id=model, arms=arms, cases=cases(2, lengths=(900,)))
        write_results(tmp_path, setup)
    write_case_rows(tmp_path, COHORT, [record(setup, case, arms[0]) for case in setup.cases], store_text=True)
    sizes = [len(case.data) for found in prepared(tmp_path) for case in found.cases]
    assert len(sizes) == 4
    assert max(sizes) < 2_000_000 / 120


@pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine")
def test_a_browser_shows_answers_and_positions_in_the_text(tmp_path: Path) -> None:
    rows = write(tmp_path / "results", "file")
    report = write_report(tmp_path / "results")
    step = "setTimeout(() => document.querySelector('[data-step=\"1\"]').click(), 500)"
    html = drawn(report, tmp_path / "profile", step, "<h3>All arms in numbers")
    page = Page(html)
    case = carried(page)[1]
    mine = {row["arm"]: row for row in rows if row["case_id"] == case["id"]}
    table = page.captioned("Recomputed positions")
    assert [row[0] for row in table.rows[1:]] == [method["label"] for method in methods(page)]
    assert table.row("Random units")[2] == "out_of_memory"
    assert table.row("SUR")[2] == ("right" if mine["sur@5"]["em"] else "wrong")
    assert table.row("SUR")[3] == f"{mine['sur@5']['gold_nll']:.3f}"
    assert "<img src=x onerror=alert(1)>" in table.row("SUR")[-1]
    assert not any(tag == "img" for tag, _ in page.tags)
    # The text with the deletion at its place, and each allocator's tokens under its own line.
    wanted = tokens(case["tokens"], mine["sur@5"]["seed"])
    before, after = "".join(wanted[: case["prefix"]]), "".join(wanted[case["prefix"] :])
    assert " ".join(f"{before}deleted: {DELETED}{after}".split()) in page.text
    for slot, arm in enumerate(("sur@5", "dense-tokens@5")):
        assert under_line(html, slot) == "".join(wanted[at] for at in mine[arm]["positions"])
    assert under_line(html, 2) == ""
