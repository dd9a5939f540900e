"""The grid and the choice from it against the oracle's exhaustive search: every tie-break, and five ablations."""

import sys
from collections.abc import Sequence
from dataclasses import asdict
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cachemend.calibration.routing import (
    ABLATIONS,
    DEFAULT_GRID,
    REGENERATE_ALL,
    PolicyGrid,
    Thresholds,
    counting,
    select_policy,
    selection,
)
from cachemend.calibration.routing.ablations import Ablation

from oracles import routing_policy as oracle
from support.oracle_cases import BUDGETS, QUICK, RUNS, SMALL, WINDOWS, as_oracle, columns, notices

ALPHAS = st.sampled_from([0.0, 0.025, 0.1, 0.25, 0.29, 0.5])
PARTS = dict(enumerate((Ablation(name=""), *ABLATIONS)))
NOTHING = oracle.Outcome(1, 0, 0, 0, 0)
CASES = (
    RUNS.filter(lambda rows: len({row.valid for row in rows}) == 2),
    ALPHAS,
    st.tuples(BUDGETS, WINDOWS),
    st.sampled_from(sorted(PARTS)),
    st.integers(0, 999).map(Random),
)
POLICIES = [as_oracle(policy) for policy in SMALL]


def test_the_default_grid_in_the_order_of_its_ties() -> None:
    wanted = sorted(oracle.grid(), key=lambda policy: oracle.preference(policy, NOTHING), reverse=True)
    assert [as_oracle(policy) for policy in DEFAULT_GRID] == wanted


def compare_choice(
    rows: list[oracle.Candidate], alpha: float, limits: tuple[float, int | None], at: int, random: Random
) -> None:
    part, name = PARTS[at], ("", *oracle.ABLATIONS)[at]
    order = random.sample(range(len(rows)), len(rows))
    scores, valid, verdicts = columns(rows)
    found = select_policy(
        part.scores(scores),
        valid,
        verdicts,
        alpha=part.alpha(alpha),
        budget=limits[0],
        order=order,
        grid=part.grid(SMALL),
        window=limits[1],
    )
    queue = [rows[i] for i in order]
    wanted = oracle.choose(queue, POLICIES, alpha, limits[0], limits[1], name)
    assert ignoring(found.thresholds, name) == ignoring(wanted, name)
    run = oracle.replay(queue, wanted, limits[0], limits[1], name)
    assert (found.n, found.valid, found.invalid, found.calls, found.demand) == tuple(run)
    if not name:
        feasible = [oracle.feasible(oracle.replay(queue, p, *limits), alpha, limits[0]) for p in POLICIES]
        assert (found.policies, found.feasible) == (len(POLICIES), sum(feasible))


def ignoring(policy: Sequence[float], without: str) -> oracle.Policy:
    """Leave out what the ablation makes meaningless: ours has no such thresholds, the oracle's stand there unread."""
    known = as_oracle(Thresholds(*policy))
    if without == "uncertainty routing":
        return known._replace(upsilon_r=0, upsilon_v=0)
    return known._replace(tau_vc=known.tau_v) if without == "conflict threshold" else known


@QUICK
@given(*CASES)
def test_choice(
    rows: list[oracle.Candidate], alpha: float, limits: tuple[float, int | None], at: int, random: Random
) -> None:
    compare_choice(rows, alpha, limits, at, random)


def alike(**changes: Any) -> oracle.Candidate:
    return oracle.Candidate(1.0, 0.0, 0.0, False, True, "VALID")._replace(**changes)


TWO = {
    "tau_r": (0.5, 0.4),
    "delta_r": (0.3, 0.4),
    "upsilon_r": (0.3, 0.4),
    "tau_v": (0.3, 0.2),
    "tau_v_conflict": (0.5, 0.4),
    "delta_v": (0.6, 0.7),
    "upsilon_v": (0.6, 0.7),
}


@pytest.mark.parametrize("axis", TWO)
@pytest.mark.parametrize("reverse", [False, True])
def test_each_tie_alone(axis: str, reverse: bool) -> None:
    """Two policies that differ in one threshold and do the same; the stricter one is taken, however they are listed."""
    values = {name: two[: 1 + (name == axis)] for name, two in TWO.items()}
    grid = PolicyGrid(**{name: two[::-1] if reverse else two for name, two in values.items()})
    # The first is returned directly, the second only by the verifier, and nothing returns the third.
    rows = [alike(), alike(h=True), alike(s=0.0, valid=False)]
    scores, valid, verdicts = columns(rows)
    found = select_policy(scores, valid, verdicts, alpha=0, budget=1, order=range(3), grid=grid)
    assert (found.valid, found.calls) == (2, 1)
    assert found.thresholds._asdict() == {name: two[0] for name, two in TWO.items()}
    assert as_oracle(found.thresholds) == oracle.choose(rows, [as_oracle(policy) for policy in grid], 0, 1)


class Backwards(PolicyGrid):
    """The loosest rules first."""

    @property
    def direct(self) -> Any:
        first, *others = super().direct
        return np.array([first, *others[::-1]])

    @property
    def verify(self) -> Any:
        first, *others = super().verify
        return np.array([first, *others[::-1]])


def mixed_up(a: str, b: str) -> Any:
    """Count one thing as another."""

    def count(*args: Any, **settings: Any) -> Any:
        found = COUNTS(*args, **settings)
        return found._replace(**{a: getattr(found, b), b: getattr(found, a)})

    return count


THIS = sys.modules[__name__]
ADD: Any = counting._add_window
WHOLE, COUNTS, MAY_REUSE = selection.whole_part, selection.count_policies, counting.may_reuse
FAULTS: dict[str, tuple[Any, str, Any]] = {
    "no budget": (counting, "_add_window", lambda *args: ADD(*args[:-1], 10**6)),
    "one call more": (counting, "_add_window", lambda *args: ADD(*args[:-1], args[-1] + 1)),
    "hits beyond the last call": (counting, "_lowest_bits", lambda words, count: words),
    "one window": (counting, "windows", lambda n, window: [(0, n)]),
    "below alpha": (selection, "whole_part", lambda rate, n: max(WHOLE(rate, n) - 2, 0)),
    "above alpha": (selection, "whole_part", lambda rate, n: WHOLE(rate, n) + 1),
    "conflicts reused": (
        counting,
        "may_reuse",
        lambda scores, *limits: MAY_REUSE(scores._replace(h=np.zeros_like(scores.h)), *limits),
    ),
    "calls for invalid hits": (selection, "count_policies", mixed_up("invalid", "calls")),
    "invalid for valid hits": (selection, "count_policies", mixed_up("valid", "invalid")),
    "the loosest of equals": (THIS, "SMALL", Backwards(**asdict(SMALL))),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_noticed(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*FAULTS[fault])
    assert notices(compare_choice, *CASES)


@pytest.mark.parametrize("at", range(1, 6))
def test_an_ablation_that_takes_out_nothing_is_noticed(at: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PARTS, at, PARTS[0])
    assert notices(compare_choice, *CASES)


def test_without_a_feasible_policy_everything_is_regenerated() -> None:
    rows = [alike(valid=False), alike(s=0.0)]
    scores, valid, verdicts = columns(rows)
    found = select_policy(scores, valid, verdicts, alpha=0, budget=1, order=[0, 1], grid=SMALL)
    assert as_oracle(found.thresholds) == oracle.choose(rows, POLICIES, 0, 1) == oracle.REGENERATE
    assert found.thresholds == REGENERATE_ALL
