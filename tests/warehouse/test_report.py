import re
from pathlib import Path
from typing import Any

import pytest

from cachemend.calibration import bootstrap_mean
from cachemend.repair_core.arms import REFERENCES, sweep_arms
from cachemend.warehouse import store
from cachemend.warehouse.report import write_report

from oracles.stats import holm, mcnemar_exact_p
from support.html_page import Page
from support.report_pages import FEW, figure, raw_rows, read, small, spoiled_results
from support.report_rows import ARMS, BUDGETS, Setup, cases, failed, write_results

LABELS = {
    "dirty": "Dirty",
    "shift": "Shift",
    "replay": "Replay",
    "re-prefill": "Re-prefill",
    "sur": "SUR",
    "dense-tokens": "Dense tokens",
    "max-relevance-window": "Max-relevance window",
    "bm25-units": "BM25 units",
    "random-units": "Random units",
}
MEASURED = "Measured: smollm2-135m, exact match in %, .* first-deleted"


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return spoiled_results(tmp_path_factory.mktemp("results"))


@pytest.fixture(scope="module")
def page(results: Path) -> Page:
    return read(write_report(results))


def test_sweep_equals_an_independent_recount(results: Path, page: Page) -> None:
    table = page.captioned(MEASURED)
    assert "24 of 96 first-deleted cases" in table.caption
    assert table.rows[0] == ["Method", "Reference", "2 %", "5 %", "10 %", "20 %"]
    rows = [row for row in raw_rows(results) if row["stratum"] == "first-deleted"]
    for allocator, label in LABELS.items():
        shown = table.row(label)
        wanted_columns = [None] if allocator in REFERENCES else list(BUDGETS)
        for budget, text in zip([None, *BUDGETS], shown, strict=True):
            mine = [row for row in rows if (row["allocator"], row["budget"]) == (allocator, budget)]
            if budget not in wanted_columns:
                assert text == "–"
                continue
            right = sum(row["em"] == 1.0 for row in mine)
            band = bootstrap_mean([100 * (r["em"] == 1.0) for r in sorted(mine, key=lambda r: r["case_digest"])])
            wanted = f"{100 * right / len(mine):.1f} {right}/{len(mine)} {band.low:.1f}–{band.high:.1f}"
            assert text == wanted or text.startswith(f"{wanted} "), (label, budget)


def test_sweep_agrees_with_the_view(results: Path, page: Page) -> None:
    view = store.query(results, "SELECT * FROM niah_sweep WHERE stratum = 'first-deleted'").to_pylist()
    assert len(view) == len(ARMS)
    table = page.captioned(MEASURED)
    for row in view:
        column = 0 if row["budget"] is None else 1 + BUDGETS.index(row["budget"])
        text = table.row(LABELS[row["allocator"]])[column]
        assert text.startswith(f"{row['em_percent']:.1f} {row['n_correct']}/{row['n']}")
        assert (f"{row['n']} of {row['n_of']}" in text) == (row["n"] != row["n_of"])
        assert (f"{row['n_failed']} failed" in text) == (row["n_failed"] > 0)


def test_best_is_marked_per_budget_and_never_the_oracle_or_an_incomplete_arm(tmp_path: Path) -> None:
    arms = sweep_arms(("sur", "dense-tokens", "bm25-units", "clean-state-oracle"), (5.0,))
    right = {"sur": 3, "dense-tokens": 4, "bm25-units": 5, "clean-state-oracle": 6}

    def scored(row: dict[str, Any]) -> dict[str, Any] | None:
        row["em"] = float(row["seed"] < right.get(row["allocator"], 6))
        return None if row["allocator"] == "bm25-units" and row["seed"] == 5 else row

    write_results(tmp_path, Setup(cases=cases(6), arms=arms, change=scored))
    html = write_report(tmp_path).read_text(encoding="utf-8")
    measured = html[html.index("Measured:") : html.index("Under each score")]
    assert re.findall(r'class="best">([\d.]+)<', measured) == ["66.7"]
    assert "5 of 6" in measured


def test_control_stratum_stands_apart(results: Path, page: Page) -> None:
    control = [t for t in page.tables if t.caption.endswith("second-deleted cases")]
    assert len(control) == 1
    rows = [r for r in raw_rows(results) if r["stratum"] == "second-deleted" and r["arm"] == "sur@5"]
    assert f" {int(sum(r['em'] for r in rows))}/{len(rows)} " in control[0].row("SUR")[2]
    shown = sum(int(row[3].split("/")[-1].split()[0]) for row in page.captioned(MEASURED).rows[1:] if row[3] != "–")
    assert shown == 24 * 5


def test_opening_is_made_from_the_rows(results: Path, page: Page) -> None:
    counts = {}
    for arm in ("re-prefill", "shift", "sur@5", "dense-tokens@5"):
        rows = [r for r in raw_rows(results) if r["stratum"] == "first-deleted" and r["arm"] == arm]
        counts[arm] = {r["case_digest"]: r["em"] for r in rows}
        assert f"{int(sum(counts[arm].values()))} of 24 exactly" in page.text
    a, b = counts["sur@5"], counts["dense-tokens@5"]
    gained = sum(a[case] > b[case] for case in a)
    lost = sum(a[case] < b[case] for case in a)
    assert f"{100 * (gained - lost) / 24:+.1f} points".replace("-", "−") in page.text
    assert f"p = {mcnemar_exact_p(gained, lost):.3f}" in page.text
    assert "24 of 96 first-deleted cases and 6 of 24 second-deleted cases" in page.text
    assert "recorded 2026-03-04" in page.text
    assert "Engine version 1" in page.text


def test_paired_table_uses_common_cases_and_corrects_over_the_family(results: Path, page: Page) -> None:
    table = page.captioned("SUR against the other arms")
    outcome: dict[str, dict[str, float]] = {}
    for row in raw_rows(results):
        if row["stratum"] == "first-deleted" and row["outcome"] == "ok":
            outcome.setdefault(row["arm"], {})[row["case_digest"]] = row["em"]
    others = ["dense-tokens", "max-relevance-window", "bm25-units", "random-units", "shift", "replay", "re-prefill"]
    wanted, p_values = [], []
    for budget in BUDGETS:
        for other in others:
            mine = outcome[f"sur@{budget:g}"]
            theirs = outcome[other if other in REFERENCES else f"{other}@{budget:g}"]
            common = mine.keys() & theirs.keys()
            gained = sum(mine[c] > theirs[c] for c in common)
            lost = sum(mine[c] < theirs[c] for c in common)
            p_values.append(mcnemar_exact_p(gained, lost))
            wanted.append((LABELS[other], len(common), gained, lost))
    rows = [row for row in table.rows[1:] if len(row) > 1]
    assert len(rows) == len(wanted)
    assert {n for _, n, _, _ in wanted} == {23, 24}
    assert "28 comparisons" in table.caption
    for row, (label, n, gained, lost), p, adjusted in zip(rows, wanted, p_values, holm(p_values), strict=True):
        assert row[0] == label
        assert row[1] == ("24" if n == 24 else f"{n} of 24")
        assert row[4:6] == [str(gained), str(lost)]
        assert number(row[6]) == pytest.approx(100 * (gained - lost) / n, abs=0.051)
        low, high = row[7].split(" to ")
        assert number(low) <= number(row[6]) <= number(high)
        assert number(row[8]) == pytest.approx(p, rel=0.05, abs=6e-4)
        assert number(row[9]) == pytest.approx(adjusted, rel=0.05, abs=6e-4)


def number(text: str) -> float:
    plain = text.translate(str.maketrans("−⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "--0123456789")).replace(" × 10", "e")
    return float(plain)


def test_by_length_counts_each_length(results: Path, page: Page) -> None:
    table = page.captioned("Exact match in %, by context length")
    assert table.rows[0] == ["Method", "300", "600", "900", "All"]
    for label, arm in (("Shift", "shift"), ("SUR", "sur@5"), ("Random units", "random-units@5")):
        rows = [r for r in raw_rows(results) if r["stratum"] == "first-deleted" and r["arm"] == arm]
        for length, text in zip((300, 600, 900), table.row(label), strict=False):
            mine = [r for r in rows if r["length"] == length]
            assert f" {sum(r['em'] == 1.0 for r in mine)}/{len(mine)}" in text


def test_failures_and_invariants_are_counted_and_listed(results: Path, page: Page) -> None:
    rows = raw_rows(results)
    assert page.captioned("Outcomes").row("ok") == [str(sum(r["outcome"] == "ok" for r in rows))]
    assert page.captioned("Outcomes").row("out_of_memory") == ["4"]
    listed = page.captioned("4 failed arms").rows[1:]
    assert [row[0] for row in listed] == ["first-deleted-600-004"] * 4
    assert listed[1][1:] == ["Random units at 5 %", "out_of_memory", "CUDA out of memory: tried to allocate 2 GiB"]
    sparse = [r for r in rows if r["budget"] is not None]
    assert page.captioned("Invariants").row("positions_exact") == [str(len(sparse)), "0", "0"]


def test_broken_invariants_are_shown(tmp_path: Path) -> None:
    def broken(row: dict[str, Any]) -> dict[str, Any]:
        if row["arm"] != "sur@5" or row["seed"]:
            return row
        return failed(row, "case_error", "unselected rows changed") | {"unselected_bit_identical": False}

    table = small(tmp_path, change=broken).captioned("Invariants")
    assert table.row("unselected_bit_identical") == ["11", "1", "0"]


def test_figures_hold_the_numbers_and_bands(results: Path, page: Page) -> None:
    rows = [r for r in raw_rows(results) if r["stratum"] == "first-deleted" and r["allocator"] == "dense-tokens"]
    for index, column, scale in ((0, "em", 100), (1, "tv_to_clean", 1), (2, "gold_nll", 1)):
        data = figure(page, index)["data"]
        [line] = [trace for trace in data if trace.get("name") == "Dense tokens"]
        [band] = [t for t in data if t.get("legendgroup") == "dense-tokens" and t is not line]
        for at, budget in enumerate(BUDGETS):
            values = [r[column] * scale for r in sorted(rows, key=lambda r: r["case_digest"]) if r["budget"] == budget]
            assert line["y"][at] == pytest.approx(sum(values) / len(values))
            assert band["y"][-1 - at] <= line["y"][at] <= band["y"][at]
            width = bootstrap_mean(values)
            assert band["y"][at] - band["y"][-1 - at] == pytest.approx(width.high - width.low, rel=0.15)
        flat = [
            trace["name"] for trace in data if trace.get("y") and len(set(trace["y"])) == 1 and len(trace["y"]) == 2
        ]
        assert flat == ["Dirty", "Shift", "Replay", "Re-prefill"]


def test_timings_say_what_was_not_timed(page: Page) -> None:
    bars = {trace["name"]: trace for trace in figure(page, 4)["data"]}
    assert set(bars) == {"signal", "allocate", "shift", "refresh", "prefill"}
    at = bars["prefill"]["y"].index("Re-prefill")
    assert [x is not None for x in bars["prefill"]["x"]] == [i == at for i in range(len(bars["prefill"]["x"]))]
    assert "Not drawn: query and decode. In quality mode" in page.text
    assert "Latency from edit to answer was not measured." in page.text


def test_answering_times_are_drawn_only_where_every_arm_has_them(tmp_path: Path) -> None:
    def alone(row: dict[str, Any]) -> dict[str, Any]:
        return {**row, "t_query": 0.1, "t_decode": 9.0} if row["arm"] == "dirty" else row

    found = small(tmp_path / "dirty", change=alone)
    assert "Not drawn: query and decode, timed only for Dirty." in found.text
    assert "decode" not in [trace["name"] for trace in figure(found, 4)["data"]]
    every = small(tmp_path / "every", change=lambda row: {**row, "t_query": 0.1, "t_decode": 0.2, "latency": 0.5})
    assert [trace["x"] for trace in figure(every, 4)["data"] if trace["name"] == "decode"] == [[0.2] * 6]
    assert "Not drawn" not in every.text


def test_two_models_do_not_mix(tmp_path: Path) -> None:
    for model, right in (("model-a", 1.0), ("model-b", 0.0)):

        def same(row: dict[str, Any], right: float = right) -> dict[str, Any]:
            return {**row, "em": right}

        write_results(tmp_path, Setup(model=model, run_id=model, cases=cases(6), arms=FEW, change=same))
    write_results(tmp_path, Setup(model="model-a", executor="interval", run_id="x", cases=cases(3), arms=FEW))
    found = read(write_report(tmp_path))
    assert "3 result groups" in found.text
    assert sum(len(text) > 10**6 for _, text in found.scripts) == 1
    measured = [t for t in found.tables if t.caption.startswith("Measured: ")]
    cells = {(t.caption.split(",")[0], t.row("SUR")[1]) for t in measured}
    assert ("Measured: model-a", "100.0 6/6 100.0–100.0") in cells
    assert ("Measured: model-b", "0.0 0/6 0.0–0.0") in cells
    assert len(cells) == 3


def test_a_group_in_which_every_arm_failed(tmp_path: Path) -> None:
    found = small(tmp_path, change=lambda row: failed(row, "worker_died", "the worker was killed"))
    assert (
        "SUR at 5 % of the retained suffix answers 0 of 6 exactly (0.0 %; 6 failed and counted as wrong)" in found.text
    )
    assert "they are not compared" in found.text
    assert "no common case" in found.text
