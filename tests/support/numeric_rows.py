"""Rows of the numerical controls' tables, valid unless a test changes a column."""

from typing import Any

from support.result_rows import BEGAN


def repeat_row(case: str = "case-0", path: str = "re-prefill", cache: str = "built", **changes: Any) -> dict[str, Any]:
    """One build, or one decode from the shared cache."""
    own = {
        "cache": cache,
        "repeat": 1,
        "answer": "541001",
        "answer_ids": [5, 4, 1],
        "logits_sha256": "a" * 64,
        "argmax": 5,
        "gold_nll": 0.25,
    }
    return _changed(_shared(case, path) | own, changes)


def probe_row(case: str = "case-0", executor: str = "packed", **changes: Any) -> dict[str, Any]:
    """One executor on one case."""
    own = {
        "argmax_agreement": 1.0,
        "first_argmax_same": True,
        "logits_relative_l2": 0.01,
        "logits_max_abs": 0.5,
        "kv_relative_l2": 0.02,
        "kv_relative_l2_where": "layer 3 values",
        "kv_max_abs": 0.25,
        "fp32_logits_relative_l2": 0.005,
        "fp32_kv_relative_l2": 0.006,
        "budget_n": 10,
        "budget_n_over": 0,
        "budget_largest_ratio": 1.25,
        "budget_where": "layer 3 values maximum",
        "input_unchanged": True,
        "positions_exact": True,
        "unselected_bit_identical": True,
    }
    return _changed(_shared(case, "sur", executor) | own, changes)


def bound_row(case: str = "case-0", **changes: Any) -> dict[str, Any]:
    """The probed rows of one case: two layers, two heads."""
    own = {
        "n_probed": 4,
        "reproduced": 1e-6,
        "layer": [0, 0, 1, 1],
        "head": [0, 1, 0, 1],
        "position": [20, 20, 20, 20],
        "error_norm": [0.0, 0.1, 0.2, 0.4],
        "value_term": [0.01, 0.2, 0.3, 0.3],
        "bound_measured": [0.1, 1.0, 3.0, 2.0],
        "bound": [0.2, 2.0, 8.0, 4.0],
        "violated": [0, 0, 0, 0],
    }
    return _changed(_shared(case, "sur", "packed") | own, changes)


def one_of_each() -> dict[str, dict[str, Any]]:
    """One row of each of the three tables."""
    return {"repeat_records": repeat_row(), "probe_records": probe_row(), "bound_records": bound_row()}


def _shared(case: str, path: str, executor: str = "packed") -> dict[str, Any]:
    sparse = path == "sur"
    return {
        "experiment": "numerical-controls",
        "cohort_digest": "cohort",
        "case_digest": f"digest of {case}",
        "case_id": case,
        "path": path,
        "budget": 5.0 if sparse else None,
        "arm": f"sur@5 {executor}" if sparse else path,
        "executor": executor if sparse else "none",
        "attention": "sdpa",
        "engine_version": 1,
        "model": "tiny",
        "model_fingerprint": "fingerprint of tiny",
        "dtype": "bfloat16",
        "decoding": "greedy-32",
        "score_rule": "rule-1",
        "run_id": "run-1",
        "recorded_at": BEGAN,
        "worker": "worker-0",
        "stratum": "first-deleted",
        "length": 512,
        "n_tokens": 400,
        "suffix_length": 390,
        "n_positions": 20 if sparse else 0,
        "n_intervals": 2 if sparse else 0,
        "outcome": "ok",
        "error": None,
    }


def _changed(row: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    unknown = changes.keys() - row.keys()
    assert not unknown, f"no such column: {unknown}"
    return {**row, **changes}
