"""Variants against SUR: the view, the contrasts, the choice, the page's section and the command that freezes."""

import json
from collections.abc import Mapping
from pathlib import Path
from random import Random
from statistics import fmean
from typing import Any

import numpy as np
import pytest
from scipy.stats import binomtest

from cachemend.repair_core import described_variants
from cachemend.repair_core.arms import Arm, sweep_arms
from cachemend.repair_core.described_variants import DESCRIBED, Frozen
from cachemend.tasks import freeze_variants
from cachemend.tasks.freeze_variants import main
from cachemend.warehouse import store, variant_tests
from cachemend.warehouse.parts import write_part
from cachemend.warehouse.report import variants as section
from cachemend.warehouse.report import write_report
from cachemend.warehouse.report.rows import read_groups
from cachemend.warehouse.variant_tests import CHOICE_BUDGETS, Said, VariantContrast, chosen, contrast, contrasts

from support.parts_count import read_rows
from support.report_rows import Setup, cases, failed, record, write_results
from support.result_rows import case as case_row

NAMES = ("sur", "sur-tail", "windows-2", "whole-units", "matched-tokens")
LOCALITY_ARM = Arm(allocator="locality-upper-bound", budget=100.0)
ARMS = (*sweep_arms(NAMES, CHOICE_BUDGETS), LOCALITY_ARM)
TAIL = next(described for described in DESCRIBED if described.name == "sur-tail")


def write(results: Path, cohort: str, **more: Any) -> list[dict[str, Any]]:
    """A run over a cohort: SUR right in few cases, its tail variant in all."""

    def change(row: dict[str, Any]) -> dict[str, Any]:
        rng = Random(f"{cohort}/{row['case_id']}/{row['arm']}")
        right = {"sur": 0.2, "sur-tail": 1.0, "locality-upper-bound": 0.5}.get(row["allocator"], 0.2)
        return row | {"em": float(rng.random() < right)}

    setup = Setup(**{"cohort": cohort, "run_id": cohort, "arms": ARMS, "cases": cases(12), "change": change, **more})
    write_results(results, setup)
    rows = [case_row(cohort=cohort, cohort_digest=f"cohort-{cohort}", case_digest=c.digest, case_id=c.case_id)
            for c in setup.cases]  # fmt: skip
    write_part(results, "cases", rows)
    return read_rows(results)


def test_the_view_is_a_recount_of_the_pairs(tmp_path: Path) -> None:
    write(tmp_path, "questions-dev-before")
    write(tmp_path, "embedded")
    everything = write(tmp_path, "questions-real")
    rows = store.query(tmp_path, "FROM allocation_variants").to_pylist()
    assert {(row["cohort"], row["dev"], row["wording"]) for row in rows} == {
        ("questions-dev-before", True, "before"),
        ("questions-real", False, "real"),
    }
    assert len(rows) == 2 * 3 * 3, "sur-tail, windows-2 and whole-units, at three budgets"
    for row in rows:
        sides = [
            {r["case_digest"]: r for r in everything
             if r["allocator"] == name and r["budget"] == row["budget"] and r["cohort_digest"] == row["cohort_digest"]}
            for name in (row["allocator"], row["reference"])
        ]  # fmt: skip
        pairs = [(sides[0][c]["em"], sides[1][c]["em"]) for c in sides[0]]
        assert row["n"] == len(pairs) == 12
        assert (row["n_correct"], row["n_reference_correct"]) == tuple(sum(p[i] for p in pairs) for i in (0, 1))
        assert (row["repaired"], row["regressed"]) == (pairs.count((1.0, 0.0)), pairs.count((0.0, 1.0)))
        assert row["difference"] == pytest.approx(100 * fmean(a - b for a, b in pairs))
        nlls = [(sides[0][c]["gold_nll"], sides[1][c]["gold_nll"]) for c in sides[0]]
        assert row["nll_difference"] == pytest.approx(fmean(a - b for a, b in nlls), abs=1e-12)
        other = [sides[0][c]["positions"] != sides[1][c]["positions"] for c in sides[0]]
        assert row["n_other_positions"] == sum(other)
        assert row["mean_positions"] == pytest.approx(fmean(r["positions_budget"] for r in sides[0].values()))


def test_the_view_knows_every_variant(tmp_path: Path) -> None:
    names = ("sur", *(described.name for described in DESCRIBED))
    write(tmp_path, "questions-dev-after", arms=sweep_arms(names, (2.0,)), cases=cases(1))
    found = [
        (row["question"], row["allocator"], row["reference"], row["candidate"])
        for row in store.query(tmp_path, "FROM allocation_variants").to_pylist()
    ]
    # One of the two arms that are compared with each other stands for both.
    assert found == [(d.question, d.name, d.reference, d.candidate) for d in DESCRIBED if d.name != "matched-tokens"]


def test_failed_and_unrepaired_rows_are_no_pairs(tmp_path: Path) -> None:
    setup = Setup(cohort="questions-after", run_id="r", arms=ARMS, cases=cases(3))
    for case in setup.cases:
        rows = [record(setup, case, arm) for arm in ARMS]
        if case is setup.cases[0]:
            rows = [failed(row, "case_error", "no") if row["allocator"] == "sur" else row for row in rows]
        write_part(tmp_path, "records", rows)
        write_part(tmp_path, "records", [row | {"executor": "bottom-right"} for row in rows])
    write_part(tmp_path, "cases", [
        case_row(cohort="questions-after", cohort_digest="cohort-questions-after", case_digest=c.digest)
        for c in setup.cases
    ])  # fmt: skip
    rows = store.query(tmp_path, "SELECT n, allocator FROM allocation_variants WHERE budget = 2").to_pylist()
    assert {row["allocator"]: row["n"] for row in rows} == {"sur-tail": 2, "windows-2": 2, "whole-units": 3}


def test_repair_locality_is_infinite_where_nothing_was_found(tmp_path: Path) -> None:
    rows = write(tmp_path, "questions-after")
    mine = {r["case_digest"]: r for r in rows if r["allocator"] == "locality-upper-bound"}
    found = store.query(tmp_path, "FROM repair_locality").to_pylist()
    assert {row["case_digest"] for row in found} == set(mine)
    assert {row["reached"] for row in found} == {True, False}
    for row in found:
        own = mine[row["case_digest"]]
        expected = len(own["positions"]) / own["suffix_length"] if own["em"] == 1 else np.inf
        assert row["rho_upper_bound"] == expected
        assert row["n_positions"] == (len(own["positions"]) if own["em"] == 1 else None)


def scores(mine: Mapping[str, list[float]], theirs: Mapping[str, list[float]]) -> variant_tests.Scores:
    """One wording, three budgets, the same answers at each but for what is given per case."""
    arms: dict[tuple[str, float], dict[str, Said]] = {}
    for place, budget in enumerate(CHOICE_BUDGETS):
        arms["sur-tail", budget] = {case: Said(ems[place], 2.0 - ems[place]) for case, ems in mine.items()}
        arms["sur", budget] = {case: Said(ems[place], 2.5 - ems[place]) for case, ems in theirs.items()}
    return {"after": arms}


def test_the_case_is_the_unit_of_chance() -> None:
    mine = {"a": [1.0, 1.0, 1.0], "b": [1.0, 0.0, 1.0], "c": [0.0, 0.0, 0.0], "d": [1.0, 1.0, 1.0]}
    theirs = {"a": [0.0, 0.0, 0.0], "b": [0.0, 1.0, 0.0], "c": [0.0, 0.0, 1.0], "e": [1.0, 1.0, 1.0]}
    found = contrast(scores(mine, theirs), TAIL, CHOICE_BUDGETS)
    assert found is not None
    assert (found.n, found.better, found.worse) == (3, 2, 1), "d and e are no pairs"
    assert found.mine == pytest.approx(100 * (1 + 2 / 3 + 0) / 3)
    assert found.theirs == pytest.approx(100 * (0 + 1 / 3 + 1 / 3) / 3)
    assert found.difference.point == pytest.approx(found.mine - found.theirs)
    assert found.p == pytest.approx(binomtest(2, 3, 0.5).pvalue)
    assert found.nll.point == pytest.approx(-0.5 - found.difference.point / 100)
    one = contrast(scores(mine, theirs), TAIL, CHOICE_BUDGETS[1:2])
    assert one is not None
    assert (one.better, one.worse) == (1, 1)
    assert contrast({}, TAIL, CHOICE_BUDGETS) is None
    assert contrast(scores({"a": [1.0] * 3}, {"b": [1.0] * 3}), TAIL, CHOICE_BUDGETS) is None


def test_the_rule_of_the_choice() -> None:
    def found(name: str, point: float, better: int = 2, nll: float = 0.0) -> VariantContrast:
        described = next(d for d in DESCRIBED if d.name == name)
        difference, loss = (variant_tests.Interval(x, x, x, 9) for x in (point, nll))
        return VariantContrast(described, 9, 50.0, 50.0, 9, better, 1, difference, loss, 0.5)

    assert chosen([found("sur-head", 5), found("sur-tail", 9)]) == ("sur-tail", "sur-head")
    assert chosen([found("sur-head", -5), found("sur-tail", 9, better=1), found("sur-top-1", 0)]) == ()
    assert chosen([found("whole-units", 50), found("sur-of-prompt", 50)]) == (), "other allowances"
    many = ("sur-head", "sur-tail", "sur-backward", "sur-symmetric")
    assert chosen([found(name, 10 + i) for i, name in enumerate(many)]) == many[:0:-1]
    third = 100 / 3
    assert chosen([found("sur-head", third), found("sur-tail", 300 * third / 300, nll=-0.1)])[0] == "sur-tail"


def test_holm_covers_what_is_named(tmp_path: Path) -> None:
    write(tmp_path, "questions-dev-after")
    (rows,) = read_groups(tmp_path).values()
    screened = contrasts({"after": section.scores_of(rows)})
    assert [one.described.name for one in screened] == ["sur-tail", "windows-2", "matched-tokens", "whole-units"]
    assert all(one.p_holm is None for one in screened)
    family = ("sur-tail", "windows-2")
    found = {one.described.name: one for one in contrasts({"after": section.scores_of(rows)}, family=family)}
    assert found["whole-units"].p_holm is None
    assert found["whole-units"].difference.point == -found["matched-tokens"].difference.point
    p = {name: found[name].p for name in family}
    low, high = sorted(p, key=lambda name: p[name])
    assert found[low].p_holm == pytest.approx(min(1.0, 2 * p[low]))
    assert found[high].p_holm == pytest.approx(min(1.0, max(2 * p[low], p[high])))
    alone = {
        one.described.name: one.p_holm for one in contrasts({"after": section.scores_of(rows)}, family=("sur-tail",))
    }
    assert alone["sur-tail"] == pytest.approx(p["sur-tail"])
    assert alone["windows-2"] is None


def test_the_page_and_the_frozen_choice(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    results, out = tmp_path / "results", tmp_path / "frozen.json"
    for wording in ("before", "after"):
        write(results, f"questions-dev-{wording}")
    assert main([str(results), "--out", str(out)]) == 2
    assert "sur-head answered 0 of 24 development cases" in capsys.readouterr().err
    assert not out.exists()
    monkeypatch.setattr(freeze_variants, "require_complete", lambda view: None)
    assert main([str(results), "--out", str(out)]) == 0
    printed = capsys.readouterr().out
    assert "chosen: sur-tail" in printed
    content = json.loads(out.read_text())
    assert content["names"][0] == "sur-tail"
    assert sorted(content["cohorts"]) == ["cohort-questions-dev-after", "cohort-questions-dev-before"]
    page = write_report(results).read_text()
    assert page.count('<section id="variants">') == 1
    assert "The rule chooses sur-tail" in page

    write(results, "questions-real")
    monkeypatch.setattr(section, "read_frozen", lambda: Frozen(("sur-tail",), ()))
    page = write_report(results).read_text()
    assert "Chosen on development cases before: sur-tail" in page
    assert "smollm2-135m, float32, reported cases" in page
    monkeypatch.setattr(section, "read_frozen", lambda: Frozen((), ()))
    assert "No variant beat SUR on the development cases" in write_report(results).read_text()


def test_where_the_same_was_recomputed_nothing_was_compared() -> None:
    same, other = Said(1.0, 0.5, "[1, 2]"), Said(1.0, 0.5, "[2, 2]")
    arms = {("sur", b): {"a": same, "b": same} for b in CHOICE_BUDGETS}
    arms |= {("sur-tail", b): {"a": same, "b": other if b == CHOICE_BUDGETS[-1] else same} for b in CHOICE_BUDGETS}
    found = contrast({"after": arms}, TAIL, CHOICE_BUDGETS)
    assert found is not None
    assert (found.n, found.elsewhere) == (2, 1)


def test_cohorts_of_one_wording_are_not_pooled(tmp_path: Path) -> None:
    write(tmp_path, "questions-after")
    write(tmp_path, "questions-real")
    groups, names = read_groups(tmp_path), {"cohort-questions-after": "questions-after"}
    names["cohort-questions-real"] = "questions-after"
    views = section.variant_views(groups, names, tmp_path)
    assert [(len(view.identities), view.pooled[0].n) for view in views] == [(1, 12), (1, 12)]


@pytest.mark.parametrize(
    ("shares", "median"),
    [([40, 10, 20], 20), ([40, 10, 20, None], 30), ([None, 10, 20, None], None), ([None, 10, None], None)],
)
def test_the_median_locality(tmp_path: Path, shares: list[int | None], median: float | None) -> None:
    setup = Setup(cases=cases(len(shares)))
    percents = {case.digest: share for case, share in zip(setup.cases, shares, strict=True)}

    def change(row: dict[str, Any]) -> dict[str, Any]:
        share = percents[row["case_digest"]]
        return row | {"em": float(share is not None), "suffix_length": 100, "positions": list(range(share or 100))}

    arms = (*sweep_arms(("sur",), CHOICE_BUDGETS), LOCALITY_ARM)
    write(tmp_path, "questions-after", cases=setup.cases, arms=arms, change=change)
    groups = read_groups(tmp_path)
    (view,) = section.variant_views(groups, {"cohort-questions-after": "questions-after"}, tmp_path)
    assert view.locality is not None
    assert (view.locality.n, view.locality.n_reached) == (len(shares), len(shares) - shares.count(None))
    assert view.locality.median == (None if median is None else pytest.approx(median))


@pytest.mark.parametrize(
    "other", [{"attention": "eager"}, {"decoding": "greedy-8"}, {"score_rule": "another"}, {"dtype": "bfloat16"}]
)
def test_the_locality_is_that_of_the_same_settings(tmp_path: Path, other: dict[str, str]) -> None:
    arms = (*sweep_arms(("sur",), CHOICE_BUDGETS), LOCALITY_ARM)
    for name, settings, n in (("one", {}, 3), ("two", other, 5)):
        more = {"run_id": name, "cases": cases(n), "arms": arms}
        write(tmp_path, "questions-after", change=lambda row, settings=settings: row | settings, **more)
    views = section.variant_views(read_groups(tmp_path), {"cohort-questions-after": "questions-after"}, tmp_path)
    assert sorted(view.locality.n for view in views if view.locality) == [3, 5]


def test_nothing_to_freeze_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, "embedded")
    assert main([str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "cases=questions-dev-after" in error
    assert '<section id="variants">' not in write_report(tmp_path).read_text()


def test_what_was_frozen_is_part_of_the_package() -> None:
    frozen = described_variants.read_frozen()
    assert frozen.names is None or len(frozen.names) <= variant_tests.MOST
