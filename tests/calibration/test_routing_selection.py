"""Selection: against an exhaustive search in plain Python, with ties, caps, windows and the five ablations."""

from dataclasses import replace
from fractions import Fraction
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cachemend.calibration.errors import CalibrationError
from cachemend.calibration.routing import (
    ABLATIONS,
    DEFAULT_GRID,
    REGENERATE_ALL,
    PolicyGrid,
    RoutingScores,
    Thresholds,
    TokenBucket,
    outcome,
    replay,
    route,
    select_policy,
)
from cachemend.calibration.routing.ablations import Ablation

from oracles import routing_policy as oracle

# Few values on every axis, equal to those that scores take: many policies do the same, and ties decide.
SMALL = PolicyGrid(
    tau_r=(0.6, 0.8),
    delta_r=(0.2, 0.4),
    upsilon_r=(0.4, 0.8),
    tau_v=(0.4, 0.6),
    tau_v_conflict=(0.6, 0.8),
    delta_v=(0.4, 1.0),
    upsilon_v=(0.6, 1.0),
)
LEVELS = st.sampled_from([0.2, 0.4, 0.6, 0.8, 1.0])
ROW = st.tuples(
    LEVELS,
    LEVELS,
    LEVELS,
    st.booleans(),
    st.booleans(),
    st.sampled_from(["VALID", "VALID", "INVALID", " VALID", None]),
    LEVELS,
    st.sampled_from([False] * 9 + [True]),
).map(lambda row: oracle.Candidate(*row))
ROWS = st.lists(ROW, min_size=2, max_size=14).filter(lambda rows: len({row.valid for row in rows}) == 2)
RATES = st.sampled_from([0.0, 0.025, 0.1, 0.25, 0.5, 1.0])
BUDGETS = st.sampled_from([0.0, 0.16, 0.29, 0.3, 0.5, 1.0])
WITHOUT = dict(zip(oracle.ABLATIONS, ABLATIONS, strict=True)) | {"": Ablation(name="nothing")}


def columns(rows: list[oracle.Candidate]) -> tuple[RoutingScores, np.ndarray, np.ndarray]:
    s, d, u, h, valid, _, u_cal, empty = (np.array(column) for column in zip(*rows, strict=True))
    verdicts = np.array([row.output == "VALID" for row in rows])
    return RoutingScores(s, d, u, h, u_cal, empty), valid, verdicts


def policies(grid: PolicyGrid) -> list[oracle.Policy]:
    return [oracle.Policy(*policy) for policy in grid]


@settings(max_examples=25, deadline=None)
@given(ROWS, RATES, BUDGETS, st.one_of(st.none(), st.integers(1, 9)), st.randoms(use_true_random=False))
def test_against_an_exhaustive_search(
    rows: list[oracle.Candidate],
    alpha: float,
    budget: float,
    window: int | None,
    random: Random,
) -> None:
    order = random.sample(range(len(rows)), len(rows))
    scores, valid, verdicts = columns(rows)
    found = select_policy(scores, valid, verdicts, alpha=alpha, budget=budget, order=order, grid=SMALL, window=window)
    served = [rows[i] for i in order]
    wanted = oracle.choose(served, policies(SMALL), alpha, budget, window)
    runs = [oracle.replay(served, policy, budget, window) for policy in policies(SMALL)]
    assert found.policies == len(runs)
    assert found.feasible == sum(oracle.feasible(run, alpha, budget) for run in runs)
    if not found.feasible:
        assert wanted == oracle.REGENERATE
        assert found.thresholds == REGENERATE_ALL
        assert found[1:6] == (len(rows), 0, 0, 0, 0)
        return
    assert found.thresholds == wanted
    run = oracle.replay(served, wanted, budget, window)
    assert found[1:6] == (run.n, run.safe, run.unsafe, run.calls, run.demand)


@settings(max_examples=15, deadline=None)
@given(ROWS, BUDGETS, st.sampled_from(oracle.ABLATIONS))
def test_every_ablation_against_an_exhaustive_search(rows: list[oracle.Candidate], budget: float, without: str) -> None:
    scores, valid, verdicts = columns(rows)
    taken_out = WITHOUT[without]
    found = select_policy(
        taken_out.scores(scores),
        valid,
        verdicts,
        alpha=taken_out.alpha(0.0),
        budget=budget,
        order=range(len(rows)),
        grid=taken_out.grid(SMALL),
    )
    wanted = oracle.choose(rows, policies(SMALL), 0.0, budget, None, without)
    ours = oracle.Policy(*found.thresholds)
    if found.feasible:
        # Where limits count for nothing, the search ties over them; what the policy does must be the same.
        assert ours.tau_r == wanted.tau_r
        assert ours.tau_v == wanted.tau_v
        run = oracle.replay(rows, wanted, budget, None, without)
        assert found[1:6] == (run.n, run.safe, run.unsafe, run.calls, run.demand)
        replayed = replay(route(taken_out.scores(scores), found.thresholds), verdicts, range(len(rows)), budget)
        assert outcome(replayed, valid)[1:4] == (run.safe + run.unsafe, run.safe, run.unsafe)
    else:
        assert wanted == oracle.REGENERATE


@pytest.mark.parametrize("window", [None, 100, 64, 7, TokenBucket(capacity=3), TokenBucket(capacity=40)])
@pytest.mark.parametrize("n", [64, 65, 200])
def test_counts_are_those_of_a_replay_across_words_and_windows(n: int, window: Any) -> None:
    rng = np.random.default_rng(n)
    scores, valid, verdicts = random_case(rng, n)
    order = rng.permutation(n)
    for budget in (0.05, 0.16, 0.3):
        best = select_policy(scores, valid, verdicts, alpha=0.1, budget=budget, order=order, grid=SMALL, window=window)
        kept = []
        for policy in SMALL:
            replayed = replay(route(scores, policy), verdicts, order, budget, window)
            found = outcome(replayed, valid)
            assert replayed.verified.sum() <= Fraction(str(budget)) * n
            if found.fh <= 0.1:
                key = (-found.valid, found.invalid, int(replayed.verified.sum()))
                kept.append((key, policy, replayed.demand))
        least = min(key for key, _, _ in kept)
        policy, demand = next((policy, demand) for key, policy, demand in kept if key == least)
        assert best.feasible == len(kept)
        assert best.thresholds == policy
        assert (-best.valid, best.invalid, best.calls) == least
        assert best.demand == demand


def random_case(rng: np.random.Generator, n: int) -> tuple[RoutingScores, np.ndarray, np.ndarray]:
    valid = rng.random(n) < 0.5
    scores = RoutingScores(
        similarity=np.where(valid, rng.beta(8, 2, n), rng.beta(5, 3, n)),
        d=np.where(valid, rng.beta(1, 4, n), rng.beta(3, 3, n)),
        u=rng.random(n),
        h=rng.random(n) < np.where(valid, 0.3, 0.7),
        u_cal=rng.random(n) / 2,
        empty=rng.random(n) < 0.05,
    )
    return scores, valid, valid ^ (rng.random(n) < 0.1)


def test_the_default_grid_against_a_replay_of_a_sample_of_it() -> None:
    rng = np.random.default_rng(3)
    scores, valid, verdicts = random_case(rng, 300)
    order = rng.permutation(300)
    best = select_policy(scores, valid, verdicts, alpha=0.05, budget=0.16, order=order)
    again = outcome(replay(route(scores, best.thresholds), verdicts, order, 0.16), valid)
    assert (again.valid, again.invalid) == (best.valid, best.invalid)
    assert again.fh <= 0.05
    every = list(DEFAULT_GRID)
    for at in rng.choice(len(every), 300, replace=False).tolist():
        other = outcome(replay(route(scores, every[at]), verdicts, order, 0.16), valid)
        assert other.fh > 0.05 or other.valid <= best.valid


def alike(similarity: list[float]) -> RoutingScores:
    """Candidates that differ in nothing but similarity."""
    n = len(similarity)
    return RoutingScores(
        np.array(similarity), np.zeros(n), np.zeros(n), np.zeros(n, bool), np.zeros(n), np.zeros(n, bool)
    )


@pytest.mark.parametrize(("alpha", "hits"), [(0.29, 71), (0.2899, 0)])
def test_alpha_is_the_decimal_that_was_written(alpha: float, hits: int) -> None:
    """29 invalid of 100 accepted are 0.29, though 0.29 * 100 is below 29 in binary floating point."""
    valid = np.array([False] * 29 + [True] * 71)
    found = select_policy(alike([1.0] * 100), valid, np.zeros(100, bool), alpha=alpha, budget=0.0, order=range(100))
    assert found.valid == hits


def test_fewer_invalid_hits_are_worth_more_than_fewer_calls() -> None:
    """Direct reuse returns both responses without a call; verification returns the valid one at two calls."""
    labels = np.array([True, False])
    found = select_policy(alike([1.0, 1.0]), labels, labels, alpha=1, budget=1, order=[0, 1])
    assert (found.valid, found.invalid, found.calls) == (1, 0, 2)
    found = select_policy(alike([1.0, 1.0]), labels, np.ones(2, bool), alpha=1, budget=1, order=[0, 1])
    assert (found.valid, found.invalid, found.calls) == (1, 1, 0)


def test_of_policies_that_do_the_same_the_strictest_is_taken() -> None:
    found = select_policy(
        alike([1.0, 0.0]), np.array([True, False]), np.ones(2, bool), alpha=0, budget=0.3, order=[0, 1]
    )
    assert found.thresholds[:3] == (0.98, 0.02, 0.3)
    assert found.thresholds.tau_v == np.inf


def test_no_feasible_policy_regenerates_everything() -> None:
    """Every policy returns the invalid response: directly, or because the verifier says VALID."""
    scores = alike([1.0, 1.0])
    found = select_policy(scores, np.array([True, False]), np.ones(2, bool), alpha=0, budget=1, order=[0, 1])
    assert found == (REGENERATE_ALL, 2, 0, 0, 0, 0, 16480, 0)
    assert not replay(route(scores, found.thresholds), np.ones(2, bool), [0, 1], 1).accepted.any()


def test_ablations_change_what_they_name_and_nothing_else() -> None:
    rng = np.random.default_rng(0)
    scores, _, _ = random_case(rng, 20)
    conflicts, matching, routing, threshold, risk = ABLATIONS
    assert not conflicts.scores(scores).h.any()
    assert matching.scores(scores).u.tolist() == scores.u_cal.tolist()
    assert (matching.scores(scores).d == scores.d).all()
    grid = routing.grid(DEFAULT_GRID)
    assert {(policy.upsilon_r, policy.upsilon_v) for policy in grid if policy.tau_r < 2 and policy.tau_v < 2} == {
        (np.inf, np.inf)
    }
    assert threshold.grid(DEFAULT_GRID) == replace(DEFAULT_GRID, tau_v_conflict=None)
    assert (risk.alpha(0.0), conflicts.alpha(0.0)) == (1, 0.0)
    # A candidate without conditions is regenerated even where limits or conflicts count for nothing.
    empty = scores._replace(empty=np.ones(20, bool))
    everything = Thresholds(-1, np.inf, np.inf, -1, -1, np.inf, np.inf)
    assert all((route(taken_out.scores(empty), everything) == 0).all() for taken_out in ABLATIONS)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"valid": [True, True]}, "has 2 valid and 0 invalid pairs; it needs both kinds"),
        ({"valid": [False, False]}, "has 0 valid and 2 invalid pairs"),
        ({"alpha": -0.1}, "alpha is -0.1"),
        ({"budget": 2}, "budget is 2"),
        ({"order": [0, 0]}, "no permutation"),
        ({"verdicts": [True]}, "verdicts has shape"),
        ({"valid": [1, 0]}, "valid has shape .* give 2 booleans"),
        ({"window": -1}, "window is -1"),
        ({"window": TokenBucket(capacity=10**6), "budget": 1 / 3}, "too fine for a token bucket"),
    ],
)
def test_bad_input_raises(changes: dict[str, Any], message: str) -> None:
    two = np.ones(2)
    scores = RoutingScores(two, two, two, np.zeros(2, bool), two, np.zeros(2, bool))
    given_: dict[str, Any] = {
        "valid": [True, False],
        "verdicts": [True, True],
        "alpha": 0,
        "budget": 0.3,
        "order": [0, 1],
    } | changes
    error = ValueError if "shape" in message or "permutation" in message else CalibrationError
    with pytest.raises(error, match=message):
        select_policy(scores, given_.pop("valid"), given_.pop("verdicts"), **given_)
