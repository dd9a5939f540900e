"""Rows of the result tables, valid unless a test changes a column."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from cachemend.warehouse.parts import write_part

BEGAN = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
REFERENCES = ("dirty", "shift", "replay", "re-prefill")


def record(case: str = "case-0", allocator: str = "sur", budget: float | None = 5.0, **changes: Any) -> dict[str, Any]:
    """Return one record; `recorded_at` may be given as seconds after `BEGAN`."""
    sparse = budget is not None
    row = {
        "experiment": "erasing-niah",
        "cohort_digest": "cohort",
        "case_digest": f"digest of {case}",
        "case_id": case,
        "allocator": allocator,
        "budget": budget,
        "arm": f"{allocator}@{budget:g}" if sparse else allocator,
        "auxiliary": None,
        "executor": "packed",
        "attention": "sdpa",
        "model": "tiny",
        "model_fingerprint": "fingerprint of tiny",
        "dtype": "float32",
        "decoding": "greedy-32",
        "score_rule": "rule-1",
        "engine_version": 1,
        "run_id": "run-1",
        "worker": "worker-0",
        "recorded_at": BEGAN,
        "stratum": "first-deleted",
        "length": 512,
        "n_tokens": 400,
        "prefix_length": 10,
        "deleted_length": 8,
        "suffix_length": 390,
        "seed": 3,
        "positions_budget": 3 if sparse else None,
        "positions": [10, 11, 20] if sparse else [],
        "intervals": [{"start": 10, "stop": 12}, {"start": 20, "stop": 21}] if sparse else [],
        "n_intervals": 2 if sparse else 0,
        "answer": "541001",
        "answer_ids": [5, 4, 1],
        "parsed": ["541001"],
        "gold": ["541001"],
        "em": 1.0,
        "gold_nll": 0.25,
        "tv_to_clean": 0.125,
        "nr_tv": 0.875,
        "deleted_logprob": -3.5,
        "leakage": 0.5,
        "token_layers": 90,
        "causal_pairs": 44,
        "t_prefill": 0.5,
        "t_signal": 0.01 if sparse else None,
        "t_allocate": 0.002 if sparse else None,
        "t_shift": 0.03,
        "t_refresh": 0.2 if sparse else None,
        "t_query": None,
        "t_decode": None,
        "latency": None,
        "input_unchanged": True if sparse else None,
        "positions_exact": True if sparse else None,
        "unselected_bit_identical": True if sparse else None,
        "outcome": "ok",
        "error": None,
    }
    return _changed(row, changes)


def failed(case: str = "case-0", outcome: str = "case_error", **changes: Any) -> dict[str, Any]:
    """Return the record of an arm that failed."""
    measured = ("em", "gold_nll", "tv_to_clean", "nr_tv", "deleted_logprob", "leakage")
    nothing = dict.fromkeys((*measured, "positions", "intervals", "n_intervals"))
    return record(case, **{**nothing, "outcome": outcome, "error": "it broke", **changes})


def case(name: str = "case-0", **changes: Any) -> dict[str, Any]:
    """Return one row of `cases`."""
    row = {
        "experiment": "erasing-niah",
        "cohort": "embedded",
        "cohort_digest": "cohort",
        "case_digest": f"digest of {name}",
        "case_id": name,
        "stratum": "first-deleted",
        "length": 512,
        "n_tokens": 400,
        "prefix_length": 10,
        "deleted_length": 8,
        "suffix_length": 390,
        "seed": 3,
        "gold": ["541001"],
        "context_text": None,
        "deleted_text": None,
        "query_text": None,
        "token_stops": None,
        "run_id": "run-1",
        "recorded_at": BEGAN,
    }
    return _changed(row, changes)


def run(name: str = "run-1", status: str = "done", **changes: Any) -> dict[str, Any]:
    """Return one row of `runs`."""
    row = {
        "run_id": name,
        "experiment": "erasing-niah",
        "status": status,
        "started_at": BEGAN,
        "finished_at": None if status == "running" else BEGAN + timedelta(seconds=60),
        "model": "tiny",
        "model_fingerprint": "fingerprint of tiny",
        "dtype": "float32",
        "cohort": "embedded",
        "cohort_digest": "cohort",
        "cohort_manifest": '{"n_cases": 6}',
        "config": '{"budgets": [2, 5]}',
        "n_cases": 6,
        "n_arms": 8,
        "n_records": None if status == "running" else 48,
        "n_failed": None if status == "running" else 0,
        "git_commit": None,
        "git_dirty": None,
        "versions": "{}",
        "hardware": "{}",
        "seeds": "{}",
        "timed_stages": ["t_shift: cut and rotation"],
        "engine_version": 1,
        "recorded_at": BEGAN if status == "running" else BEGAN + timedelta(seconds=60),
    }
    return _changed(row, changes)


def write_shards(results: Path, cases: range, **changes: Any) -> list[Path]:
    """Write one part per case, each with the four references and two budgets of SUR."""
    paths = []
    for index in cases:
        name = f"case-{index}"
        rows = [record(name, reference, None, **changes) for reference in REFERENCES]
        rows += [record(name, "sur", budget, **changes) for budget in (2.0, 5.0)]
        paths.append(write_part(results, "records", rows))
    return paths


ROWS_PER_SHARD = len(REFERENCES) + 2


def _changed(row: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    unknown = changes.keys() - row.keys()
    assert not unknown, f"no such column: {unknown}"
    if isinstance(changes.get("recorded_at"), int | float):
        changes = {**changes, "recorded_at": BEGAN + timedelta(seconds=changes["recorded_at"])}
    return {**row, **changes}
