"""The paper's orderings on measured rows: counts, tests, corrections and verdicts, recounted from the parts."""

import csv
from pathlib import Path
from typing import Any

import pytest

from cachemend.calibration import paired_bootstrap
from cachemend.repair_core.arms import sweep_arms
from cachemend.warehouse.claims import CLAIMS, Claim, paper_count
from cachemend.warehouse.published import published
from cachemend.warehouse.report import write_report
from cachemend.warehouse.report.orderings import orderings
from cachemend.warehouse.report.rows import read_groups

from oracles.stats import holm, mcnemar_exact_p
from support.parts_count import read_rows
from support.report_pages import read
from support.report_rows import Setup, cases, failed, write_results

ALLOCATORS = ("sur", "dense-tokens", "max-relevance-window", "bm25-units", "infoflow", "speccache")
SKILL = {"sur": 30, "dense-tokens": 4, "bm25-units": 30, "infoflow": 40, "speccache": 1, "re-prefill": 33}
"""Of the 40 first-deleted cases, how many an arm answers: the first ones."""


def skilled(row: dict[str, Any]) -> dict[str, Any] | None:
    if row["case_id"] == "first-deleted-300-003" and row["arm"] == "bm25-units@2":
        return failed(row, "worker_died", "killed")
    if row["case_id"] == "first-deleted-300-000" and row["arm"] == "dense-tokens@5":
        return None
    if row["allocator"] == "speccache":
        row["auxiliary"] = "target"
    return row | {"em": float(row["seed"] < SKILL.get(row["allocator"], 20))}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("results")
    write_results(folder, Setup(arms=sweep_arms(ALLOCATORS, (2.0, 5.0, 10.0)), cases=cases(40, 8), change=skilled))
    return folder


def recount(results: Path) -> list[dict[str, Any]]:
    """What each claim should say, from the Parquet files and the oracle's tests."""
    outcome: dict[str, dict[str, float]] = {}
    for row in read_rows(results):
        if row["stratum"] == "first-deleted" and row["outcome"] == "ok":
            outcome.setdefault(row["arm"], {})[row["case_id"]] = row["em"]
    found = []
    for claim in CLAIMS:
        a = outcome.get(f"{claim.subject}@{claim.budget:g}", {})
        b = outcome.get(claim.other if claim.other == "re-prefill" else f"{claim.other}@{claim.budget:g}", {})
        common = a.keys() & b.keys()
        if common:
            gained, lost = (sum(s * a[c] > s * b[c] for c in common) for s in (1, -1))
            p = mcnemar_exact_p(gained, lost)
            right = (sum(a[c] for c in common), sum(b[c] for c in common))
            found.append({"claim": claim, "n": len(common), "right": right, "counts": (gained, lost), "p": p})
    for entry, adjusted in zip(found, holm([entry["p"] for entry in found]), strict=True):
        entry["holm"] = adjusted
    return found


def test_every_measured_claim_is_recounted(results: Path) -> None:
    [rows] = read_groups(results).values()
    found, wanted = orderings(rows), recount(results)
    assert [o.claim for o in found] == [w["claim"] for w in wanted]
    assert {w["n"] for w in wanted} == {39, 40}
    for ordering, want in zip(found, wanted, strict=True):
        measured = ordering.measured
        assert (measured.n, measured.subject_right, measured.other_right) == (want["n"], *want["right"])
        assert (measured.repaired, measured.regressed) == want["counts"]
        assert measured.p == pytest.approx(want["p"])
        assert measured.adjusted == pytest.approx(want["holm"])
        assert measured.difference is not None
        points = 100 * (want["counts"][0] - want["counts"][1]) / want["n"]
        assert measured.difference.point == pytest.approx(points)
        assert measured.difference.low <= points <= measured.difference.high


def test_verdicts(results: Path) -> None:
    [rows] = read_groups(results).values()
    said = {(o.claim.subject, o.claim.other, o.claim.budget): o.verdict for o in orderings(rows)}
    for budget in (2.0, 5.0):
        assert said["sur", "dense-tokens", budget] == "holds"
        assert said["sur", "max-relevance-window", budget] == "holds"
        assert said["max-relevance-window", "dense-tokens", budget] == "holds"
        assert said["sur", "bm25-units", budget] == "not shown"
        assert said["sur", "infoflow", budget] == "reversed"
    assert said["sur", "re-prefill", 5.0] == "not contradicted"
    assert ("sur", "prophetkv", 2.0) not in said
    [rows] = read_groups(results).values()
    below = Claim("dense-tokens", "re-prefill", 5.0, "not below", "nowhere")
    assert [o.verdict for o in orderings(rows, [below])] == ["reversed"]


def test_the_interval_is_the_paired_bootstraps(results: Path) -> None:
    [rows] = read_groups(results).values()
    [ordering] = orderings(rows, [Claim("sur", "infoflow", 5.0, "above", "")])
    pairs = {row["case_digest"]: {} for row in read_rows(results) if row["stratum"] == "first-deleted"}
    for row in read_rows(results):
        if row["stratum"] == "first-deleted" and row["budget"] == 5.0:
            pairs[row["case_digest"]][row["allocator"]] = 100 * row["em"]
    a, b = ([pairs[case][name] for case in sorted(pairs)] for name in ("sur", "infoflow"))
    assert ordering.measured.difference == paired_bootstrap(a, b)


def test_another_auxiliary_model_is_another_arm(tmp_path: Path) -> None:
    for auxiliary, right in (("target", 0.0), ("abcdef0123456789", 1.0)):

        def known(row: dict[str, Any], auxiliary: str = auxiliary, right: float = right) -> dict[str, Any]:
            return row | ({"auxiliary": auxiliary, "em": right} if row["allocator"] == "speccache" else {})

        write_results(
            tmp_path,
            Setup(run_id=auxiliary, arms=sweep_arms(("sur", "speccache"), (5.0,)), cases=cases(9), change=known),
        )
    [rows] = read_groups(tmp_path).values()
    found = {o.measured.other.allocator: o.measured for o in orderings(rows) if o.claim.other == "speccache"}
    assert {name: measured.other_right for name, measured in found.items()} == {
        "speccache": 0,
        "speccache with abcdef0123456789": 9,
    }
    assert "SpecCache (adapted), auxiliary abcdef012345" in read(write_report(tmp_path)).text


def test_no_first_deleted_case_no_ordering(tmp_path: Path) -> None:
    write_results(tmp_path, Setup(cases=cases(0, 6)))
    [rows] = read_groups(tmp_path).values()
    assert orderings(rows) == []
    page = read(write_report(tmp_path))
    assert "so nothing is checked" in page.text
    assert (tmp_path / "report-orderings.csv").read_text().count("\n") == 1


@pytest.mark.parametrize(
    ("subject", "other", "budget", "counts"),
    [
        # "SUR exceeds the single-window control at 2 % on all five systems."
        ("sur", "max-relevance-window", 2.0, (5, 0, 0)),
        # "SUR exceeds BM25 at 2 % on four models."
        ("sur", "bm25-units", 2.0, (4, 0, 1)),
        # "On Llama-3.3-70B, however, InfoFlow-Motivated reaches 92.71 %."
        ("sur", "infoflow", 2.0, (4, 0, 1)),
        ("sur", "random-units", 2.0, (5, 0, 0)),
        # Qwen3-8B, GLM-4.5-Air and Qwen3-235B-A22B reach Re-prefill at 5 %.
        ("sur", "re-prefill", 5.0, (0, 3, 2)),
    ],
)
def test_paper_counts_the_text_repeats(subject: str, other: str, budget: float, counts: tuple[int, int, int]) -> None:
    [claim] = [c for c in CLAIMS if (c.subject, c.other, c.budget) == (subject, other, budget)]
    assert tuple(paper_count(claim)) == counts


def test_the_paper_shows_each_claim_on_most_models_or_does_not_deny_it() -> None:
    names = {row.allocator for row in published()}
    assert len(set(CLAIMS)) == len(CLAIMS) == 29
    for claim in CLAIMS:
        count = paper_count(claim)
        assert {claim.subject, claim.other} <= names
        assert count.models == 5
        if claim.relation == "above":
            assert count.above >= 3
        else:
            assert count.equal + count.above >= 3


def test_page_and_file_say_the_same(results: Path, tmp_path: Path) -> None:
    page = read(write_report(results, tmp_path / "page.html"))
    lines = list(csv.DictReader((tmp_path / "page-orderings.csv").open(encoding="utf-8")))
    wanted = recount(results)
    assert len(lines) == len(wanted)
    table = page.captioned(r"holds: \d+")
    shown = [row for row in table.rows[1:] if len(row) > 1]
    assert sorted(row[-1] for row in shown) == sorted(line["verdict"] for line in lines)
    assert "page-orderings.csv" in page.text
    for line, want in zip(lines, wanted, strict=True):
        assert (line["subject"], line["other"]) == (want["claim"].subject, want["claim"].other)
        assert (int(line["n"]), int(line["repaired"]), int(line["regressed"])) == (want["n"], *want["counts"])
        assert float(line["holm_p"]) == pytest.approx(want["holm"])
        assert line["model"] == "smollm2-135m"
    [infoflow] = [row for row in shown if row[0].startswith("SUR > InfoFlow") and row[1].startswith("4 of 5")]
    assert infoflow[1] == "4 of 5 1 the reverse"
    assert infoflow[2:7] == ["40", "30", "40", "0", "10"]
    assert infoflow[-1] == "reversed"
    assert [row[1] for row in shown if row[0].startswith("SUR ≥ Re-prefill")] == ["3 of 5 3 equal 2 the reverse"]
