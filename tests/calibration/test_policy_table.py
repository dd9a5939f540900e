"""The derived table against a brute-force reading of its rule, hand-made cells and held-out arithmetic."""

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cachemend.calibration.intervals import paired_bootstrap
from cachemend.calibration.policy_table import (
    RE_PREFILL,
    CellChoice,
    Observations,
    derive_table,
    evaluate_table,
)

Row = tuple[str, str, object, str, float, float]
COST = {"span": 3.0, "edit-local@8": 11.0, "edit-local@32": 35.0, "sur@32": 35.0, RE_PREFILL: 500.0}


def observations(rows: list[Row]) -> Observations:
    cases, items, cells, arms, tokens, recovery = zip(*rows, strict=True)
    return Observations(cases=cases, items=items, cells=cells, arms=arms, tokens=tokens, recovery=recovery)


def cell(name: str, recovery: dict[str, float], n: int = 30, noise: float = 0.05, seed: int = 0) -> list[Row]:
    """A cell of n cases in which every arm recovers about what is given, and re-prefill everything."""
    rng = np.random.default_rng(seed)
    rows: list[Row] = []
    for i in range(n):
        case = f"{name}-{i}"
        rows += [(case, case, name, arm, COST[arm], m + noise * rng.normal()) for arm, m in recovery.items()]
        rows.append((case, case, name, RE_PREFILL, COST[RE_PREFILL], 1.0))
    return rows


NEAR = {"span": 0.1, "edit-local@8": 0.97, "edit-local@32": 1.0, "sur@32": 0.6}
MIDDLE = {"span": 0.1, "edit-local@8": 0.5, "edit-local@32": 1.0, "sur@32": 0.99}
FAR = {"span": 0.0, "edit-local@8": 0.0, "edit-local@32": 0.1, "sur@32": 0.2}


def test_each_cell_gets_the_cheapest_arm_that_is_good_enough() -> None:
    rows = cell("near", NEAR) + cell("middle", MIDDLE, seed=1) + cell("far", FAR, seed=2) + cell("few", NEAR, n=7)
    chosen = {choice.cell: choice for choice in derive_table(observations(rows))}
    assert list(chosen) == ["far", "few", "middle", "near"]
    assert {name: choice.arm for name, choice in chosen.items()} == {
        "near": "edit-local@8",
        "middle": "edit-local@32",  # as dear as sur@32, with the higher lower end
        "far": RE_PREFILL,
        "few": RE_PREFILL,
    }
    assert (chosen["near"].tokens, chosen["near"].n) == (11.0, 30)
    assert chosen["near"].low < chosen["near"].mean
    assert chosen["far"] == CellChoice("far", RE_PREFILL, 30, 1.0, 1.0, 500.0)
    by_eye = derive_table(observations(rows), excluded=["edit-local@8", "edit-local@32"])
    assert {c.cell: c.arm for c in by_eye}["middle"] == "sur@32"
    assert {c.cell: c.arm for c in by_eye}["near"] == RE_PREFILL


def test_a_high_mean_on_scattered_values_does_not_qualify() -> None:
    rows: list[Row] = [(f"c{i}", f"c{i}", "x", "edit-local@8", 11.0, 3.0 if i % 3 == 0 else 0.0) for i in range(30)]
    assert np.mean([row[-1] for row in rows]) == 1.0
    (choice,) = derive_table(observations(rows))
    assert (choice.arm, choice.tokens) == (RE_PREFILL, None)
    assert derive_table(observations(rows), target=0.1)[0].arm == "edit-local@8"


def test_items_not_cases_are_counted_and_resampled() -> None:
    rng = np.random.default_rng(4)
    level = 0.95 + 0.2 * rng.normal(size=12)
    rows: list[Row] = [
        (f"c{i:02}-{j}", f"i{i:02}", "x", "edit-local@8", 11.0, level[i]) for i in range(12) for j in range(5)
    ]
    assert derive_table(observations(rows), minimum=13, target=0.5)[0].arm == RE_PREFILL
    (choice,) = derive_table(observations(rows), minimum=12, target=0.5)
    values = np.repeat(level, 5)
    expected = paired_bootstrap(values, np.zeros(60), sources=np.repeat(np.arange(12), 5))
    assert (choice.mean, choice.low) == pytest.approx((expected.point, expected.low))
    assert choice.low < paired_bootstrap(values, np.zeros(60)).low, "as if the 60 were independent, it is narrower"


def test_an_arm_that_lacks_a_case_is_not_chosen() -> None:
    rows = cell("near", NEAR)
    rows = [row for row in rows if row[:1] + row[3:4] != ("near-4", "edit-local@8")]
    assert derive_table(observations(rows))[0].arm == "edit-local@32"


def test_held_out_numbers_are_those_of_following_the_table_by_hand() -> None:
    table = derive_table(observations(cell("near", NEAR) + cell("far", FAR)))
    held = cell("near", NEAR, n=25, seed=9) + cell("far", FAR, n=10, seed=8) + cell("unknown", NEAR, n=5, seed=7)
    found = evaluate_table(table, observations(held))
    follow = {"near": "edit-local@8", "far": RE_PREFILL, "unknown": RE_PREFILL}
    used = [row for row in held if follow[str(row[2])] == row[3]]
    assert len(used) == found.table.n == 40
    assert found.table.mean == pytest.approx(np.mean([row[-1] for row in used]))
    assert found.table.tokens == pytest.approx(np.mean([row[-2] for row in used]))
    assert found.table.re_prefilled == 15 / 40
    assert found.table.low < found.table.mean < found.table.high
    fixed = {result.arm: result for result in found.fixed}
    assert list(fixed) == sorted(COST)
    for arm, result in fixed.items():
        values = [row[-1] for row in held if row[3] == arm]
        assert (result.n, result.missing) == (40, 0)
        assert result.mean == pytest.approx(np.mean(values))
        assert (result.tokens, result.re_prefilled) == (COST[arm], float(arm == RE_PREFILL))
    cells = dict(found.by_cell)
    assert {name: r.n for name, r in cells.items()} == {"near": 25, "far": 10, "unknown": 5}
    assert cells["far"].mean == cells["unknown"].mean == 1.0


def test_what_was_not_measured_is_counted_beside() -> None:
    table = [CellChoice("near", "edit-local@8", 30, 1.0, 1.0, 11.0)]
    held = [row for row in cell("near", NEAR) if row[0] != "near-3" or row[3] == RE_PREFILL]
    found = evaluate_table(table, observations(held))
    assert (found.table.n, found.table.missing) == (29, 1)
    only_span = [row for row in held if row[3] == "span"]
    with pytest.raises(ValueError, match="on none of these cases"):
        evaluate_table(table, observations(only_span))
    with pytest.raises(ValueError, match="has two choices"):
        evaluate_table(table * 2, observations(held))


ROWS = st.lists(
    st.tuples(
        st.integers(0, 14), st.sampled_from(["a@8", "b@8", "c", RE_PREFILL]), st.integers(0, 6), st.floats(-1, 2)
    ),
    min_size=1,
    max_size=60,
    unique_by=lambda row: row[:2],
)


@settings(max_examples=60, deadline=None)
@given(ROWS, st.randoms(use_true_random=False))
def test_a_choice_is_what_its_rule_says_and_order_is_of_no_matter(rows: list, shuffler) -> None:  # type: ignore[no-untyped-def]
    full: list[Row] = [(f"c{c}", f"i{c // 2}", ("cell", c % 3), arm, float(t), r) for c, arm, t, r in rows]
    found = derive_table(observations(full), target=0.4, minimum=2, replicates=200)
    mixed = list(full)
    shuffler.shuffle(mixed)
    assert derive_table(observations(mixed), target=0.4, minimum=2, replicates=200) == found
    by_cell = defaultdict(set)
    for case, _, home, *_ in full:
        by_cell[home].add(case)
    for choice in found:
        cases = by_cell[choice.cell]
        measured = {arm: {r[0]: r for r in full if r[2] == choice.cell and r[3] == arm} for arm in ("a@8", "b@8", "c")}
        cheap = {}
        for arm, got in measured.items():
            items = {r[1] for r in got.values()}
            if set(got) == cases and len(items) >= 2:
                ordered = [got[c] for c in sorted(cases, key=repr)]
                codes = {item: i for i, item in enumerate(dict.fromkeys(r[1] for r in ordered))}
                band = paired_bootstrap(
                    [r[-1] for r in ordered],
                    np.zeros(len(ordered)),
                    sources=[codes[r[1]] for r in ordered],
                    replicates=200,
                )
                if band.low >= 0.4:
                    cheap[arm] = float(np.mean([r[-2] for r in ordered]))
        if cheap:
            assert cheap[choice.arm] == min(cheap.values())
        else:
            assert choice.arm == RE_PREFILL


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"recovery": [1.0, float("nan")]}, "recovery of 'b' on 'c2' is nan"),
        ({"tokens": [1.0]}, "lengths"),
        ({"cases": ["c1", "c1"], "arms": ["a", "a"], "items": ["i1", "i1"], "cells": ["x", "x"]}, "each once"),
        ({"cases": ["c1", "c1"], "items": ["i1", "i1"]}, "must agree"),
    ],
)
def test_bad_observations_are_named(change: dict, message: str) -> None:
    good = {
        "cases": ["c1", "c2"],
        "items": ["i1", "i2"],
        "cells": ["x", "y"],
        "arms": ["a", "b"],
        "tokens": [1.0, 2.0],
        "recovery": [0.0, 1.0],
    }
    with pytest.raises(ValueError, match=message):
        Observations(**{**good, **change})
    with pytest.raises(ValueError, match="not 0"):
        Observations(**{name: [] for name in good})
