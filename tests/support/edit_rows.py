"""Small, realistic result folders of the edit study: rows made by rule, written through the real parts."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from cachemend.warehouse.parts import write_part

BEGAN = datetime(2026, 4, 5, 9, 30, tzinfo=UTC)
KS = (8, 16, 32, 64)
OWN_LENGTH = {"edit-local-boundary": 27, "carrier-window": 12}
DIAGNOSTIC = ("causal-oracle", "carrier-window")
REFERENCES = ("stale", "span", "clean")
NEAR = {"edit-local": 0.98, "attention": 0.45, "cacheblend": 0.1, "structural": 0.06, "random": 0.03}
NEAR |= {"sur": 0.5, "causal-oracle": 0.3, "edit-local-boundary": 0.99, "carrier-window": 0.7}
FAR = {**dict.fromkeys(NEAR, 0.04), "attention": 0.3, "sur": 0.55, "causal-oracle": 0.2, "carrier-window": 0.65}
SPAN, CARRIER, BLOCK = (640, 643), (655, 662), 670
WORDS = ("stone", "harbour", "quiet", "lamp", "seven", "under", "the", "road", "copper", "late")


class ItemCase(NamedTuple):
    """One form of an item."""

    item: int
    condition: str
    distance: int
    split: str = "held-out"

    @property
    def case_id(self) -> str:
        return f"{self.split}-{self.item:03d}-{self.condition}-{self.distance}"

    @property
    def family(self) -> str:
        return ("route", "option", "shelf")[self.item % 3]


class ArmName(NamedTuple):
    """A policy at a K by an operator."""

    policy: str
    k: int | None
    operator: str = "recompute"

    @property
    def name(self) -> str:
        own = self.policy if self.k is None else f"{self.policy}@{self.k}"
        return f"transplant:{own}" if self.operator == "transplant" else own


@dataclass(frozen=True, kw_only=True)
class EditSetup:
    """One run over one model and cohort; `change` may edit or drop (None) any record before it is written."""

    model: str = "smollm2-135m"
    executor: str = "packed"
    run_id: str = "edit-1"
    items: int = 6
    forms: tuple[tuple[str, int], ...] = (("direct", 0), ("derived", 0), ("derived", 64))
    splits: tuple[str, ...] = ("held-out",)
    policies: tuple[str, ...] = ("edit-local", "attention", "random", "edit-local-boundary", "causal-oracle")
    ks: tuple[int, ...] = KS
    n_tokens: int = 2100
    unretained: int = 1
    change: Callable[[dict[str, Any]], dict[str, Any] | None] = field(default=lambda row: row)

    @property
    def cases(self) -> tuple[ItemCase, ...]:
        return tuple(
            ItemCase(item, condition, distance, split)
            for split in self.splits
            for item in range(self.items)
            for condition, distance in self.forms
        )

    @property
    def arms(self) -> tuple[ArmName, ...]:
        arms = [ArmName("stale", None, "none"), ArmName("span", None), ArmName("clean", None, "none")]
        for policy in self.policies:
            arms += [ArmName(policy, k) for k in ((None,) if policy in OWN_LENGTH else self.ks)]
        if "causal-oracle" in self.policies:
            arms += [ArmName(policy, 8, "transplant") for policy in ("causal-oracle", "edit-local")]
        return tuple(arms)

    def retained(self, case: ItemCase) -> bool:
        return case.item >= self.unretained


def recovery_of(case: ItemCase, arm: ArmName) -> float:
    """The margin recovery that a rule gives an arm, with noise that depends on the case alone."""
    if arm.policy in ("stale", "clean"):
        return float(arm.policy == "clean")
    noise = Random(f"{case.case_id} {arm.name}").gauss(0, 0.03)
    if case.condition == "direct":
        return 0.99 + noise / 10
    if arm.policy == "span":
        return noise / 3
    if arm.operator == "transplant":
        return (0.95 if arm.policy == "causal-oracle" else 0.05) + noise
    skill = (FAR if case.distance else NEAR)[arm.policy]
    share = 1.0 if arm.k is None else {8: 0.1, 16: 0.3, 32: 1.0, 64: 1.03}[arm.k]
    return skill * share + noise


def tokens(n_tokens: int, item: int) -> list[str]:
    """A context, token by token; the new value stands in the span and the answer in the carrier."""
    made = [f" {WORDS[(index * 7 + item) % len(WORDS)]}" for index in range(n_tokens)]
    made[0] = "Here"
    made[SPAN[0] : SPAN[1]] = [" Vel", "ora", "."]
    made[CARRIER[0]] = " Vantor"
    return made


def edit_record(setup: EditSetup, case: ItemCase, arm: ArmName) -> dict[str, Any]:
    """One row of `edit_records`."""
    reference = arm.policy in REFERENCES
    stale, clean = -3.0 - case.item % 4 / 10, 3.0 + case.item % 3 / 10
    recovery = recovery_of(case, arm)
    margin = stale + recovery * (clean - stale)
    count = 0 if reference else OWN_LENGTH.get(arm.policy, arm.k or 0)
    step = 1 if arm.policy.startswith("edit-local") else 2
    positions = [SPAN[1] + step * index for index in range(count)]
    intervals = (
        [{"start": SPAN[1], "stop": SPAN[1] + count}]
        if step == 1
        else [{"start": at, "stop": at + 1} for at in positions]
    )
    flip = recovery > 0.6
    return {
        "experiment": "edit-repair",
        "cohort_digest": "cohort-edits",
        "case_digest": f"digest of {case.case_id}",
        "case_id": case.case_id,
        "item_id": f"{case.split}-{case.item:03d}",
        "split": case.split,
        "condition": case.condition,
        "distance": case.distance,
        "family": case.family,
        "policy": arm.policy,
        "k": arm.k,
        "operator": arm.operator,
        "arm": arm.name,
        "executor": setup.executor,
        "attention": "sdpa",
        "engine_version": 1,
        "model": setup.model,
        "model_fingerprint": f"fingerprint of {setup.model}",
        "dtype": "float32",
        "decoding": "greedy-16",
        "score_rule": "flip/1",
        "worker": "worker-0",
        "run_id": setup.run_id,
        "recorded_at": BEGAN + timedelta(seconds=case.item),
        "seed": case.item,
        "n_tokens": setup.n_tokens,
        "span_start": SPAN[0],
        "span_stop": SPAN[1],
        "carrier_start": CARRIER[0],
        "carrier_stop": CARRIER[1],
        "block_stop": BLOCK,
        "pool_size": setup.n_tokens - 1 - SPAN[1],
        "positions": positions,
        "intervals": intervals if count else [],
        "n_positions": count,
        "n_intervals": len(intervals) if count else 0,
        "n_topup": 0,
        "answer": "Vantor." if flip else "Ostrel.",
        "answer_ids": [3, 1, 4],
        "old_answer": "Ostrel",
        "new_answer": "Vantor",
        "logprob_new": -1.0,
        "logprob_old": -1.0 - margin,
        "margin": margin,
        "margin_stale": stale,
        "margin_clean": clean,
        "margin_recovery": recovery,
        "flip": flip,
        "retained": setup.retained(case),
        "kl_to_clean": 2.0 * (1 - recovery) ** 2,
        "kl_recovery": 1 - (1 - recovery) ** 2,
        "tv_to_clean": abs(1 - recovery) / 2,
        "effect_in_carrier": 0.65 if arm.policy == "causal-oracle" else None,
        "effect_in_block": 0.02 if arm.policy == "causal-oracle" else None,
        "oracle_depth": 140.0 if arm.policy == "causal-oracle" else None,
        "embedding_features": None,
        "guards": json.dumps(_guards(case)) if arm.policy == "clean" else None,
        "token_layers": 30 * (3 + count),
        "causal_pairs": 700 * (3 + count),
        "t_signal": None if reference else 0.01,
        "t_choose": None if reference else 0.002,
        "t_refresh": None if reference else 0.05 + count / 1000,
        "input_unchanged": None if arm.policy in ("stale", "clean") else True,
        "positions_exact": None if arm.policy in ("stale", "clean") else True,
        "unselected_bit_identical": None if arm.policy in ("stale", "clean") else True,
        "upstream_bit_identical": None if arm.policy in ("stale", "clean") else True,
        "outcome": "ok",
        "error": None,
    }


def _guards(case: ItemCase) -> dict[str, str]:
    null = "failed: margins differ by 0.3, more than 0.001" if case.item == 0 else "passed"
    return {"cached-against-full": "passed", "reproduced": "passed", "null-content": null}


def failed(row: dict[str, Any], outcome: str = "case_error", error: str = "it broke") -> dict[str, Any]:
    """The record as an arm that failed leaves it."""
    measured = ("margin", "margin_recovery", "flip", "kl_to_clean", "kl_recovery", "tv_to_clean", "positions")
    return {**row, **dict.fromkeys((*measured, "intervals", "answer")), "outcome": outcome, "error": error}


def edit_records(setup: EditSetup) -> Iterator[list[dict[str, Any]]]:
    """The rows of every case; a case that is not retained has its references only."""
    for case in setup.cases:
        arms = setup.arms if setup.retained(case) else [arm for arm in setup.arms if arm.policy in REFERENCES]
        rows = [setup.change(edit_record(setup, case, arm)) for arm in arms]
        yield [row for row in rows if row is not None]


def case_row(setup: EditSetup, case: ItemCase, store_text: bool = True) -> dict[str, Any]:
    """One row of `edit_cases`."""
    record = edit_record(setup, case, ArmName("stale", None, "none"))
    names = "experiment cohort_digest case_digest case_id item_id split condition distance family seed n_tokens"
    names += " span_start span_stop carrier_start carrier_stop block_stop old_answer new_answer run_id recorded_at"
    made = tokens(setup.n_tokens, case.item)
    texts = {
        "context_text": "".join(made),
        "query_text": "Which driver has the active route?",
        "old_span_text": " Mirano.",
        "new_span_text": " Velora.",
    }
    stops, at = [], 0
    for token in made:
        at += len(token)
        stops.append(at)
    return {
        **{name: record[name] for name in names.split()},
        **(texts if store_text else dict.fromkeys(texts)),
        "token_stops": stops if store_text else None,
        "cohort": "embedded",
        "actual_distance": case.distance + 3,
    }


def run_row(setup: EditSetup, status: str = "done") -> dict[str, Any]:
    """The row of the run."""
    drops = [{"candidate": 3, "reason": "the edit is 9 tokens long under smollm2-135m"}]
    return {
        "run_id": setup.run_id,
        "experiment": "edit-repair",
        "status": status,
        "started_at": BEGAN,
        "finished_at": None if status == "running" else BEGAN + timedelta(hours=2),
        "model": setup.model,
        "model_fingerprint": f"fingerprint of {setup.model}",
        "dtype": "float32",
        "cohort": "embedded",
        "cohort_digest": "cohort-edits",
        "cohort_manifest": json.dumps({"n_cases": len(setup.cases), "n_candidates": 40, "drops": drops}),
        "config": json.dumps({"study": "main"}),
        "n_cases": len(setup.cases),
        "n_arms": len(setup.arms),
        "n_records": None,
        "n_failed": 0,
        "git_commit": None,
        "git_dirty": None,
        "versions": "{}",
        "hardware": "{}",
        "seeds": "{}",
        "timed_stages": ["t_refresh: span and positions"],
        "engine_version": 1,
        "recorded_at": BEGAN,
    }


def write_edit_results(results: Path, setup: EditSetup, store_text: bool = True) -> list[dict[str, Any]]:
    """Write the run, its cases and records; returns the records."""
    written = [row for rows in edit_records(setup) for row in rows]
    write_part(results, "edit_records", written)
    write_part(results, "edit_cases", [case_row(setup, case, store_text) for case in setup.cases])
    write_part(results, "runs", [run_row(setup)])
    return written


def identity(rows: Sequence[dict[str, Any]], *names: str) -> dict[str, Any]:
    """The columns that an analysis row shares with the records it was made from."""
    shared = "experiment cohort_digest model model_fingerprint dtype decoding score_rule executor attention"
    return {name: rows[0][name] for name in (*shared.split(), "engine_version", "run_id", "split", *names)}
