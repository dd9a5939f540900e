"""The item viewer: what the page carries of every item, and what a browser makes of it."""

import base64
import json
import zlib
from pathlib import Path
from typing import Any

import pytest

from cachemend.warehouse.report import write_report

from support.browser import BROWSER, drawn, under_line
from support.edit_analysis import analyse
from support.edit_rows import CARRIER, SPAN, EditSetup, failed, tokens, write_edit_results
from support.html_page import Page
from support.report_pages import read

HOSTILE = "<img src=x onerror=alert(1)>"


def spoiled(row: dict[str, Any]) -> dict[str, Any]:
    if row["arm"] == "random@32":
        return failed(row, "out_of_memory", f"no room {HOSTILE}")
    return row | {"answer": f"{row['answer']} {HOSTILE}"}


def write(folder: Path, store_text: bool = True) -> list[dict[str, Any]]:
    setup = EditSetup(items=3, ks=(8, 32), forms=(("derived", 0), ("direct", 0)), n_tokens=900, change=spoiled)
    rows = write_edit_results(folder, setup, store_text)
    analyse(folder, rows)
    return rows


def carried(page: Page) -> list[dict[str, Any]]:
    packed = (text for attrs, text in page.scripts if "data-case" in attrs)
    return [json.loads(zlib.decompress(base64.b64decode(text))) for text in packed]


def test_every_item_is_carried_as_recorded(tmp_path: Path) -> None:
    rows = write(tmp_path)
    page = read(write_report(tmp_path))
    found = carried(page)
    assert len(found) == 6
    [text] = [text for attrs, text in page.scripts if "data-methods" in attrs]
    labels = [method["label"] for method in json.loads(text)]
    names = {"Edit-local": "edit-local", "Attention": "attention", "Random": "random", "Causal oracle": "causal-oracle"}
    for case in found:
        mine = {(r["policy"], r["k"]): r for r in rows if r["case_id"] == case["id"] and r["operator"] != "transplant"}
        assert len(case["arms"]) == len(mine)
        for arm in case["arms"]:
            label = labels[arm["method"]]
            if label not in names:
                continue
            row = mine[names[label], arm["budget"]]
            at = [p for i in range(0, len(arm["runs"]), 2) for p in range(arm["runs"][i], sum(arm["runs"][i : i + 2]))]
            assert at == (row["positions"] or [])
            assert (arm["outcome"], arm["answer"]) == (row["outcome"], row["answer"] or row["error"])
            if row["outcome"] == "ok":
                assert arm["measures"][0] == pytest.approx(row["margin_recovery"], abs=1e-4)
                assert arm["em"] == float(row["flip"])
        item = int(case["id"].split("-")[2])
        wanted = tokens(900, item)
        assert case["text"] == "".join(wanted)
        assert (case["prefix"], tuple(case["span"])) == (SPAN[0], SPAN)
        [(start, stop)] = case["marks"]
        assert case["text"][start:stop] == "".join(wanted[CARRIER[0] : CARRIER[1]])
        assert "Answer before the edit: Ostrel; after it: Vantor." in case["facts"]


def test_items_that_are_not_retained_and_texts_that_are_not_stored(tmp_path: Path) -> None:
    write(tmp_path, store_text=False)
    page = read(write_report(tmp_path))
    assert "held-out-000-derived-0: not retained" in page.text
    assert "6 cases without a text in the table edit_cases or in a readable cohort file" in page.text
    assert {case["text"] for case in carried(page)} == {None}


@pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine")
def test_a_browser_shows_the_span_and_the_chosen_positions(tmp_path: Path) -> None:
    rows = write(tmp_path / "results")
    html = drawn(write_report(tmp_path / "results"), tmp_path / "profile", "", '<h3 id="e0-failures"')
    page = Page(html)
    case = carried(page)[0]
    mine = {row["arm"]: row for row in rows if row["case_id"] == case["id"]}
    table = page.captioned("Positions recomputed besides the edit span")
    assert table.row("Random")[2] == "out_of_memory"
    local = table.row("Edit-local")
    assert local[1:4] == ["1", "new answer", f"{mine['edit-local@32']['margin_recovery']:.3f}"]
    assert HOSTILE in local[-1]
    assert not any(tag == "img" for tag, _ in page.tags)
    wanted = tokens(900, int(case["id"].split("-")[2]))
    before, span = "".join(wanted[: SPAN[0]]), "".join(wanted[SPAN[0] : SPAN[1]])
    assert " ".join(f"{before}replaced: Mirano.{span}".split()).replace(": ", ":") in page.text.replace(": ", ":")
    assert f'<span class="edited">{span}</span>' in html
    for slot, arm in enumerate(("edit-local@32", "attention@32")):
        assert under_line(html, slot) == "".join(wanted[at] for at in mine[arm]["positions"])
