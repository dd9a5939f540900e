"""Recovery of arms and what makes a cell evidence, on records made by hand."""

from pathlib import Path
from statistics import fmean

import numpy as np
import pytest

from cachemend.tasks.analyse_recovery import recovery_rows
from cachemend.warehouse import store
from cachemend.warehouse.parts import write_part
from cachemend.warehouse.report.edits.cells import Cell, cells_of
from cachemend.warehouse.report.edits.rows import read_edit_groups

from oracles.edit_metrics import margin_recovery
from support.edit_observed import CLEAN, SETUP, SPAN, STALE, Row, observed, record
from support.edit_rows import BEGAN, ArmName, ItemCase, case_row, run_row

LOCAL, RANDOM = ArmName("edit-local", 8), ArmName("random", 32)


def cell_of(random: dict[int, float], span: float = 0.0, items: int = 40, **changes: object) -> list[Row]:
    """A cell whose Random recovers as told by K."""
    arms = [(SPAN, span), (CLEAN, 1.0)]
    arms += [(ArmName("random", k), value) for k, value in random.items()]
    return [record(item, arm, value, **changes) for item in range(items) for arm, value in arms]


def evidence(rows: list[Row], family: str | None = None, n_tokens: int = 2100) -> str | None:
    """What every row of the cell says alike."""
    [found] = {row["evidence"] for row in recovery_rows(observed(rows, n_tokens=n_tokens)) if row["family"] == family}
    return found  # type: ignore[no-any-return]


def test_the_figures_of_an_arm_are_those_of_its_retained_items() -> None:
    values = [0.2, 0.4, 0.9, 1.3, -0.1]
    gaps = [(-3.0, 3.0), (-1.0, 2.0), (-2.5, 0.5), (-1.0, 1.0), (-4.0, 4.0)]
    rows = [
        record(item, LOCAL, value, margin_stale=stale, margin_clean=clean, kl_recovery=value / 2)
        for item, (value, (stale, clean)) in enumerate(zip(values, gaps, strict=True))
    ]
    # Neither of these may move a figure: not retained, failed, transplanted, or of another K, distance and condition.
    rows += [record(9, LOCAL, 50.0, retained=False), record(9, CLEAN, 1.0, retained=False)]
    rows += [record(8, LOCAL, 60.0, outcome="case_error"), record(8, CLEAN, 1.0)]
    rows += [record(0, ArmName("edit-local", 8, "transplant"), 70.0), record(0, ArmName("edit-local", 16), 80.0)]
    rows += [record(0, LOCAL, 90.0, distance=64), record(0, LOCAL, 99.0, condition="direct")]

    found = {
        (row["condition"], row["distance"], row["arm"]): row
        for row in recovery_rows(observed(rows))
        if row["family"] is None
    }
    row = found["derived", 0, "edit-local@8"]
    margins = [(r["margin"], r["margin_stale"], r["margin_clean"]) for r in rows[:5]]
    assert row["n"] == 5
    assert row["n_of"] == 7
    assert row["n_retained"] == 6
    assert row["mean"] == pytest.approx(fmean(margin_recovery(*each) or 0.0 for each in margins)) != 0
    assert row["median"] == pytest.approx(0.4)
    assert row["ratio_of_means"] == pytest.approx(sum(m - s for m, s, _ in margins) / sum(c - s for _, s, c in margins))
    assert row["flip_rate"] == pytest.approx(2 / 5)
    assert row["kl_recovery"] == pytest.approx(fmean(values) / 2)
    assert row["low"] < row["mean"] < row["high"]
    assert found["derived", 0, "transplant:edit-local@8"]["mean"] == pytest.approx(70.0)
    assert found["derived", 0, "transplant:edit-local@8"]["diagnostic"]
    assert not row["diagnostic"]


def test_an_arm_without_a_retained_item_is_listed_without_figures() -> None:
    [row, _] = recovery_rows(observed([record(0, CLEAN, 1.0, retained=False)]))
    assert (row["n"], row["n_of"], row["n_retained"], row["mean"]) == (0, 1, 0, None)


@pytest.mark.parametrize(
    ("random", "span", "wanted"),
    [
        ({32: 0.05}, 0.0, None),
        ({32: 0.5}, 0.0, "MR of Random at K = 32 is 0.50, at most 0.15 is wanted"),
        ({8: 0.02, 32: 0.5}, 0.0, "MR of Random at K = 32 is 0.50, at most 0.15 is wanted"),
        ({8: 0.02, 32: 0.5, 64: 0.01}, 0.0, "MR of Random at K = 32 is 0.50, at most 0.15 is wanted"),
        ({32: 0.05, 64: 0.9}, 0.0, None),
        ({8: 0.02, 16: 0.3}, 0.0, "MR of Random at K = 16 is 0.30, at most 0.15 is wanted"),
        ({16: 0.02, 64: 0.4}, 0.0, "MR of Random at K = 64 is 0.40, at most 0.15 is wanted"),
        ({}, 0.0, "Random at K = 32 was not run"),
        ({32: 0.05}, 0.4, "MR of the span alone is 0.40, at most 0.15 is wanted"),
    ],
)
def test_the_controls_of_a_cell(random: dict[int, float], span: float, wanted: str | None) -> None:
    assert evidence(cell_of(random, span)) == wanted


def test_a_random_control_that_failed_is_not_replaced_by_another_k() -> None:
    rows = cell_of({8: 0.0, 32: 0.0})
    assert evidence(rows) is None
    broken = [row | {"outcome": "case_error"} if row["arm"] == "random@32" else row for row in rows]
    assert evidence(broken) == "Random at K = 32 was not run"


def test_transplanted_random_states_are_no_control() -> None:
    rows = cell_of({32: 0.5})
    rows += [record(item, ArmName("random", k, "transplant"), 0.0) for item in range(40) for k in (32, 64)]
    assert evidence(rows) == "MR of Random at K = 32 is 0.50, at most 0.15 is wanted"
    only = cell_of({}) + [record(item, ArmName("random", 32, "transplant"), 0.0) for item in range(40)]
    assert evidence(only) == "Random at K = 32 was not run"


def test_evidence_counts_retained_items_wordings_and_tokens() -> None:
    rows = cell_of({32: 0.0}, items=39)
    assert evidence(rows) == "retained items: 39 of the 40 wanted"
    assert evidence(rows + [record(50, arm, 0.0, retained=False) for arm in (STALE, CLEAN)]) == evidence(rows)
    assert evidence(cell_of({32: 0.0}, family="route")) == "wordings: 1 of the 3 wanted"
    assert evidence(cell_of({32: 0.0}, family="route"), family="route") is None
    assert "1,999 tokens" in str(evidence(cell_of({32: 0.0}), n_tokens=1999))


@pytest.mark.parametrize("condition", ["direct", "irrelevant"])
def test_only_a_derived_cell_claims_something(condition: str) -> None:
    assert evidence(cell_of({32: 0.9}, 0.9, items=2, condition=condition)) is None


@pytest.mark.parametrize(
    ("random", "span"),
    [({8: 0.0, 32: 0.5}, 0.0), ({8: 0.5, 64: 0.0}, 0.0), ({8: 0.0, 64: 0.5}, 0.0)],
)
def test_view_and_report_judge_a_cell_alike(tmp_path: Path, random: dict[int, float], span: float) -> None:
    rows = cell_of(random, span)
    found = observed(rows)
    stored = [
        {**{name: rows[0][name] for name in IDENTITY}, "recorded_at": BEGAN, **row} for row in recovery_rows(found)
    ]
    write_part(tmp_path, "edit_records", rows)
    write_part(tmp_path, "edit_cases", [case_row(SETUP, ItemCase(item, "derived", 0)) for item in range(40)])
    write_part(tmp_path, "runs", [run_row(SETUP)])
    write_part(tmp_path, "edit_recovery_rows", stored)
    view = store.query(tmp_path, "SELECT DISTINCT evidence FROM edit_recovery WHERE family IS NULL").to_pylist()
    [group] = read_edit_groups(tmp_path).values()
    [cell] = cells_of(group)
    assert isinstance(cell, Cell)
    assert [{"evidence": cell.shortfall}] == view == [{"evidence": evidence(rows)}]
    k = 32 if not random or 32 in random else max(random)
    assert f"MR of Random at K = {k}" in [check.name for check in cell.checks]


def test_the_order_of_the_records_changes_nothing() -> None:
    rows = cell_of({32: 0.1})
    rows = [row | {"margin": row["margin"] + row["seed"] / 100} for row in rows]
    mixed = [rows[i] for i in np.random.default_rng(3).permutation(len(rows))]
    assert recovery_rows(observed(mixed)) == recovery_rows(observed(rows))


IDENTITY = (
    *("experiment", "cohort_digest", "model", "model_fingerprint", "dtype", "decoding", "score_rule", "executor"),
    *("attention", "engine_version", "run_id", "split"),
)
