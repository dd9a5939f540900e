"""The pair viewer: what the page carries of every pair, and what a browser makes of it."""

import base64
import json
import zlib
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cachemend.warehouse.report import write_report
from cachemend.warehouse.report.routing.pair_data import pair_data
from cachemend.warehouse.report.routing.rows import RoutingGroup, read_routing_groups
from cachemend.warehouse.report.routing.viewer import pair_viewer

from support.browser import BROWSER, drawn
from support.html_page import Page
from support.report_pages import read
from support.routing_analysis import analyse
from support.routing_rows import CERTIFIED, TEXTS, RouteSetup, route_records, write_records

HOSTILE = "<img src=x onerror=alert(1)>"
Row = dict[str, Any]


def change(row: Row) -> Row:
    return row if row["r_cache"] is None else row | {"r_cache": f"{row['r_cache']} {HOSTILE}"}


def unpacked(packed: Iterable[str]) -> list[Row]:
    """Pairs as the page's script reads them."""
    return [json.loads(zlib.decompress(base64.b64decode(text))) for text in packed]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("pairs")
    setup = RouteSetup(pairs=30, splits=3, store_text=True, change=change)
    write_records(made, setup)
    analyse(made, setup)
    return made


@pytest.fixture(scope="module")
def group(folder: Path) -> RoutingGroup:
    [found] = read_routing_groups(folder).values()
    return found


@pytest.fixture(scope="module")
def page(folder: Path) -> Path:
    return write_report(folder)


def test_every_pair_is_carried_as_recorded(page: Path) -> None:
    rows = {row["case_id"]: row for row in route_records(RouteSetup(pairs=30, store_text=True, change=change))}
    found = unpacked(text for attrs, text in read(page).scripts if "data-pair" in attrs)
    assert len(found) == 30
    for pair in found:
        row = rows[pair["facts"].split(" ")[0]]
        assert pair["texts"] == [row[name] for name in TEXTS]
        assert pair["valid"] == row["valid"]
        assert ("reuse is valid" in pair["facts"]) == row["valid"]
        signals = dict(pair["signals"])
        assert signals["Verdict"] == row["verdict"]
        assert signals["Similarity S"] == f"{row['similarity']:.3f}"
        assert signals["Conflict H"] == ("yes" if row["h_rule"] else "no")
        assert signals["Rules fired"] == (", ".join(row["fired"]) or "none")
        told = pair["explanation"]
        other = "admin" if row["valid"] else "guest"
        assert told["cache"] == [["auth · auth · role · admin", [["context", "auth.role: admin"]]]]
        m1 = f"{1 - row['d_match']:.3f}"
        assert told["matches"] == [["auth · auth · role · admin", f"auth · auth · role · {other}", m1, "0.125"]]
        assert told["fired"] == ([["rule", "changed value", "admin", "guest"]] if row["h_rule"] else [])


def test_decisions_are_recounts_of_the_exposures(folder: Path, group: RoutingGroup) -> None:
    rows = [r for r in analyse(folder, RouteSetup(pairs=30, splits=3))["route_exposures"] if r["method"] == "safecache"]
    assert {decision.setting for decision in group.decisions} == {row["setting"] for row in rows}
    assert CERTIFIED in {row["setting"] for row in rows}
    for found in group.decisions:
        mine = [r for r in rows if (r["case_digest"], r["setting"]) == (found.case_digest, found.setting)]
        actions = [row["action"] for row in mine]
        assert (found.n, found.accepted) == (len(mine), sum(row["accepted"] for row in mine))
        assert [found.reuse, found.verify, found.regenerate] == [
            actions.count(a) for a in ("reuse", "verify", "regenerate")
        ]
    assert sum(found.n for found in group.decisions) == len(rows)


def test_pairs_that_went_wrong_come_first(group: RoutingGroup) -> None:
    viewer = pair_viewer(group.rows, group.decisions, 10**9)
    returned = {d.case_digest for d in group.decisions if d.accepted}
    seen = {d.case_digest for d in group.decisions}
    kinds = {
        "invalid, returned by SafeCache": [r.case_id for r in group.rows if not r.valid and r.case_digest in returned],
        "valid, never returned by SafeCache": [
            r.case_id for r in group.rows if r.valid and r.case_digest in seen - returned
        ],
    }
    found = [(kind, [pair.label.partition(":")[0] for pair in pairs]) for kind, pairs in viewer.sections]
    wanted = [(kind, sorted(names)) for kind, names in kinds.items() if names]
    assert kinds["invalid, returned by SafeCache"]
    assert found[: len(wanted)] == wanted
    assert [pair.number for pair in viewer.pairs] == list(range(30))


def test_pairs_without_room_are_counted(group: RoutingGroup) -> None:
    every = pair_viewer(group.rows, group.decisions, 10**9)
    some = pair_viewer(group.rows, group.decisions, sum(len(pair.data) for pair in every.pairs[:4]))
    assert some.pairs == every.pairs[:4]
    assert "26 further pairs left out to keep this page small" in " ".join(some.notes)
    assert "left out" not in " ".join(every.notes)


def test_the_page_says_how_texts_are_stored(tmp_path: Path, group: RoutingGroup) -> None:
    write_records(tmp_path, RouteSetup(pairs=6))
    [bare] = read_routing_groups(tmp_path).values()
    viewer = pair_viewer(bare.rows, bare.decisions, 10**9)
    told = " ".join(viewer.notes)
    assert "6 pairs without texts and explanation" in told
    assert "--set store_text=true" in told
    assert "holds the texts" not in told
    for pair in unpacked(pair.data for pair in viewer.pairs):
        assert pair["texts"] is None
        assert pair["explanation"] is None
        assert pair["decisions"] == []
    assert pair_viewer(group.rows, group.decisions, 10**9).notes == [
        "This page holds the texts of its pairs: mind that before you pass it on."
    ]


@pytest.mark.parametrize("text", ["{}", "[]", '{"cache": 3}', '{"cache": [{"condition": null, "origins": []}]}', "7"])
def test_an_explanation_of_another_form_is_left_out(group: RoutingGroup, text: str) -> None:
    assert pair_data(replace(group.rows[0], explanation=text), [])["explanation"] is None


@pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine")
def test_a_browser_shows_why_a_pair_was_decided_so(page: Path, group: RoutingGroup, tmp_path: Path) -> None:
    step = "setTimeout(() => document.querySelector('[data-step=\"1\"]').click(), 500)"
    html = drawn(page, tmp_path / "profile", step, '<h3 id="r0-failures"')
    shown = Page(html)
    pair = unpacked(text for attrs, text in shown.scripts if "data-pair" in attrs)[1]
    assert pair["facts"] in shown.text
    assert HOSTILE in shown.text
    assert not any(tag == "img" for tag, _ in shown.tags)
    decisions = shown.captioned("What SafeCache decided")
    assert [row[1:] for row in decisions.rows[1:]] == [[str(n) for n in row[1:]] for row in pair["decisions"]]
    fired = pair["explanation"]["fired"] or [["none", "", "", ""]]
    assert shown.captioned("Rules that fired").rows[1:] == fired
    conditions = shown.captioned("Conditions of the cached answer")
    [[condition, best, m1, m2]] = pair["explanation"]["matches"]
    assert conditions.rows[1] == [condition, best, m1, m2, "context: “auth.role: admin”"]
    assert {tag for tag, attrs in shown.tags if "hidden" in attrs} == {"p"}
