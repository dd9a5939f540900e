"""Two views of the numerical controls against plain recounts of generated rows: settings, strata, failures, gaps."""

from collections import defaultdict
from collections.abc import Iterable
from itertools import combinations, product
from math import comb
from pathlib import Path
from statistics import fmean, median
from typing import Any

import numpy as np
import pytest

from cachemend.warehouse import store
from cachemend.warehouse.parts import write_part

from support.numeric_rows import repeat_row
from support.result_rows import record

Rows = list[dict[str, Any]]
SETTINGS = (
    *("experiment", "cohort_digest", "stratum", "model", "model_fingerprint", "dtype", "decoding", "score_rule"),
    *("attention", "engine_version"),
)
VALUES = {"sequence": "answer_ids", "exact logits": "logits_sha256", "argmax": "argmax", "gold NLL": "gold_nll"}
VARIED = ({}, {"dtype": "float16"}, {"attention": "eager"}, {"stratum": None}, {"stratum": "last"})


def _name(case: int, settings: dict[str, Any]) -> str:
    # A case belongs to one stratum.
    return f"case-{case} {settings.get('stratum', '')}"


def _generated_repeats(seed: int) -> Rows:
    rng = np.random.default_rng(seed)
    rows = []
    arms = [("re-prefill", "built", {}), ("re-prefill", "shared", {}), ("replay", "built", {}), ("shift", "built", {})]
    arms += [
        ("sur", "built", {"executor": executor, "budget": budget, "arm": f"sur@{budget:g} {executor}"})
        for executor, budget in product(("packed", "interval"), (5.0, 20.0))
    ]
    for settings, case, (path, cache, more), repeat in product(VARIED, range(4), arms, (1, 2, 3)):
        if rng.random() < 0.015:
            continue
        said = {
            "answer_ids": rng.integers(2, size=2).tolist(),
            "logits_sha256": str(rng.integers(3)),
            "argmax": int(rng.integers(3)),
            "gold_nll": float(rng.integers(8)) / 4,
        }
        if rng.random() < 0.015:
            # A failure may hold what was measured before it.
            said |= {"outcome": "case_error", "error": "it broke"}
        rows.append(repeat_row(_name(case, settings), path, cache, repeat=repeat, **settings, **more, **said))
    return rows


def _recounted_repeats(rows: Rows) -> dict[tuple, dict[str, float]]:
    def apart(output: str, pairs: Iterable[tuple[Any, Any]]) -> float:
        if output == "gold NLL":
            return median(abs(a - b) for a, b in pairs)
        return 100 * fmean(a != b for a, b in pairs)

    everything: dict[tuple, Rows] = defaultdict(list)
    for row in rows:
        everything[tuple(row[name] for name in SETTINGS)].append(row)
    found: dict[tuple, dict[str, float]] = {}
    for settings, mine in everything.items():
        cases = sorted({row["case_digest"] for row in mine})
        for arm, output in product(sorted({r["arm"] for r in mine} - {"re-prefill"}), VALUES):
            figures = []
            for case in cases:

                def of(arm: str, cache: str, case: str = case, output: str = output, mine: Rows = mine) -> list[Any]:
                    said = {
                        r["repeat"]: r[VALUES[output]]
                        for r in mine
                        if (r["case_digest"], r["arm"], r["cache"], r["outcome"]) == (case, arm, cache, "ok")
                    }
                    return list(said.values())  # fmt: skip

                builds, clean, shared = of(arm, "built"), of("re-prefill", "built"), of("re-prefill", "shared")
                if len(builds) == len(clean) == len(shared) == 3:
                    three = [apart(output, combinations(each, 2)) for each in (shared, clean, builds)]
                    figures.append([*three, apart(output, product(builds, clean))])
            if figures:
                columns = np.array(figures).T
                excess = columns[3] - columns[1]
                found[*settings, arm, output] = {
                    "n": len(figures),
                    "n_of": len(cases),
                    **dict(zip(("shared", "re_prefill", "own", "cross_path"), columns.mean(axis=1), strict=True)),
                    "excess": excess.mean(),
                    "cross_path_median": np.median(columns[3]),
                    "excess_median": np.median(excess),
                }
    return found


@pytest.mark.parametrize("seed", [0, 1])
def test_numerical_repeats_over_generated_rows(tmp_path: Path, seed: int) -> None:
    rows = _generated_repeats(seed)
    write_part(tmp_path, "repeat_records", rows)
    expected = _recounted_repeats(rows)
    found = store.query(tmp_path, "FROM numerical_repeats").to_pylist()
    keys = [(*(row[name] for name in SETTINGS), row["arm"], row["output"]) for row in found]
    assert len(set(keys)) == len(keys)
    assert set(keys) == set(expected)
    assert min(row["n"] for row in found) < max(row["n"] for row in found)
    for key, row in zip(keys, found, strict=True):
        for name, value in expected[key].items():
            assert row[name] == pytest.approx(value, abs=1e-9), (key, name)


def _generated_answers(seed: int) -> Rows:
    rng = np.random.default_rng(seed)
    rows = []
    arms = [("sur", 5.0), ("sur", 20.0), ("recent-tokens", 5.0), ("shift", None)]
    executors = ("packed", "interval", "direct", "bottom-right")
    for settings, case, (allocator, budget), executor in product(VARIED, range(9), arms, executors):
        if rng.random() < 0.1:
            continue
        said: dict[str, Any] = {
            "em": float(rng.integers(2)),
            "answer": str(rng.integers(3)),
            "gold_nll": float(rng.random()),
            "tv_to_clean": float(rng.random()),
        }
        if budget is not None:
            said["positions"] = [10, 11, 20 + int(rng.random() < 0.2)]
        if rng.random() < 0.1:
            said |= {"outcome": "case_error", "error": "it broke"}
            said |= {"em": None, "gold_nll": None, "tv_to_clean": None} if rng.random() < 0.5 else {}
        rows.append(record(_name(case, settings), allocator, budget, executor=executor, **settings, **said))
    return rows


def _recounted_pairs(rows: Rows) -> dict[tuple, dict[str, Any]]:
    sides: dict[tuple, dict[str, dict[str, Any]]] = defaultdict(dict)
    for row in rows:
        place = (*(row[name] for name in SETTINGS), row["arm"], row["executor"])
        sides[place][row["case_digest"]] = row
    found: dict[tuple, dict[str, Any]] = {}
    for (*place, executor), mine in sides.items():
        theirs = sides.get((*place, "interval"), {})
        both = [(mine[case], theirs[case]) for case in mine if case in theirs]
        if executor in ("interval", "bottom-right") or not both:
            continue
        pairs = [(a, b) for a, b in both if a["outcome"] == b["outcome"] == "ok"]
        ems = [(a["em"], b["em"]) for a, b in pairs]
        only, other = ems.count((1, 0)), ems.count((0, 1))
        tail = sum(comb(only + other, i) for i in range(min(only, other) + 1)) / 2 ** (only + other)
        nlls = [abs(a["gold_nll"] - b["gold_nll"]) for a, b in pairs]
        found[*place, executor] = {
            "n_of": len(both),
            "n": len(pairs),
            "both_right": ems.count((1, 1)),
            "only_this": only,
            "only_interval": other,
            "both_wrong": ems.count((0, 0)),
            "p": min(1.0, 2 * tail),
            "same_text_percent": 100 * fmean(a["answer"] == b["answer"] for a, b in pairs),
            "n_other_positions": sum(a["positions"] != b["positions"] for a, b in pairs),
            "gold_nll_apart_median": median(nlls),
            "gold_nll_apart_high": max(nlls),
            "tv_apart_high": max(abs(a["tv_to_clean"] - b["tv_to_clean"]) for a, b in pairs),
        }
    return found


@pytest.mark.parametrize("seed", [0, 1])
def test_executor_pairs_over_generated_rows(tmp_path: Path, seed: int) -> None:
    rows = _generated_answers(seed)
    write_part(tmp_path, "records", rows)
    expected = _recounted_pairs(rows)
    found = store.query(tmp_path, "FROM executor_pairs").to_pylist()
    keys = [(*(row[name] for name in SETTINGS), row["arm"], row["executor"]) for row in found]
    assert len(keys) == len(VARIED) * 4 * 2
    assert len(set(keys)) == len(keys)
    assert set(keys) == set(expected)
    assert any(row["n"] < row["n_of"] for row in found)
    assert any(row["p"] < 1 for row in found)
    for key, row in zip(keys, found, strict=True):
        for name, value in expected[key].items():
            assert row[name] == pytest.approx(value, rel=1e-9), (key, name)
