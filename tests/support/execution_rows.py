"""Rows of the execution benchmark as a run leaves them, made by rule."""

from datetime import UTC, datetime
from typing import Any

Row = dict[str, Any]

SHARED: Row = {
    "experiment": "execution-bench",
    "model": "random:tiny",
    "model_fingerprint": "f" * 16,
    "dtype": "float32",
    "weights": "random",
    "engine_version": 2,
    "device": "cpu with 2 threads",
    "torch_version": "2.13.0",
    "timed_stages": ["refresh: all of it", "floor: the larger"],
    "how": "runs on cpu",
    "outcome": "ok",
    "error": None,
    "run_id": "run-1",
    "recorded_at": datetime(2026, 5, 6, 7, tzinfo=UTC),
    "n_warmup": 10,
    "peak_flops": 5e10,
    "bandwidth": 1e10,
}


def refresh_row(executor: str = "packed", attention: str = "sdpa", **more: Any) -> Row:
    """A refresh that took 30 ms, three times its floor of bytes without the copy."""
    return {
        **SHARED,
        **{"executor": executor, "attention": attention, "length": 2048, "rows": 64, "n_intervals": 4, "n_timed": 20},
        **{"causal_pairs": 65_568, "token_layers": 128, "pair_share_bound": 0.06},
        **{"seconds_median": 0.030, "seconds_low": 0.029, "seconds_high": 0.034},
        **{"floor_flops_seconds": 0.004, "floor_bytes_seconds": 0.010, "floor_copy_seconds": 0.002},
        **{"relative_l2": 1e-7, "input_unchanged": True, "unselected_bit_identical": True},
        **more,
    }


def attention_row(attention: str = "sdpa", **more: Any) -> Row:
    """An attention that took 1 ms, twice its floor of FLOPs."""
    return {
        **SHARED,
        **{"executor": "none", "attention": attention, "length": 8192, "rows": 64, "n_intervals": 16, "n_timed": 30},
        **{"query_heads": 4, "kv_heads": 2, "head_dim": 16, "causal_pairs": 262_176, "tolerance_used": 0.1},
        **{"seconds_median": 0.001, "seconds_low": 0.0009, "seconds_high": 0.002},
        **{"floor_flops_seconds": 0.0005, "floor_bytes_seconds": 0.0002},
        **more,
    }


def recovery_row(method: str = "repair", seconds: float = 0.05, **more: Any) -> Row:
    """A recovery of one context, of which the refresh is a half."""
    repairs = method == "repair"
    return {
        **SHARED,
        **{"executor": "packed" if repairs else "none", "attention": "sdpa" if repairs else "model"},
        **{"cohort_digest": "c" * 64, "case_digest": "d" * 64, "case_id": "one", "length": 300, "n_tokens": 290},
        **{"suffix_length": 270, "method": method, "budget": 5.0 if repairs else None, "rows": 14, "n_intervals": 2},
        **{"causal_pairs": 2000, "token_layers": 28, "pair_share_bound": 0.1, "n_warmup": 2, "n_timed": 5},
        **{"seconds_median": seconds, "seconds_low": seconds / 2, "seconds_high": 2 * seconds},
        **{"seconds_mean": seconds, "refresh_mean": seconds / 2},
        **{"floor_flops_seconds": 0.001, "floor_bytes_seconds": 0.01, "floor_copy_seconds": 0.003},
        **more,
    }


def one_of_each() -> dict[str, Row]:
    """A valid row of every table of the execution benchmark."""
    return {
        "refresh_timing_rows": refresh_row(),
        "attention_timing_rows": attention_row(),
        "recovery_timing_rows": recovery_row(),
    }
