"""The report of an edit study: every number on the page is one of the rows."""

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from cachemend.warehouse.parts import write_part
from cachemend.warehouse.report import write_report

from support.edit_analysis import analyse, sequence_rows, timing_rows
from support.edit_rows import OWN_LENGTH, EditSetup, failed, write_edit_results
from support.html_page import Page
from support.report_pages import FEW, read
from support.report_rows import Setup, cases, write_results

LABELS = {
    "stale": "Stale, no repair",
    "span": "Span only",
    "clean": "Re-prefill, clean",
    "edit-local": "Edit-local",
    "edit-local-boundary": "Edit-local to block end own length",
    "attention": "Attention",
    "random": "Random",
    "causal-oracle": "Causal oracle diagnostic",
}
NEAR = "derived items, answer 0 tokens after the edit, held-out"


class Study(NamedTuple):
    folder: Path
    page: Page
    records: list[dict[str, Any]]
    analysis: dict[str, list[dict[str, Any]]]


def written(folder: Path, setup: EditSetup) -> Study:
    records = write_edit_results(folder, setup)
    analysis = analyse(folder, records)
    return Study(folder, read(write_report(folder)), records, analysis)


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    """41 retained items of three wordings: the headline cell is evidence."""
    folder = tmp_path_factory.mktemp("study")
    setup = EditSetup(items=42, ks=(8, 32), change=spoiled)
    write_part(folder, "edit_timings", timing_rows(setup))
    write_part(folder, "edit_sequences", sequence_rows(setup))
    return written(folder, setup)


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> Study:
    """Five retained items: the headline cell shows nothing."""
    return written(tmp_path_factory.mktemp("few"), EditSetup(ks=(8, 32)))


def spoiled(row: dict[str, Any]) -> dict[str, Any]:
    lost = row["case_id"] == "held-out-007-derived-64" and row["arm"] == "random@32"
    return failed(row, "out_of_memory", "CUDA out of memory") if lost else row


def cell(study: Study, table: str, distance: int = 0, condition: str = "derived") -> list[dict[str, Any]]:
    rows = study.analysis[table]
    return [row for row in rows if (row["condition"], row["distance"]) == (condition, distance)]


def shown(value: float, digits: int = 3) -> str:
    text = f"{value:.{digits}f}"
    return text.replace("-", "−") if float(text) else text.lstrip("-")


@pytest.mark.parametrize(("condition", "distance"), [("derived", 0), ("derived", 64), ("direct", 0)])
def test_recovery_table_equals_the_rows(study: Study, condition: str, distance: int) -> None:
    away = f", answer {distance} tokens after the edit" if condition == "derived" else ""
    table = study.page.captioned(f"Recovery at K = 32: {condition} items{away}, held-out, 41 of 42 items retained")
    rows = [r for r in cell(study, "edit_recovery_rows", distance, condition) if r["k"] in (None, 32)]
    rows = [row for row in rows if row["operator"] != "transplant"]
    assert len(table.rows) == 1 + len(rows) == 1 + len(LABELS)
    for row in rows:
        n, positions, mean, middle, ratio, flip, kl = table.row(LABELS[row["policy"]])
        assert n.split()[0] == str(row["n"])
        assert ("of 41" in n) == (row["n"] != 41)
        assert positions == shown(row["mean_positions"], 1)
        half = (row["high"] - row["low"]) / 2
        assert mean == f"{shown(row['mean'])} ± {shown(half)} {shown(row['low'])} – {shown(row['high'])}"
        assert middle == shown(row["median"])
        assert ratio.startswith(shown(row["ratio_of_means"]))
        assert flip.startswith(shown(100 * row["flip_rate"], 1))
        assert kl == shown(row["kl_recovery"])


def test_the_opening_says_what_was_found(study: Study) -> None:
    rows = {row["arm"]: row for row in cell(study, "edit_recovery_rows")}
    local, rival = rows["edit-local@32"], rows["attention@32"]
    assert f"Edit-local at K = 32 recovers {shown(local['mean'], 2)} of the answer margin" in study.page.text
    assert f"(95 % interval {shown(local['low'], 2)} to {shown(local['high'], 2)})" in study.page.text
    assert f"flips {100 * local['flip_rate']:.0f} % of 41 retained items" in study.page.text
    assert (
        f"Random {shown(rows['random@32']['mean'], 2)} and Span only {shown(rows['span']['mean'], 2)}."
        in study.page.text
    )
    assert f"The best other deployable policy there is Attention with {shown(rival['mean'], 2)}" in study.page.text
    [pair] = [
        r for r in cell(study, "edit_contrast_rows") if (r["policy_a"], r["policy_b"]) == ("edit-local", "attention")
    ]
    assert f"Edit-local minus it is +{pair['difference']:.2f} per item" in study.page.text
    far = {row["arm"]: row for row in cell(study, "edit_recovery_rows", 64)}["edit-local@32"]
    assert (
        f"With the answer 64 tokens after the edit, Edit-local at K = 32 recovers {shown(far['mean'], 2)}"
        in study.page.text
    )
    assert "This cell shows nothing" not in study.page.text
    checks = study.page.captioned("Whether the headline cell is evidence")
    assert [row[3] for row in checks.rows[1:]] == ["yes"] * 5


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({}, "retained items: 5 of the 40 wanted"),
        ({"items": 42, "n_tokens": 1990}, "the shortest context has 1,990 tokens, 2,000 are wanted"),
        ({"items": 42, "policies": ("edit-local",)}, "Random at K = 32 was not run"),
    ],
)
def test_a_cell_that_is_no_evidence_says_so_before_any_number(
    tmp_path: Path, few: Study, change: dict[str, Any], reason: str
) -> None:
    found = written(tmp_path, EditSetup(ks=(32,), forms=(("derived", 0),), **change)) if change else few
    assert f"This cell shows nothing: {reason}. Its numbers are listed, not interpreted." in found.page.text
    assert "of the answer margin (95" not in found.page.text
    assert "no" in [row[3] for row in found.page.captioned("Whether the headline cell is evidence").rows[1:]]


def test_easy_items_are_no_evidence(tmp_path: Path) -> None:
    def easy(row: dict[str, Any]) -> dict[str, Any]:
        return row | {"margin_recovery": 0.4} if row["policy"] in ("random", "span") else row

    setup = EditSetup(items=42, ks=(32,), forms=(("derived", 0),), policies=("edit-local", "random"), change=easy)
    text = written(tmp_path, setup).page.text
    assert (
        "This cell shows nothing: MR of Random at K = 32 is 0.40, at most 0.15 is wanted; MR of the span alone" in text
    )


def test_contrasts_are_turned_towards_edit_local(study: Study) -> None:
    table = study.page.captioned(f"Edit-local minus the other policy at K = 32: {NEAR}")
    rows = [row for row in cell(study, "edit_contrast_rows") if "edit-local" in (row["policy_a"], row["policy_b"])]
    assert len(table.rows) == 1 + len(rows) == 4
    names = {"attention": "Attention", "random": "Random", "causal-oracle": "Causal oracle"}
    for row in rows:
        turn = 1 if row["policy_a"] == "edit-local" else -1
        found = table.row(names[row["policy_b"] if turn == 1 else row["policy_a"]])
        assert found[0] == str(row["n"])
        assert found[1] == f"{turn * row['difference']:+.3f}".replace("-", "−")
        assert found[4].endswith("of 6")
        wins, losses = ("wins", "losses") if turn == 1 else ("losses", "wins")
        assert found[5] == f"{row[f'{wins}_05']}–{row['ties_05']}–{row[f'{losses}_05']}"
        assert found[7] == f"{row[f'{wins}_10']}–{row['ties_10']}–{row[f'{losses}_10']}"


def test_a_contrast_given_the_other_way_round_is_turned(tmp_path: Path) -> None:
    records = write_edit_results(tmp_path, EditSetup(items=4, ks=(32,), policies=("edit-local", "random")))
    pairs = analyse(tmp_path, records)["edit_contrast_rows"]
    turned = [
        row
        | {"policy_a": row["policy_b"], "policy_b": row["policy_a"], "difference": -row["difference"]}
        | {"low": -row["high"], "high": -row["low"], "wins_05": row["losses_05"], "losses_05": row["wins_05"]}
        for row in pairs
    ]
    other = tmp_path / "other"
    write_edit_results(other, EditSetup(items=4, ks=(32,), policies=("edit-local", "random")))
    write_part(other, "edit_contrast_rows", turned)
    caption = f"Edit-local minus the other policy at K = 32: {NEAR}"
    tables = [read(write_report(folder)).captioned(caption) for folder in (tmp_path, other)]
    assert tables[0].rows[1][:7] == tables[1].rows[1][:7]


def test_distances(study: Study) -> None:
    table = study.page.captioned("Recovery by distance between edit and answer, K = 32")
    assert table.rows[0] == ["Policy", "0 tokens", "64 tokens"]
    for row in cell(study, "edit_recovery_rows", 64):
        if row["k"] == 32 and row["operator"] == "recompute":
            found = table.row(LABELS[row["policy"]])[1]
            assert found.startswith(f"{shown(row['mean'])} {shown(row['low'])} – {shown(row['high'])}")
            assert f"{100 * row['flip_rate']:.0f} % flip, n = {row['n']}" in found
            assert "positions" not in found
        elif row["policy"] in OWN_LENGTH:
            cells = table.row(LABELS[row["policy"]])
            assert [text.split(" = ")[1].split()[1:] for text in cells] == [
                [shown(row["mean_positions"], 1), "positions"]
            ] * 2


def test_distances_are_told_at_the_k_that_reaches_most_of_them(tmp_path: Path) -> None:
    def far_at_16(row: dict[str, Any]) -> dict[str, Any] | None:
        return None if row["distance"] and row["k"] not in (None, 16) else row

    analyse(tmp_path, write_edit_results(tmp_path, EditSetup(change=far_at_16)))
    page = read(write_report(tmp_path))
    table = page.captioned("Recovery by distance between edit and answer, K = 16")
    assert "–" not in table.row("Edit-local")


def test_figures_hold_the_means_bands_and_levels(study: Study) -> None:
    texts = [text for attrs, text in study.page.scripts if attrs.get("type") == "application/json"]
    found = json.loads(texts[0])
    rows = {row["arm"]: row for row in cell(study, "edit_recovery_rows")}
    for name, policy in (("Edit-local", "edit-local"), ("Attention", "attention"), ("Random", "random")):
        [line] = [trace for trace in found["data"] if trace.get("name") == name]
        [band] = [t for t in found["data"] if t.get("legendgroup") == policy and t is not line]
        mine = [rows[f"{policy}@{k}"] for k in (8, 32)]
        assert line["y"] == pytest.approx([row["mean"] for row in mine])
        assert band["y"] == pytest.approx([row["high"] for row in mine] + [row["low"] for row in mine][::-1])
    levels = {t["name"]: t["y"][0] for t in found["data"] if t.get("y") and not t.get("legendgroup")}
    assert levels["Edit-local to block end"] == pytest.approx(rows["edit-local-boundary"]["mean"])
    assert set(levels) == {"Stale, no repair", "Span only", "Re-prefill, clean", "Edit-local to block end"}
    lines = json.loads(texts[3])["data"]
    assert [trace["name"] for trace in lines] == ["Causal oracle at K\u00a0=\u00a08", "Edit-local at K\u00a0=\u00a08"]
    assert lines[0]["y"][1] == pytest.approx(rows["causal-oracle@8"]["mean"])
    assert lines[0]["y"][0] == pytest.approx(rows["transplant:causal-oracle@8"]["mean"])


def test_cost(study: Study) -> None:
    table = study.page.captioned("Milliseconds of refresh and re-prefill")
    placed, copied = [row for row in table.rows[1:] if (row[0], row[2]) == ("5,120", "32")]
    assert placed[1] == "packed in place"
    assert placed[3:8] == ["64.0 57.6 – 76.8", "5,120.0", "80.0", "146", "2.13"]
    assert copied[1] == "packed with copy"
    assert copied[3:8] == ["72.0 64.8 – 86.4", "5,120.0", "71.1", "146", "–"]
    sentence = "at 5,120 tokens, refreshing the span and 32 positions takes 72.0 ms against 5,120.0 ms for a re-prefill"
    assert sentence in study.page.text


def test_triggers_decisions_and_sequences(study: Study) -> None:
    assert "After derived edits the stale cache fails on 100.0 % of 84 items" in study.page.text
    for name, rho in (("ridge regression", "0.11"), ("a random forest", "0.17")):
        assert f"{name} reaches Spearman {rho} (p = 0.002), R² 0.05" in study.page.text
    for condition, failures in (("derived", "1.0"), ("direct", "21.0")):
        gates = study.page.captioned(f"What a gate would cost, by the share of {condition} edits")
        assert gates.row("repair always") == ["50", failures, "50.0"]
        assert len(gates.rows[1:]) == 3
    sent = "the predictor of failures sends 90.0 % of 40 failures (95 % interval 80.0 to 95.0) to repair after derived"
    assert sent in study.page.text
    assert "sends 25.0 % of 14 edits (95 % interval 15.0 to 30.0) to repair after irrelevant edits" in study.page.text
    derived = study.page.captioned("Derived on dev items")
    assert derived.row("named=beyond")[:3] == ["Re-prefill", "yes", "9"]
    evaluated = study.page.captioned("Evaluated on held-out items")
    assert [row[1] for row in evaluated.rows[1:]] == ["Decision table", "Edit-local at K = 32"]
    rows = study.page.captioned("Several edits of one context").rows[1:]
    assert [row[1] for row in rows].count("one after another, with a limit of 2") == 4
    assert [row[-1] for row in rows if "limit" in row[1]] == ["0", "0", "100", "100"]


def test_retention_guards_and_drops(study: Study) -> None:
    rows = [row for row in study.page.captioned("Items retained").rows[1:] if row[0] == NEAR]
    assert [(row[1], row[2], row[3]) for row in rows] == [
        ("option", "14", "14"),
        ("route", "14", "13"),
        ("shelf", "14", "14"),
    ]
    guards = study.page.captioned("Guards")
    assert guards.row("reproduced") == ["126", "0", "–"]
    assert guards.row("null-content") == ["123", "3", "failed: margins differ by 0.3, more than 0.001"]
    assert "1 × the edit is 9 tokens long under smollm2-135m" in study.page.section("provenance")


def test_failures_and_invariants(study: Study) -> None:
    assert study.page.captioned("Outcomes").row("out_of_memory") == ["1"]
    assert study.page.captioned("1 failed arm").rows[1][1:] == [
        "Random at K = 32",
        "out_of_memory",
        "CUDA out of memory",
    ]
    sparse = [row for row in study.records if row["policy"] not in ("stale", "span", "clean")]
    assert study.page.captioned("Invariants").row("upstream_bit_identical") == [f"{len(sparse):,}", "0", "0"]


def test_the_papers_figures_stand_beside(study: Study) -> None:
    rows = study.page.captioned("Published figures that this group measures too").rows[1:]
    local = cell(study, "edit_recovery_rows")
    mean = next(row["mean"] for row in local if row["arm"] == "edit-local@32")
    [ours] = [row for row in rows if row[4] == "margin recovery" and row[5] == "0.993"]
    assert ours[0] == "Table 2, “The Edit-Local Window Wins”"
    assert ours[1] == "meta-llama/Llama-3.1-8B-Instruct"
    assert ours[6] == shown(mean)
    assert [row[5] for row in rows if row[4] == "flip percent"] == ["95 to 100"]
    alone = study.page.captioned("Published figures alone").rows[1:]
    assert {row[6] for row in alone} == {"–"}
    assert [row[5] for row in alone if row[4] == "p holm"] == ["at most 3.0 × 10⁻⁹"]
    assert [row[5] for row in alone if row[4] == "refresh milliseconds"] == ["31 to 35"]


def test_page_is_self_contained(study: Study) -> None:
    for tag, attrs in study.page.tags:
        assert "src" not in attrs
        assert tag not in ("link", "iframe", "img")
        assert "href" not in attrs or str(attrs["href"]).startswith("#")
    ids = {attrs["id"] for _, attrs in study.page.tags if "id" in attrs}
    assert {str(attrs["href"])[1:] for tag, attrs in study.page.tags if tag == "a"} <= ids
    assert not (study.folder / "report-orderings.csv").exists()


def test_hostile_text_stays_text(tmp_path: Path) -> None:
    hostile = "</script><img src=x onerror=alert(1)>"

    def change(row: dict[str, Any]) -> dict[str, Any]:
        names = ("case_id", "family", "answer", "new_answer", "model", "score_rule")
        return row | {name: f"{row[name]}{hostile}" for name in names} | {"guards": json.dumps({hostile: hostile})}

    found = written(tmp_path, EditSetup(items=2, ks=(32,), change=change)).page
    assert f"smollm2-135m{hostile}" in found.text
    assert f"route{hostile}" in found.text
    assert not any(tag == "img" or "onerror" in attrs for tag, attrs in found.tags)


def test_records_without_an_analysis(tmp_path: Path) -> None:
    write_edit_results(tmp_path, EditSetup(items=2))
    page = read(write_report(tmp_path))
    assert "have not been analysed yet" in page.text
    retained = {tuple(row[1:4]) for row in page.captioned("Items retained").rows[1:]}
    assert retained == {("route", "1", "0"), ("option", "1", "1")}


def test_timings_or_sequences_alone(tmp_path: Path) -> None:
    write_part(tmp_path, "edit_timings", timing_rows(EditSetup()))
    assert "Cost of repair after an edit" in read(write_report(tmp_path)).text
    write_part(tmp_path, "edit_sequences", sequence_rows(EditSetup()))
    page = read(write_report(tmp_path))
    assert "1 sequence of edits" in page.text
    assert len(page.captioned("Several edits of one context").rows) == 1 + 9


def test_both_studies_and_two_models_do_not_mix(tmp_path: Path) -> None:
    write_results(tmp_path, Setup(cases=cases(2), arms=FEW))
    alone = read(write_report(tmp_path))
    measured = alone.captioned("Measured").rows
    for model in ("one", "two"):
        setup = EditSetup(model=model, run_id=model, items=3, ks=(32,), forms=(("derived", 0),))
        analyse(tmp_path, write_edit_results(tmp_path, setup))
    page = read(write_report(tmp_path))
    assert "3 result groups" in page.text
    assert page.captioned("Measured").rows == measured
    tables = [t for t in page.tables if t.caption.startswith("Recovery at K = 32")]
    assert [t.caption for t in tables] == [f"Recovery at K = 32: {NEAR}, 2 of 3 items retained"] * 2
    assert "Margin recovery (MR)" in page.section("reading")
    assert "Margin recovery (MR)" not in alone.section("reading")
