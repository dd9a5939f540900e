"""Limited runs, full runs, reruns, other models and other rules share one folder without mixing."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from cachemend.warehouse import store
from cachemend.warehouse.parts import finished_keys, write_part
from cachemend.warehouse.schemas import record_key

from support.result_rows import REFERENCES, failed, record

ARMS: list[tuple[str, float | None]] = [(name, None) for name in REFERENCES]
ARMS += [(name, budget) for name in ("sur", "dense-tokens") for budget in (2.0, 5.0)]


def compute(results: Path, run_id: str, n_cases: int, arms: list[tuple[str, float | None]] = ARMS, **same: Any) -> int:
    """Do what a run does: compute and write the missing arms of each case; return how many there were."""
    finished = finished_keys(results)
    computed = 0
    for index in range(n_cases):
        rows = [record(f"case-{index}", name, budget, run_id=run_id, **same) for name, budget in arms]
        missing = [row for row in rows if record_key(row) not in finished]
        computed += len(missing)
        if missing:
            write_part(results, "records", missing)
    return computed


def counts(results: Path, sql: str) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row.values()) for row in store.query(results, sql).to_pylist())


def assert_one_row_each(results: Path, expected: dict[str, int]) -> None:
    """Check one row per model, case and arm in `records`, `timings` and `niah_sweep`."""
    rows = counts(results, "SELECT model, score_rule, dtype, case_digest, arm FROM records")
    assert set(rows.values()) == {1}
    per_model = Counter(f"{model}/{rule}/{dtype}" for model, rule, dtype, *_ in rows)
    assert per_model == {name: n * len(ARMS) for name, n in expected.items()}
    assert set(counts(results, "SELECT record_key, component FROM timings").values()) == {1}
    sweep = store.query(results, "FROM niah_sweep").to_pylist()
    assert len(sweep) == len(expected) * len(ARMS)
    for row in sweep:
        assert row["n"] == row["n_of"] == expected[f"{row['model']}/{row['score_rule']}/{row['dtype']}"]


def test_limited_then_full_then_another_model_then_a_rerun(tmp_path: Path) -> None:
    assert compute(tmp_path, "limited", 6) == 6 * len(ARMS)
    assert_one_row_each(tmp_path, {"tiny/rule-1/float32": 6})
    assert compute(tmp_path, "full", 10) == 4 * len(ARMS), "the six cases are not computed again"
    assert_one_row_each(tmp_path, {"tiny/rule-1/float32": 10})
    other = {"model": "other", "model_fingerprint": "fingerprint of other"}
    assert compute(tmp_path, "other", 6, **other) == 6 * len(ARMS)
    assert_one_row_each(tmp_path, {"tiny/rule-1/float32": 10, "other/rule-1/float32": 6})
    assert compute(tmp_path, "rerun", 10) == 0
    assert_one_row_each(tmp_path, {"tiny/rule-1/float32": 10, "other/rule-1/float32": 6})
    assert compute(tmp_path, "rule", 3, score_rule="rule-2", em=0.0) == 3 * len(ARMS)
    assert compute(tmp_path, "precision", 2, dtype="bfloat16", em=0.0) == 2 * len(ARMS)
    assert_one_row_each(
        tmp_path,
        {
            "tiny/rule-1/float32": 10,
            "other/rule-1/float32": 6,
            "tiny/rule-2/float32": 3,
            "tiny/rule-1/bfloat16": 2,
        },
    )
    percents = counts(tmp_path, "SELECT DISTINCT score_rule, dtype, em_percent FROM niah_sweep")
    assert set(percents) == {("rule-1", "float32", 100.0), ("rule-2", "float32", 0.0), ("rule-1", "bfloat16", 0.0)}


def test_a_new_arm_computes_only_itself(tmp_path: Path) -> None:
    compute(tmp_path, "first", 4, ARMS[:-1])
    assert compute(tmp_path, "second", 4) == 4
    assert_one_row_each(tmp_path, {"tiny/rule-1/float32": 4})


def test_forced_rerun_replaces_and_does_not_add(tmp_path: Path) -> None:
    compute(tmp_path, "first", 3)
    for index in range(3):
        rows = [record(f"case-{index}", n, b, run_id="again", recorded_at=99, em=0.0) for n, b in reversed(ARMS)]
        write_part(tmp_path, "records", rows)
    assert_one_row_each(tmp_path, {"tiny/rule-1/float32": 3})
    assert counts(tmp_path, "SELECT DISTINCT run_id, em FROM records") == {("again", 0.0): 1}


def test_failures_are_listed_and_then_repaired(tmp_path: Path) -> None:
    write_part(tmp_path, "records", [failed("case-0"), failed("case-1", "refused")])
    rows = store.query(tmp_path, "SELECT n, n_of, n_failed, n_correct, em_percent FROM niah_sweep").to_pylist()
    assert rows == [{"n": 2, "n_of": 2, "n_failed": 2, "n_correct": 0, "em_percent": 0.0}]
    assert compute(tmp_path, "again", 2, [("sur", 5.0)], recorded_at=60) == 1
    rows = store.query(tmp_path, "SELECT case_id, outcome, error FROM records ORDER BY 1").to_pylist()
    assert rows == [
        {"case_id": "case-0", "outcome": "ok", "error": None},
        {"case_id": "case-1", "outcome": "refused", "error": "it broke"},
    ]


@pytest.mark.parametrize("experiment", ["natural-qa", "evidence-location"])
def test_other_experiments_are_no_sweep(tmp_path: Path, experiment: str) -> None:
    compute(tmp_path, "niah", 2)
    compute(tmp_path, "other", 2, experiment=experiment)
    assert store.query(tmp_path, "SELECT DISTINCT experiment, n FROM niah_sweep").to_pylist() == [
        {"experiment": "erasing-niah", "n": 2}
    ]
    assert len(counts(tmp_path, "SELECT record_key FROM records")) == 4 * len(ARMS)
