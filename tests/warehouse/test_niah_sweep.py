"""The sweep view against a recount in plain Python from the Parquet files."""

import math
import statistics
from collections import defaultdict
from pathlib import Path
from random import Random
from typing import Any

import pyarrow.parquet as pq
import pytest

from cachemend.warehouse import store
from cachemend.warehouse.parts import write_part

from support.result_rows import failed, record

SETTINGS = (
    "experiment",
    "cohort_digest",
    "stratum",
    "model",
    "model_fingerprint",
    "dtype",
    "score_rule",
    "decoding",
    "executor",
    "attention",
    "engine_version",
)
ARM = ("allocator", "budget", "auxiliary")
ARMS: list[tuple[str, float | None, str | None]] = [
    ("shift", None, None),
    ("sur", 2.0, None),
    ("sur", 5.0, None),
    ("dense-tokens", 5.0, None),
    ("speccache", 5.0, "target"),
    ("speccache", 5.0, "another model"),
]


def random_results(results: Path, seed: int) -> None:
    """Write cases of two models, cohorts, strata and executors, with gaps, failures, NULLs and later rows."""
    rng = Random(seed)
    for index in range(160):
        setting = {
            "model": (model := rng.choice(["tiny", "other"])),
            "model_fingerprint": f"fingerprint of {model}",
            "cohort_digest": rng.choice(["cohort", "another"]),
            "stratum": rng.choice(["first-deleted", "second-deleted", None]),
            "executor": rng.choice(["packed", "interval"]),
            "experiment": rng.choice(["erasing-niah", "erasing-niah", "natural-qa"]),
            "run_id": f"run-{rng.randrange(3)}",
        }
        rows = []
        for allocator, budget, auxiliary in rng.sample(ARMS, rng.randrange(1, len(ARMS) + 1)):
            setting["auxiliary"] = auxiliary
            seconds = rng.randrange(1000)
            name = f"case-{index % 40}"
            if rng.random() < 0.2:
                outcome = rng.choice(["case_error", "worker_died", "out_of_memory", "refused"])
                rows.append(failed(name, outcome, allocator=allocator, budget=budget, recorded_at=seconds, **setting))
                continue
            positions = sorted(rng.sample(range(10, 400), rng.randrange(9))) if budget else []
            measured = {
                "em": rng.choice([0.0, 1.0]),
                "gold_nll": rng.choice([None, rng.random() * 5]),
                "tv_to_clean": rng.random(),
                "nr_tv": rng.choice([None, rng.random() * 3 - 1]),
                "deleted_logprob": rng.choice([None, -rng.random() * 9]),
                "leakage": rng.choice([None, rng.random() * 9 - 4]),
                "positions": positions,
                "n_intervals": len(positions) // 2,
            }
            rows.append(record(name, allocator, budget, recorded_at=seconds, **measured, **setting))
        write_part(results, "records", rows)


def recount(results: Path) -> dict[tuple[Any, ...], dict[str, Any]]:
    """Return the sweep, keyed by settings and arm, from the files alone."""
    latest: dict[str, dict[str, Any]] = {}
    for path in sorted((results / "records").glob("*.parquet")):
        for row in pq.read_table(path).to_pylist():
            row["order"] = (row["recorded_at"], row["run_id"], path.name)
            old = latest.get(row["record_key"])
            if old is None or old["order"] < row["order"]:
                latest[row["record_key"]] = row
    groups: defaultdict[tuple[Any, ...], list[dict[str, Any]]] = defaultdict(list)
    cases: defaultdict[tuple[Any, ...], set[str]] = defaultdict(set)
    for row in latest.values():
        if row["experiment"] == "erasing-niah":
            setting = tuple(row[name] for name in SETTINGS)
            groups[(*setting, *(row[name] for name in ARM))].append(row)
            cases[setting].add(row["case_digest"])
    return {key: summary(rows, len(cases[key[: len(SETTINGS)]])) for key, rows in groups.items()}


def summary(rows: list[dict[str, Any]], n_of: int) -> dict[str, Any]:
    good = [row for row in rows if row["outcome"] == "ok"]
    correct = sum(row["em"] == 1 for row in good)
    defined = [row["nr_tv"] for row in good if row["nr_tv"] is not None]

    def mean(values: list[float | None]) -> float | None:
        numbers = [value for value in values if value is not None]
        return math.fsum(numbers) / len(numbers) if numbers else None

    return {
        "n": len(rows),
        "n_of": n_of,
        "n_failed": len(rows) - len(good),
        "n_correct": correct,
        "em_percent": 100 * correct / len(rows),
        "mean_gold_nll": mean([row["gold_nll"] for row in good]),
        "mean_tv_to_clean": mean([row["tv_to_clean"] for row in good]),
        "median_nr_tv": statistics.median(defined) if defined else None,
        "n_nr_tv": len(defined),
        "mean_deleted_logprob": mean([row["deleted_logprob"] for row in good]),
        "mean_leakage": mean([row["leakage"] for row in good]),
        "mean_n_intervals": mean([row["n_intervals"] for row in good]),
        "mean_positions": mean([len(row["positions"]) for row in good]),
    }


@pytest.mark.parametrize("seed", range(3))
def test_sweep_agrees_with_a_recount(tmp_path: Path, seed: int) -> None:
    random_results(tmp_path, seed)
    expected = recount(tmp_path)
    rows = store.query(tmp_path, "FROM niah_sweep").to_pylist()
    found = {tuple(row[name] for name in (*SETTINGS, *ARM)): row for row in rows}
    assert len(found) == len(rows)
    assert found.keys() == expected.keys()
    assert len(found) > 40
    for key, row in found.items():
        assert row["arm"] == (row["allocator"] if row["budget"] is None else f"{row['allocator']}@{row['budget']:g}")
        for name, value in expected[key].items():
            assert row[name] == (None if value is None else pytest.approx(value, rel=1e-12, abs=1e-12)), (name, key)


def test_columns_are_as_documented(tmp_path: Path) -> None:
    write_part(tmp_path, "records", [record()])
    names = store.query(tmp_path, "FROM niah_sweep").column_names
    summaries = summary([record()], 1)
    assert names == [*SETTINGS, "allocator", "budget", "arm", "auxiliary", *summaries]


def test_partial_arms_show_n_of_N(tmp_path: Path) -> None:
    for index in range(4):
        rows = [record(f"case-{index}", "shift", None)]
        if index < 3:
            rows.append(record(f"case-{index}", em=float(index > 0)))
        write_part(tmp_path, "records", rows)
    rows = store.query(tmp_path, "SELECT arm, n, n_of, n_correct, em_percent FROM niah_sweep").to_pylist()
    assert rows == [
        {"arm": "shift", "n": 4, "n_of": 4, "n_correct": 4, "em_percent": 100.0},
        {"arm": "sur@5", "n": 3, "n_of": 4, "n_correct": 2, "em_percent": 200 / 3},
    ]
