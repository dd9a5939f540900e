"""The report of response reuse: every number on the page is one of the rows."""

import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from cachemend.repair_core.errors import InputError
from cachemend.warehouse.parts import write_part
from cachemend.warehouse.report import write_report
from cachemend.warehouse.report.routing.analysis import Comparison, Quality
from cachemend.warehouse.report.routing.gains import gain
from cachemend.warehouse.report.routing.quality import warning
from cachemend.warehouse.report.routing.roc import curve_of, roc_curve
from cachemend.warehouse.report.routing.rows import read_routing_groups

from support.edit_rows import EditSetup, write_edit_results
from support.html_page import Page
from support.report_pages import FEW, read
from support.report_rows import Setup, cases, write_results
from support.routing_analysis import AUROCS, REFERENCE, write_stress, write_study
from support.routing_rows import CERTIFIED, SAFECACHE, RouteSetup, run_row, write_records

Row = dict[str, Any]
NAMES = {
    "safecache": "SafeCache",
    "gptcache": "GPTCache",
    "vcache": "vCache",
    "exact-match": "Exact match",
    "similarity-verifier": "Similarity + verifier",
    "no-cache": "No cache",
}


class Study(NamedTuple):
    folder: Path
    page: Page
    rows: dict[str, list[Row]]


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    folder = tmp_path_factory.mktemp("study")
    rows = write_study(folder, RouteSetup())
    return Study(folder, read(write_report(folder)), rows)


def label(row: Row) -> str:
    parts = row["setting"].replace("alpha=", "α = ").replace("tau=", "τ = ")
    return f"{NAMES[row['method']]}, {parts.replace(' B=', ', B = ').replace('test α', 'test, α')}"


def shown(value: float, digits: int) -> str:
    text = f"{100 * value:.{digits}f}"
    return text.replace("-", "−") if float(text) else text.lstrip("-")


def points(value: float, digits: int = 2) -> str:
    text = f"{100 * value:+.{digits}f}"
    return text.replace("-", "−") if float(text) else text[1:]


def test_points_equal_the_rows(study: Study) -> None:
    table = study.page.captioned("Every method and setting: reconstruction pairs")
    rows, ceiling = study.rows["routing_point_rows"], study.rows["ceiling"]
    certified = study.page.captioned("Settings with a certificate")
    assert (len(table.rows), len(certified.rows)) == (len(rows), 2)
    for row, top in zip(rows, ceiling, strict=True):
        found = (certified if row["setting"] == CERTIFIED else table).row(label(row))
        vchr, fh, hits, calls, cost, without, abstained, best = found
        band = f"{shown(row['vchr_low'], 1)} – {shown(row['vchr_high'], 1)}"
        assert vchr.startswith(f"{shown(row['vchr'], 2)} {band}")
        assert fh.startswith(f"{shown(row['fh'], 3)} {shown(row['fh_low'], 2)} – {shown(row['fh_high'], 2)}")
        assert hits == f"{row['n_invalid']} of {row['accepted']} {row['exposures']} exposures"
        assert calls.startswith(shown(row["verifier_rate"], 1))
        assert ("wanted" in calls) == (row["demand_rate"] is not None)
        assert cost.startswith(f"{row['relative_cost']:.3f}")
        assert (without, abstained) == (f"{row['n_without_hits']} of 4", f"{row['n_abstained']} of 4")
        assert best == f"{shown(top['vchr'], 2)}, {shown(top['fh'], 3)}"
    assert "diagnostic" in table.rows[0][-1]
    assert "paper 36.37" in table.row("SafeCache, α = 0, B = 0.16")[0]
    assert "paper 0.648" in table.row("SafeCache, α = 0, B = 0.16")[4]
    assert f"paper {100 * 5391 / 13911:.2f}, pooled" in table.row("GPTCache, τ = 0.9")[0]
    assert f"paper {100 * 625 / 6016:.3f}, pooled" in table.row("GPTCache, τ = 0.9")[1]
    assert "paper" not in table.row("Exact match, query")[0]


def figures(page: Page) -> dict[str, list[Row]]:
    """Plotly traces by the title of the figure."""
    titles = [str(attrs["aria-label"]) for tag, attrs in page.tags if attrs.get("class") == "plot"]
    texts = [text for attrs, text in page.scripts if attrs.get("type") == "application/json"]
    return {title: json.loads(text)["data"] for title, text in zip(titles, texts, strict=True)}


def test_the_plane_holds_points_bands_and_the_papers(study: Study) -> None:
    traces = figures(study.page)["Safety and utility: reconstruction of the paper's pairs"]
    drawn = {trace["name"]: trace for trace in traces if "name" in trace}
    rows = study.rows["routing_point_rows"]
    router = [row for row in rows if row["method"] == "safecache" and row["setting"] != CERTIFIED]
    assert drawn["SafeCache"]["x"] == pytest.approx([100 * row["vchr"] for row in router])
    assert np.square(drawn["SafeCache"]["y"]) == pytest.approx([100 * row["fh"] for row in router])
    assert drawn["SafeCache, paper"]["x"] == pytest.approx([36.371, 40.159, 40.854])
    assert np.square(drawn["SafeCache, paper"]["y"]) == pytest.approx([0.177, 0.368, 0.417])
    assert drawn["SafeCache, paper"]["marker"]["symbol"] == f"{drawn['SafeCache']['marker']['symbol']}-open"
    assert "pooled counts" in drawn["vCache, paper"]["customdata"][0]
    assert len(drawn["SafeCache, certified"]["x"]) == 1
    [band] = [t for t in traces if t["mode"] == "lines" and t["legendgroup"] == "Exact match"]
    [row] = [row for row in rows if row["method"] == "exact-match"]
    assert band["x"][:2] == pytest.approx([100 * row["vchr_low"], 100 * row["vchr_high"]])
    assert np.square(band["y"][3:5]) == pytest.approx([100 * row["fh_low"], 100 * row["fh_high"]])


def test_bounds_and_tests(study: Study) -> None:
    table = study.page.captioned("Invalid hits, pooled over the splits")
    for row in study.rows["routing_risk_rows"]:
        found = table.row(label(row))
        assert found[0] == f"{row['n_invalid']} of {row['accepted']}"
        assert found[2:4] == [shown(row["wilson_upper"], 3), shown(row["exact_upper"], 3)]
        assert found[4:6] == [
            f"{row['distinct_invalid']} of {row['distinct_accepted']}",
            shown(row["distinct_upper"], 2),
        ]
    assert table.row("SafeCache, α = 0, B = 0.16")[6:] == ["2 of 4", "9 of 4,968", "0.311", "9"]
    tests = study.page.captioned("SafeCache at α = 0.025, B = 0.3 minus each comparator")
    reference = [row for row in study.rows["routing_test_rows"] if row["reference"] == REFERENCE]
    assert len(tests.rows) == 1 + len(reference) == 7
    for row in reference:
        claim, vchr, fh, *rest = tests.row(label(row))
        assert claim == ("Sup." if row["claim"] == "sup" else "NI + Sup.")
        assert vchr == f"{points(row['d_vchr'])} {points(row['d_vchr_low'])} to {points(row['d_vchr_high'])}"
        assert fh == f"{points(row['d_fh'])} {points(row['d_fh_low'])} to {points(row['d_fh_high'])}"
        assert rest[:5] == ["0.003", "0.020", "0.020", "0.120 of 6", "0.004, 0.030"]
    assert tests.row("vCache, τ = 0.99")[-1] == "+2.397, −0.398 p = 0.045"


def test_the_finding_says_what_is_gained(study: Study) -> None:
    all_tests = study.rows["routing_test_rows"]
    tests = {(row["method"], row["setting"]): row for row in all_tests if row["reference"] == REFERENCE}
    exact = tests["exact-match", "query"]
    told = f"Against exact match: VCHR {points(exact['d_vchr'])} points (95 % interval {points(exact['d_vchr_low'])} to"
    assert told in study.page.text
    rival = tests["similarity-verifier", REFERENCE]
    assert f"FH {points(rival['d_fh'])} points (95 % interval {points(rival['d_fh_low'])} to" in study.page.text
    assert "SafeCache at α = 0.025, B = 0.3 shows a gain over exact match and a gain over similarity" in study.page.text
    [risk] = [r for r in study.rows["routing_risk_rows"] if (r["method"], r["setting"]) == ("safecache", REFERENCE)]
    assert f"{shown(risk['distinct_upper'], 2)} % over {risk['distinct_accepted']} distinct pairs" in study.page.text
    assert "The held-out rate exceeds its own target at α = 0, B = 0.16 in 2 of 4 splits." in study.page.text
    for setting in SAFECACHE[:2]:
        own = {row["method"]: row for row in all_tests if row["reference"] == setting}
        assert set(own) == {"exact-match", "similarity-verifier"}
        named = setting.replace("alpha=", "α = ").replace(" B=", ", B = ")
        table = study.page.captioned(f"SafeCache at {named} minus each comparator")
        assert len(table.rows) == 3
        for row, rival in zip(own.values(), ("exact match", "similarity + verifier at the same α and B"), strict=True):
            band = f"{points(row['d_vchr_low'])} to {points(row['d_vchr_high'])}"
            told = f"At {named}, against {rival}: VCHR {points(row['d_vchr'])} points (95 % interval {band})"
            assert told in study.page.text
    assert "Plain similarity alone ranks invalid reuse with AUROC 0.881" in study.page.text


def test_no_gain_and_a_constant_verifier_are_said_at_the_top(tmp_path: Path) -> None:
    rows = write_study(tmp_path, RouteSetup(pairs=24))
    flat = {"d_vchr": 0.001, "d_vchr_low": -0.02, "d_vchr_high": 0.02}
    flat |= {"d_fh": 0.0, "d_fh_low": -0.01, "d_fh_high": 0.01}
    write_part(tmp_path, "routing_test_rows", [row | flat for row in later(rows["routing_test_rows"])])
    bad = {"ta": 12, "tr": 0, "fa": 12, "fr": 0, "n": 24, "agreement": 0.5, "p_chance": 1.0, "flag": "constant"}
    write_part(tmp_path, "verifier_quality_rows", [row | bad for row in later(rows["verifier_quality_rows"])])
    text = read(write_report(tmp_path)).text
    assert (
        "There is no gain: SafeCache at α = 0.025, B = 0.3 shows none over exact match nor over similarity + verifier "
        "at the same α and B. Against exact match: VCHR +0.10 points (95 % interval −2.00 to +2.00)"
    ) in text
    assert "no gain is shown" in text
    # In the finding and in the verifier's section; the region of a setting the finding is not about, there alone.
    assert text.count("On all pairs asked about the verifier accepts every one of 24 pairs") == 2
    assert text.count("On pairs verified at α = 0, B = 0.16 the verifier accepts every one of 24 pairs") == 1


def later(rows: list[Row]) -> list[Row]:
    return [row | {"run_id": "later", "recorded_at": row["recorded_at"] + timedelta(days=1)} for row in rows]


@pytest.mark.parametrize(
    ("vchr", "fh", "kind", "words"),
    [
        ((0.01, 0.03), (-0.03, -0.01), "gain", "a gain on both"),
        ((0.01, 0.03), (-0.01, 0.01), "gain", "a gain in valid hits"),
        ((-0.01, 0.03), (-0.03, -0.01), "gain", "a gain in safety"),
        ((0.01, 0.03), (0.01, 0.02), "trade", "a trade, no gain: more valid hits"),
        ((-0.03, -0.01), (-0.03, -0.01), "trade", "a trade, no gain: fewer false hits"),
        ((-0.03, -0.01), (0.01, 0.03), "none", "fewer valid hits and more false ones"),
        ((-0.01, 0.01), (0.0, 0.0), "none", "no gain is shown"),
        ((None, None), (None, None), "none", "no gain is shown"),
    ],
)
def test_gains_are_judged_by_both_intervals(vchr: Any, fh: Any, kind: str, words: str) -> None:
    blank = dict.fromkeys(Comparison._fields)
    test = Comparison(
        **(blank | {"d_vchr_low": vchr[0], "d_vchr_high": vchr[1], "d_fh_low": fh[0], "d_fh_high": fh[1]})
    )
    found = gain(test._replace(family_size=3), "a rival")
    assert found.kind == kind
    assert found.sentence.startswith("Against a rival: ")
    assert words in found.sentence


@pytest.mark.parametrize(
    ("counts", "flag", "words"),
    [
        ((10, 0, 10, 0), "constant", "accepts every one of 20 pairs: a constant verdict tells nothing"),
        ((0, 10, 0, 10), "constant", "accepts none of 20 pairs"),
        ((5, 6, 4, 5), "chance-level", "accepts 5 of 10 valid pairs and 4 of 10 invalid pairs: no better than chance"),
    ],
)
def test_flags_of_the_verifier_in_words(counts: tuple[int, ...], flag: str, words: str) -> None:
    ta, tr, fa, fr = counts
    row = Quality("verified at alpha=0 B=0.3", sum(counts), ta, tr, fa, fr, 0.5, 0.5, flag, 0, 0)
    assert words in warning(row)
    assert warning(row).startswith("On pairs verified at α\u00a0=\u00a00, B\u00a0=\u00a00.3 the verifier ")


def test_signals_and_their_curves(study: Study) -> None:
    table = study.page.captioned("AUROC and AUPRC of each signal")
    assert table.rows[0] == [
        "Signal",
        "All sources 30 of 60 invalid",
        *(f"{name} 10 of 20 invalid" for name in ("sgd", "tau-bench", "xstest")),
        "Paper",
    ]
    plain = table.row("Plain similarity S, reversed")
    assert plain[0] == f"{AUROCS['similarity']:.3f} 0.851 – 0.911 AUPRC 0.781"
    assert plain[-1] == "–"
    assert table.row("Condition mismatch D_match")[-1] == "0.8430 AUPRC 0.8066"
    [group] = read_routing_groups(study.folder).values()
    records = study.rows["route_records"]
    invalid = [not row["valid"] for row in records]
    drawn = {
        t["name"].rpartition(": ")[0]: t for t in figures(study.page)["ROC curves of the raw signals"] if "name" in t
    }
    for name, title, sign in (
        ("similarity", "Plain similarity S, reversed", -1),
        ("d_match", "Condition mismatch D_match", 1),
        ("u_match", "Matching uncertainty U_match", 1),
        ("h", "Conflict H", 1),
    ):
        values = [sign * row["h_rule" if name == "h" else name] for row in records]
        found = curve_of(group.rows, name)
        assert found is not None
        assert found.area == pytest.approx(roc_auc_score(invalid, values))
        trace = drawn[title]
        if name == "h":
            share = [np.mean([v for v, bad in zip(values, invalid, strict=True) if bad == kind]) for kind in (0, 1)]
            assert (trace["x"][0], trace["y"][0]) == pytest.approx((100 * share[0], 100 * share[1]))
        else:
            assert np.trapezoid(trace["y"], trace["x"]) == pytest.approx(1e4 * found.area, abs=1)


def test_a_curve_counts_ties_half_and_needs_both_labels() -> None:
    found = roc_curve([0.5, 0.5, 0.5, 0.1], [True, False, False, True])
    assert found is not None
    assert found.area == pytest.approx(0.75)
    assert roc_curve([0.1, 0.2], [True, True]) is None
    assert roc_curve([], []) is None


def test_risk_map(study: Study) -> None:
    assert "Over 270 held-out exposures: ECE 0.061 and Brier score 0.142" in study.page.text
    assert "the paper's map on its own pairs: 0.056 and 0.139." in study.page.text
    bins = study.page.captioned("Bins of the risk map")
    assert bins.row("K bin 1") == ["90", "40.0", "35.0"]
    [curve] = [t for t in figures(study.page)["Reliability of the risk map"] if "customdata" in t]
    assert (curve["x"], curve["y"]) == (pytest.approx([5, 40, 90]), pytest.approx([10, 35, 80]))
    strata = study.page.captioned("Invalid share by mismatch and uncertainty")
    assert strata.rows[0] == ["Stratum of D_match", "U low", "U high"]
    assert strata.row("D stratum 2") == ["60.0 % of 23", "50.0 % of 22"]
    assert "In 1 of 2 strata of mismatch the half of high uncertainty holds more invalid pairs." in study.page.text
    conflicts = study.page.captioned("Invalid share by conflict")
    assert conflicts.row("H = 1") == ["75.0 % of 40", "11.0 % of 9"]


def test_families_and_sources(study: Study) -> None:
    rows = study.rows["routing_family_rows"]
    for by, heading in (("family", "every method"), ("source", "every method")):
        table = study.page.captioned(f"False hits by {by}, {heading}")
        names = [head.split(" ")[0] for head in table.rows[0][1:]]
        for row in rows:
            if not row[by]:
                continue
            cell = table.row(label(row))[names.index(row[by])]
            assert cell.startswith(f"{row['n_invalid']} of {row['accepted']} ")
            assert f"at most {shown(row['fh_upper'], 2)} %" in cell
            assert cell.endswith(f"VCHR {shown(row['vchr'], 1)}")
    main = study.page.captioned("False hits by family, SafeCache beside")
    assert "GPTCache, τ = 0.9" not in [row[0] for row in main.rows]
    paper = main.row("Paper: SafeCache, α = 0, B = 0.16 false hits of exposures")
    assert paper[[head.split(" ")[0] for head in main.rows[0][1:]].index("dialogue-state")] == "9 of 6,913 FH 0.278 %"


def test_ablations_orders_certified_and_quality(study: Study) -> None:
    ablations = study.page.captioned("The router with one part left out")
    assert ablations.row("Without explicit contradiction check")[2:5:2] == ["−8.00", "+0.600"]
    assert ablations.row("Full router")[-1] == "40.159, 0.368"
    bars = figures(study.page)["Change of VCHR at α\u00a0=\u00a00, B\u00a0=\u00a00.3"]
    assert [bar["name"] for bar in bars] == ["Measured", "Paper"]
    assert bars[0]["x"] == pytest.approx([-8, -2])
    assert bars[1]["x"] == pytest.approx([31.901 - 40.159, 38.442 - 40.159])
    orders = study.page.captioned("The same policies when requests come in another order")
    assert [row[0] for row in orders.rows[1:]] == ["canonical", "permutation 1", "reverse"]
    certified = study.page.captioned("Certified settings: what a certificate costs")
    [row] = study.rows["routing_certified_rows"]
    found = certified.row("learn-then-test, α = 0.1, B = 0.3")
    assert found == [
        *("0.100", "0.05", "1 of 4", shown(row["vchr"], 2), points(row["d_vchr"]), shown(row["fh"], 3)),
        *("1 of 4", "12.5", "0.100"),
    ]
    quality = study.page.captioned("Verdicts against labels")
    everyone = study.rows["verifier_quality_rows"][0]
    assert quality.row("all pairs asked about")[2:6] == [str(everyone[name]) for name in ("ta", "tr", "fa", "fr")]
    assert quality.row("pairs verified at α = 0, B = 0.16")[-1] == "97.28 1,818, 41, 9, 43"


def test_stress_inputs_are_their_own_group(tmp_path: Path) -> None:
    rows = write_stress(tmp_path, RouteSetup(pool="stress", cohort="cohort-stress", pairs=20))
    page = read(write_report(tmp_path))
    table = page.captioned("Adversarial inputs answered from the cache")
    for row in rows:
        found = table.row(label(row))
        assert found[:3] == [f"{row['n_hits']} of 20", shown(row["hit_rate"], 2), shown(row["upper"], 2)]
    assert table.row("GPTCache, τ = 0.9")[-1] == "23.41"
    assert "Of 20 adversarial inputs" in page.text
    assert "the most of any comparator is 20, by GPTCache, τ = 0.9" in page.text
    assert "Safety and utility" not in page.text


def test_one_sided_probes_and_observations_are_told(tmp_path: Path) -> None:
    rows = write_study(tmp_path, RouteSetup(pairs=24))
    table = read(write_report(tmp_path)).captioned("A probe that sees one side only")
    assert [row[:2] + row[3:] for row in table.rows[1:]] == [
        [row["source"], row["side"], "–" if row["auroc"] is None else f"{row['auroc']:.3f}"]
        for row in rows["routing_probe_rows"]
    ]
    learnt = {"observations_mean": 1.25, "observations_max": 5, "observations_ready": 0.031}
    changed = [r | learnt if r["method"] == "vcache" else r for r in later(rows["routing_point_rows"])]
    write_part(tmp_path, "routing_point_rows", changed)
    text = read(write_report(tmp_path)).text
    assert "A probe of one side tells the labels of xstest by the response alone (0.710) with an AUROC above" in text
    assert (
        "vCache, τ = 0.99 learns while it serves: from 1.25 comparisons per cached entry of a test subset, at most 5; "
        "3.1 % of the entries have enough"
    ) in text


def test_the_ceiling_is_told_apart_and_its_group_is_none(study: Study, tmp_path: Path) -> None:
    assert len(read_routing_groups(study.folder)) == 1
    assert "label-oracle" not in study.page.text
    setup = RouteSetup(pairs=24, verifier="label-oracle", verifier_model="label-oracle")
    write_study(tmp_path, replace(setup, diagnostic=True))
    page = read(write_report(tmp_path))
    assert "The verdicts of this group are the labels themselves: a diagnostic" in page.text
    assert {row[1] for row in page.captioned("Every method and setting").rows[1:]} == {"ceiling alone"}


def test_verifiers_and_pools_are_never_pooled(study: Study, tmp_path: Path) -> None:
    alone = study.page.captioned("Every method and setting").rows
    write_study(tmp_path, RouteSetup())
    write_study(tmp_path, RouteSetup(verifier="other", verifier_model="judge-2b", run_id="b"))
    write_study(tmp_path, RouteSetup(pool="seed", cohort="cohort-seed", run_id="c"))
    page = read(write_report(tmp_path))
    assert "3 result groups" in page.text
    tables = [table.rows for table in page.tables if table.caption.startswith("Every method and setting")]
    assert tables == [alone] * 3
    assert "this pool holds other pairs, so they are for orientation only" in page.text


def test_beside_the_other_studies(tmp_path: Path) -> None:
    write_results(tmp_path, Setup(cases=cases(2), arms=FEW))
    write_edit_results(tmp_path, EditSetup(items=2, ks=(32,)))
    before = read(write_report(tmp_path))
    assert "VCHR" not in before.text
    write_records(tmp_path, RouteSetup(pairs=6))
    page = read(write_report(tmp_path))
    assert "3 result groups" in page.text
    assert page.captioned("Measured").rows == before.captioned("Measured").rows
    assert "have not been analysed yet" in page.section("r0")
    assert "Margin recovery (MR)" in page.section("reading")
    assert "VCHR is the share of all requests" in page.section("reading")


def test_routing_alone_is_a_page_of_its_own(study: Study) -> None:
    assert "Margin recovery" not in study.page.section("reading")
    assert "erasure" not in study.page.section("reading")
    assert "select * from routing_points" in study.page.section("provenance")
    for tag, attrs in study.page.tags:
        assert "src" not in attrs
        assert tag not in ("link", "iframe", "img")
        assert "href" not in attrs or str(attrs["href"]).startswith("#")
    ids = {attrs["id"] for _, attrs in study.page.tags if "id" in attrs}
    assert {str(attrs["href"])[1:] for tag, attrs in study.page.tags if tag == "a"} <= ids
    assert not (study.folder / "report-orderings.csv").exists()


def test_a_run_without_records_is_an_input_error(tmp_path: Path) -> None:
    write_part(tmp_path, "runs", [run_row(RouteSetup())])
    with pytest.raises(InputError, match="holds no records"):
        write_report(tmp_path)


def test_failed_pairs_are_listed(tmp_path: Path) -> None:
    def change(row: Row) -> Row:
        lost = {"verdict": "FAILED", "outcome": "case_error", "error": "the verifier gave no answer"}
        return row | lost if row["case_id"] == "pair-003" else row

    write_records(tmp_path, RouteSetup(pairs=8, change=change))
    page = read(write_report(tmp_path))
    assert page.captioned("Outcomes").row("case_error") == ["1"]
    assert page.captioned("1 failed pair").rows[1] == ["pair-003", "case_error", "the verifier gave no answer"]


def test_hostile_text_stays_text(tmp_path: Path) -> None:
    hostile = "</script><img src=x onerror=alert(1)>"
    names = ("case_id", "source", "family", "cluster", "rule", "q_cache", "context_probe", "verifier_model")

    def change(row: Row) -> Row:
        told = json.dumps(row["explanation"]).replace("admin", f"admin {hostile}")
        return row | {name: f"{row[name]}{hostile}" for name in names} | {"explanation": json.loads(told)}

    setup = RouteSetup(
        pairs=12,
        splits=2,
        encoder=f"encoder {hostile}",
        store_text=True,
        methods=(*(("safecache", setting) for setting in SAFECACHE), ("exact-match", f"query {hostile}")),
        change=change,
    )
    write_study(tmp_path, setup)
    page = read(write_report(tmp_path))
    assert f"judge-1b{hostile}" in page.text
    assert f"query {hostile}" in page.text
    assert not any(tag == "img" or "onerror" in attrs for tag, attrs in page.tags)
