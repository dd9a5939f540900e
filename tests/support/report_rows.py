"""Small, realistic result folders for the report: rows made by rule, written through the real parts."""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

from cachemend.repair_core.arms import Arm, sweep_arms
from cachemend.warehouse.parts import write_part

from support.case_texts import case_file_entry, digest

BEGAN = datetime(2026, 3, 4, 9, 30, tzinfo=UTC)
ALLOCATORS = ("sur", "dense-tokens", "max-relevance-window", "bm25-units", "random-units")
BUDGETS = (2.0, 5.0, 10.0, 20.0)
ARMS = sweep_arms(ALLOCATORS, BUDGETS)
_SKILL = {"sur": 0.9, "bm25-units": 0.8, "max-relevance-window": 0.7, "dense-tokens": 0.55, "random-units": 0.45}
_REFERENCE = {"dirty": 0.1, "shift": 0.45, "replay": 0.94, "re-prefill": 0.95}


@dataclass(frozen=True, kw_only=True)
class Case:
    """Enough of a case for its rows."""

    case_id: str
    stratum: str | None
    length: int
    seed: int

    @property
    def digest(self) -> str:
        return digest(case_file_entry(self.case_id, self.length - 4, self.seed))


@dataclass(frozen=True, kw_only=True)
class Setup:
    """One run over one model and cohort; `change` may edit or drop (None) any row before it is written."""

    model: str = "smollm2-135m"
    executor: str = "packed"
    run_id: str = "run-1"
    cohort: str = "embedded"
    arms: tuple[Arm, ...] = ARMS
    cases: tuple[Case, ...] = ()
    status: str = "done"
    change: Callable[[dict[str, Any]], dict[str, Any] | None] = field(default=lambda row: row)


def cases(first: int, control: int = 0, lengths: tuple[int, ...] = (300, 600, 900)) -> tuple[Case, ...]:
    """Return `first` first-deleted and `control` second-deleted cases, spread over the lengths."""
    made = []
    for stratum, count in (("first-deleted", first), ("second-deleted", control)):
        for index in range(count):
            length = lengths[index % len(lengths)]
            name = f"{stratum}-{length}-{index:03d}"
            made.append(Case(case_id=name, stratum=stratum, length=length, seed=index))
    return tuple(made)


def write_results(results: Path, setup: Setup) -> None:
    """Write the records, case by case, and the run's rows."""
    records = 0
    for case in setup.cases:
        rows = [row for arm in setup.arms if (row := setup.change(record(setup, case, arm))) is not None]
        records += len(rows)
        if rows:
            write_part(results, "records", rows)
    if setup.status:
        write_part(results, "runs", [run(setup, records)])


def record(setup: Setup, case: Case, arm: Arm) -> dict[str, Any]:
    """Return one row, drawn from the case and the arm alone."""
    rng = Random(f"{setup.model}/{case.case_id}/{arm.name}")
    hard = Random(f"{setup.model}/{case.case_id}").random()
    chance = _REFERENCE.get(arm.allocator, _SKILL.get(arm.allocator, 0.5))
    sparse = arm.budget is not None
    if arm.budget is not None:
        chance += 0.02 * (arm.budget / 5) if arm.allocator != "sur" else 0.01
    if case.stratum == "second-deleted":
        chance = 0.93
    suffix = int(case.length * 0.7)
    positions = max(1, -(-suffix * int(arm.budget or 0) // 100)) if sparse else None
    distance = max(0.0, 1.2 - chance + 0.3 * rng.random() - 0.3) if arm.allocator != "re-prefill" else 0.0
    spread = {"sur": 9, "bm25-units": 9, "random-units": 8, "max-relevance-window": 10_000}.get(arm.allocator, 1.3)
    return {
        "experiment": "erasing-niah",
        "cohort_digest": f"cohort-{setup.cohort}",
        "case_digest": case.digest,
        "case_id": case.case_id,
        "allocator": arm.allocator,
        "budget": arm.budget,
        "arm": arm.name,
        "auxiliary": None,
        "executor": setup.executor,
        "attention": "sdpa",
        "model": setup.model,
        "model_fingerprint": f"fingerprint-of-{setup.model}",
        "dtype": "float32",
        "decoding": "greedy-32",
        "score_rule": "niah-first-value-v1",
        "engine_version": 1,
        "run_id": setup.run_id,
        "worker": "worker-0",
        "recorded_at": BEGAN + timedelta(seconds=case.seed),
        "stratum": case.stratum,
        "length": case.length,
        "n_tokens": case.length - 4,
        "prefix_length": case.length - 4 - suffix,
        "deleted_length": 14,
        "suffix_length": suffix,
        "seed": case.seed,
        "positions_budget": positions,
        **_chosen(case.length - 4 - suffix, suffix, positions or 0, spread),
        "answer": "417282",
        "answer_ids": [1, 2, 3],
        "parsed": ["417282"],
        "gold": ["417282"],
        "em": float(hard * 0.5 + rng.random() * 0.5 < chance),
        "gold_nll": 0.2 + 2 * distance,
        "tv_to_clean": min(1.0, distance),
        "nr_tv": 1 - distance if sparse else None,
        "deleted_logprob": distance - 4,
        "leakage": distance,
        "token_layers": positions * 30 if positions else None,
        "causal_pairs": positions * case.length // 2 if positions else None,
        "t_prefill": case.length / 900 if arm.allocator in ("dirty", "re-prefill") else None,
        "t_signal": 0.004 if sparse else None,
        "t_allocate": 0.002 + 0.001 * rng.random() if sparse else None,
        "t_shift": 0.02 if sparse or arm.allocator == "shift" else None,
        "t_refresh": 0.2 + 0.01 * positions if positions else 0.7 if arm.allocator == "replay" else None,
        "t_query": None,
        "t_decode": None,
        "latency": None,
        "input_unchanged": True if sparse else None,
        "positions_exact": True if sparse else None,
        "unselected_bit_identical": True if sparse else None,
        "outcome": "ok",
        "error": None,
    }


def _chosen(prefix: int, suffix: int, count: int, spread: float) -> dict[str, Any]:
    """`count` suffix positions in runs of about `spread`, evenly apart."""
    if not count:
        return {"positions": [], "intervals": [], "n_intervals": 0}
    n_runs = max(1, round(count / spread))
    starts = [prefix + i * suffix // n_runs for i in range(n_runs)]
    sizes = [count // n_runs + (i < count % n_runs) for i in range(n_runs)]
    runs = [{"start": start, "stop": start + size} for start, size in zip(starts, sizes, strict=True)]
    positions = [at for run in runs for at in range(run["start"], run["stop"])]
    return {"positions": positions, "intervals": runs, "n_intervals": n_runs}


def failed(row: dict[str, Any], outcome: str, error: str) -> dict[str, Any]:
    """Turn a row into one of an arm that failed."""
    measured = ("em", "gold_nll", "tv_to_clean", "nr_tv", "deleted_logprob", "leakage")
    blank = dict.fromkeys((*measured, "answer", "answer_ids", "parsed"))
    return {**row, **blank, "outcome": outcome, "error": error}


def run(setup: Setup, n_records: int) -> dict[str, Any]:
    """Return a row of the run."""
    strata: dict[str, int] = {}
    for case in setup.cases:
        strata[str(case.stratum)] = strata.get(str(case.stratum), 0) + 4
    manifest = {
        "name": setup.cohort,
        "strata": strata,
        "n_candidates": len(setup.cases) * 4 + 3,
        "n_cases": len(setup.cases) * 4,
        "drops": _drops(["the edited text does not tokenize as p + s"] * 2 + ["the deleted span cuts a token"]),
        "case_digests": [case.digest for case in setup.cases],
    }
    return {
        "run_id": setup.run_id,
        "experiment": "erasing-niah",
        "status": setup.status,
        "started_at": BEGAN,
        "finished_at": None if setup.status == "running" else BEGAN + timedelta(minutes=7, seconds=31),
        "model": setup.model,
        "model_fingerprint": f"fingerprint-of-{setup.model}",
        "dtype": "float32",
        "cohort": setup.cohort,
        "cohort_digest": f"cohort-{setup.cohort}",
        "cohort_manifest": json.dumps(manifest),
        "config": json.dumps({"budgets": list(BUDGETS), "allocators": list(ALLOCATORS), "seed": 0}),
        "n_cases": len(setup.cases),
        "n_arms": len(setup.arms),
        "n_records": n_records,
        "n_failed": 0,
        "git_commit": "0123456789abcdef0123456789abcdef01234567",
        "git_dirty": True,
        "versions": json.dumps({"torch": "2.13.0", "transformers": "5.24.0"}),
        "hardware": json.dumps({"cpu": "Example CPU", "threads": 2, "gpus": []}),
        "seeds": json.dumps({"bootstrap": 20260928}),
        "timed_stages": ["t_signal: units and scores", "t_refresh: recomputation"],
        "engine_version": 1,
        "recorded_at": BEGAN + timedelta(minutes=8),
    }


def _drops(reasons: Iterable[str]) -> list[dict[str, str]]:
    return [{"candidate": f"candidate-{i}", "reason": reason} for i, reason in enumerate(reasons)]
