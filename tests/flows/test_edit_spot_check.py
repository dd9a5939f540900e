"""The spot check of a run against a recount of its records."""

from dataclasses import fields
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from cachemend.flows.edit_spot_check import spot_checked
from cachemend.repair_core.spot_checking import sampled
from cachemend.tasks.edit_work import EditIdentity

from support.edit_rows import EditSetup, write_edit_results

SETUP = EditSetup(items=6, policies=("edit-local", "random", "edit-local-boundary", "causal-oracle"), ks=(8, 32))
ARMS = tuple(arm.name for arm in SETUP.arms)
REPAIRS = ("edit-local@8", "edit-local@32", "random@8", "random@32", "edit-local-boundary")


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[dict[str, Any]], EditIdentity]:
    folder = tmp_path_factory.mktemp("edits")
    rows = write_edit_results(folder, SETUP)
    return folder, rows, EditIdentity(**{field.name: rows[0][field.name] for field in fields(EditIdentity)})


def _check(stored: Any, fraction: float, seed: int = 0, arms: tuple[str, ...] = ARMS, digests: Any = None) -> Any:
    folder, rows, identity = stored
    covered = {row["case_digest"] for row in rows} if digests is None else digests
    return spot_checked(folder, identity, digests=covered, arms=arms, fraction=fraction, seed=seed)


def _repairs(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [row for row in rows if row["retained"] and row["arm"] in REPAIRS]


def test_everything_sampled_is_every_deployable_repair_of_a_retained_item(stored: Any) -> None:
    rows = _repairs(stored[1])
    found = _check(stored, 1)
    assert found.n == found.n_of == len(rows) == 5 * 3 * len(REPAIRS)
    assert found.tv == pytest.approx(fmean(row["tv_to_clean"] for row in rows))
    assert found.worst_tv == max(row["tv_to_clean"] for row in rows)
    off = [abs(row["margin"] - row["margin_clean"]) for row in rows]
    assert (found.margin, found.worst_margin) == (pytest.approx(fmean(off)), pytest.approx(max(off)))
    worst = next(row for row in rows if f"{row['case_id']} {row['arm']}" == found.worst)
    assert worst["tv_to_clean"] == found.worst_tv


def test_the_sample_is_drawn_by_seed_case_and_arm(stored: Any) -> None:
    rows = _repairs(stored[1])
    means = set()
    for seed in range(4):
        mine = [row for row in rows if sampled(f"{row['case_id']} {row['arm']}", 0.3, seed)]
        found = _check(stored, 0.3, seed)
        assert (found.n, found.n_of) == (len(mine), len(rows))
        assert found.tv == pytest.approx(fmean(row["tv_to_clean"] for row in mine))
        means.add(found.tv)
    assert len(means) == 4


def test_only_the_runs_own_cases_and_arms_count(stored: Any) -> None:
    one = next(row for row in stored[1] if row["retained"])
    found = _check(stored, 1, arms=("random@8",), digests={one["case_digest"]})
    assert (found.n, found.worst) == (1, f"{one['case_id']} random@8")
    assert _check(stored, 1, arms=("stale", "span", "clean")) is None


def test_a_sample_of_none_says_so(stored: Any) -> None:
    found = _check(stored, 1e-9)
    assert found.line == f"spot check, held-out: 0 of {len(_repairs(stored[1]))} repairs sampled"
    assert _check(stored, 1).line.startswith("spot check, held-out: 75 of 75 repairs sampled; TV to a re-prefill ")
