"""The views that stand beside the paper's Tables 12 and 13, and those tables' numbers."""

import re
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path

import pytest

from cachemend.repair_core.arms import sweep_arms
from cachemend.repair_core.executors import EXECUTORS, REPAIRING
from cachemend.warehouse import store
from cachemend.warehouse.parts import write_part
from cachemend.warehouse.published import NIAH_CASES, published

from support.parts_count import read_rows
from support.report_rows import Setup, cases, write_results
from support.result_rows import record

PAPER = Path(__file__).resolve().parents[2] / "../shared/papers/kv-cache-repair.txt"
ROLES = {
    "allocation_geometry": {
        "sur": "SUR",
        "dense-tokens": "Same-score tokens",
        "max-relevance-window": "Single relevance window",
        "bm25-units": "Same-unit BM25",
        "random-units": "Random units",
    },
    "alternative_policies": {
        "sur": "SUR",
        "prophetkv": "ProphetKV-Adapted",
        "infoflow": "InfoFlow-Motivated",
        "cache-craft": "Cache-Craft-Adapted",
        "cacheblend": "CacheBlend-Adapted",
    },
}
END = {"allocation_geometry": ("Table 12: ", "Table 13: "), "alternative_policies": ("Table 13: ", "Coherence helps")}


@pytest.mark.parametrize("view", ROLES)
def test_rows_are_a_recount_of_the_rules(tmp_path: Path, view: str) -> None:
    arms = sweep_arms((*ROLES["allocation_geometry"], *ROLES["alternative_policies"], "a3"), (2.0, 5.0))
    arms = tuple(dict.fromkeys(arms))
    for model in ("tiny", "other"):
        write_results(tmp_path, Setup(model=model, run_id=model, arms=arms, cases=cases(5, 2)))
    rows = store.query(tmp_path, f"FROM {view}").to_pylist()
    names = list(ROLES[view])
    settings = [("other", s, b) for s in ("first-deleted", "second-deleted") for b in (2.0, 5.0)]
    settings = sorted(settings + [("tiny", s, b) for _, s, b in settings], key=lambda k: (k[1], k[0], k[2]))
    order = [(row["stratum"], row["model"], row["budget"], row["allocator"]) for row in rows]
    assert order == [(s, m, b, name) for m, s, b in settings for name in names]
    parts = read_rows(tmp_path)
    for row in rows:
        mine = [r for r in parts if all(r[c] == row[c] for c in ("stratum", "model", "budget", "allocator"))]
        assert row["role"] == ROLES[view][row["allocator"]]
        assert row["arm"] == f"{row['allocator']}@{row['budget']:g}"
        assert (row["n"], row["n_of"]) == (len(mine), 5 if row["stratum"] == "first-deleted" else 2)
        assert row["n_correct"] == sum(r["em"] for r in mine)
        assert row["em_percent"] == pytest.approx(100 * row["n_correct"] / row["n"])
        assert row["mean_n_intervals"] == pytest.approx(sum(r["n_intervals"] for r in mine) / len(mine))


def test_settings_are_never_mixed(tmp_path: Path) -> None:
    for change in (
        {},
        {"score_rule": "rule-2"},
        {"engine_version": 2},
        {"experiment": "other"},
        {"executor": "interval"},
    ):
        write_part(tmp_path, "records", [record(**change)])
    rows = store.query(tmp_path, "SELECT n, experiment FROM allocation_geometry").to_pylist()
    assert rows == [{"n": 1, "experiment": "erasing-niah"}] * 4


@pytest.mark.parametrize("view", ROLES)
def test_an_executor_that_is_no_repair_stands_in_neither_table(tmp_path: Path, view: str) -> None:
    for name in EXECUTORS:
        write_part(tmp_path, "records", [record(executor=name)])
    shown, counted = (
        [row["executor"] for row in store.query(tmp_path, f"SELECT executor FROM {source}").to_pylist()]
        for source in (view, "niah_sweep")
    )
    assert sorted(shown) == sorted(REPAIRING)
    assert sorted(counted) == sorted(EXECUTORS)


def test_one_join_shows_paper_and_measurement(tmp_path: Path) -> None:
    write_part(tmp_path, "records", [record("case-0", "dense-tokens", 2.0, model="Qwen/Qwen3-8B", em=0.0)])
    sql = (
        "SELECT role, m.em_percent, p.value FROM allocation_geometry m JOIN published p USING (experiment, model, arm)"
    )
    assert store.query(tmp_path, sql).to_pylist() == [{"role": "Same-score tokens", "em_percent": 0.0, "value": 7.29}]


@pytest.mark.skipif(not PAPER.exists(), reason="the paper's text is not here")
@pytest.mark.parametrize("view", ROLES)
def test_the_papers_short_tables_are_its_full_ones_rounded(view: str) -> None:
    """Tables 12 and 13 repeat cells of Tables 2-6, which `published` holds, so they are not stored twice."""
    text = PAPER.read_text()
    start, end = END[view]
    table = text[text.index(start) : text.index(end, text.index(start))]
    counts = {(row.model, row.arm): round(row.value * NIAH_CASES / 100) for row in published()}
    models = list(dict.fromkeys(row.model for row in published()))
    for allocator, role in ROLES[view].items():
        [line] = re.findall(rf"{re.escape(role)} ((?:\d+\.\d ){{10}})", table)
        exact = [Decimal(100 * counts[m, f"{allocator}@{b}"]) / NIAH_CASES for m in models for b in (2, 5)]
        assert [Decimal(value) for value in line.split()] == [e.quantize(Decimal("0.1"), ROUND_HALF_UP) for e in exact]
