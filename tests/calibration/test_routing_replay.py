"""Replay under the verifier budget: against a plain reading, and properties that hold in any order."""

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from hashlib import sha256
from math import floor
from threading import Barrier
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cachemend.calibration.errors import CalibrationError
from cachemend.calibration.routing import (
    REGENERATE,
    REUSE,
    VERIFY,
    TokenBucket,
    VerifierBudget,
    canonical_order,
    replay,
)

from oracles import routing_verdicts as oracle

QUICK = settings(max_examples=30, deadline=None)
BUDGETS = st.integers(0, 100).map(lambda percent: percent / 100)
WINDOWS = st.one_of(
    st.none(), st.integers(1, 12), st.integers(1, 5).map(lambda capacity: TokenBucket(capacity=capacity))
)


@st.composite
def runs(draw: st.DrawFn) -> tuple[list[int], list[bool], list[int]]:
    n = draw(st.integers(1, 40))
    actions = draw(st.lists(st.sampled_from([REGENERATE, REUSE, VERIFY, VERIFY]), min_size=n, max_size=n))
    return actions, draw(st.lists(st.booleans(), min_size=n, max_size=n)), draw(st.permutations(range(n)))


def grants(wants: list[bool], budget: float, window: Any) -> list[bool]:
    if isinstance(window, TokenBucket):
        return oracle.bucket_grants(wants, budget, window.capacity)
    return oracle.window_grants(wants, budget, window)


@QUICK
@given(runs(), BUDGETS, WINDOWS)
def test_against_a_plain_reading(run: tuple[list[int], list[bool], list[int]], budget: float, window: Any) -> None:
    actions, verdicts, order = run
    found = replay(actions, verdicts, order, budget, window)
    granted = dict(zip(order, grants([actions[i] == VERIFY for i in order], budget, window), strict=True))
    for i, action in enumerate(actions):
        assert found.verified[i] == granted[i]
        assert found.accepted[i] == (action == REUSE or (granted[i] and verdicts[i]))
        assert found.action[i] == (REGENERATE if action == VERIFY and not granted[i] else action)
    assert found.demand == actions.count(VERIFY)


@QUICK
@given(runs(), BUDGETS, WINDOWS)
def test_the_budget_is_never_exceeded(run: tuple[list[int], list[bool], list[int]], budget: float, window: Any) -> None:
    actions, verdicts, order = run
    called = replay(actions, verdicts, order, budget, window).verified[order]
    assert called.sum() <= Fraction(str(budget)) * len(order)
    if isinstance(window, TokenBucket):
        for stop in range(1, len(order) + 1):
            assert called[:stop].sum() <= floor(Fraction(str(budget)) * stop)
    elif window is not None:
        for start in range(0, len(order), window):
            part = called[start : start + window]
            assert part.sum() <= floor(Fraction(str(budget)) * len(part))


@QUICK
@given(runs(), BUDGETS, WINDOWS)
def test_without_a_call_nothing_is_accepted_but_direct_reuse(
    run: tuple[list[int], list[bool], list[int]], budget: float, window: Any
) -> None:
    actions, verdicts, order = run
    found = replay(actions, [True] * len(actions), order, budget, window)
    refused = (np.array(actions) == VERIFY) & ~found.verified
    assert not found.accepted[refused].any()
    assert (found.action[refused] == REGENERATE).all()
    nothing = replay(actions, verdicts, order, 0.0, window)
    assert nothing.accepted.tolist() == [action == REUSE for action in actions]


@QUICK
@given(runs(), BUDGETS)
def test_verdicts_of_candidates_that_get_no_call_are_not_read(
    run: tuple[list[int], list[bool], list[int]], budget: float
) -> None:
    actions, verdicts, order = run
    found = replay(actions, verdicts, order, budget)
    changed = np.where(found.verified, verdicts, ~np.array(verdicts))
    assert replay(actions, changed, order, budget).accepted.tolist() == found.accepted.tolist()


@pytest.mark.parametrize(("budget", "n", "calls"), [(0.29, 100, 29), (0.57, 100, 57), (0.16, 645, 103), (1.0, 7, 7)])
def test_the_budget_is_the_decimal_that_was_written(budget: float, n: int, calls: int) -> None:
    """0.29 * 100 is 28.999999999999996 in binary floating point."""
    found = replay(np.full(n, VERIFY), np.ones(n, bool), np.arange(n), budget)
    assert (found.verified.sum(), found.demand) == (calls, n)
    assert found.verified[:calls].all()
    assert replay(np.full(n, VERIFY), np.ones(n, bool), np.arange(n), Fraction(str(budget))).verified.sum() == calls


def test_a_meter_that_serves_gives_what_replay_says() -> None:
    rng = np.random.default_rng(0)
    wanted = rng.random(600) < 0.4
    for window in (50, TokenBucket(capacity=4)):
        meter = VerifierBudget(0.29, window)
        online = [meter.take(bool(want)) for want in wanted]
        offline = replay(np.where(wanted, VERIFY, REGENERATE), np.ones(600, bool), np.arange(600), 0.29, window)
        assert online == offline.verified.tolist()


@pytest.fixture
def hasty_threads() -> Iterator[None]:
    """Threads take turns as often as the interpreter can, so that a missing lock shows."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("hasty_threads")
@pytest.mark.parametrize("window", [10, TokenBucket(capacity=10)])
def test_a_meter_shared_by_threads_gives_exactly_what_it_has(window: Any) -> None:
    meter = VerifierBudget(0.3, window)
    start = Barrier(4)

    def client(_: int) -> int:
        start.wait()
        return sum(meter.take(True) for _ in range(5000))

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(client, range(4))) == 6000


def test_the_canonical_order() -> None:
    ids = [f"pair-{i}" for i in range(50)]
    order = canonical_order(ids, 7)
    assert [ids[i] for i in order] == sorted(ids, key=lambda pair: sha256(f"7|{pair}".encode()).hexdigest())
    again = canonical_order(ids[::-1], 7)
    assert [ids[::-1][i] for i in again] == [ids[i] for i in order]
    assert canonical_order(ids, 8).tolist() != order.tolist()
    few = canonical_order(ids[:20], 7)
    assert [ids[i] for i in few] == [ids[i] for i in order if i < 20]
    assert canonical_order([], 7).shape == (0,)
    with pytest.raises(CalibrationError, match="'b' occurs twice"):
        canonical_order(["a", "b", "b"], 7)


def test_bad_input_raises() -> None:
    with pytest.raises(CalibrationError, match=r"budget is 1\.5"):
        replay([VERIFY], [True], [0], 1.5)
    with pytest.raises(CalibrationError, match="budget is nan"):
        VerifierBudget(float("nan"))
    with pytest.raises(CalibrationError, match="window is 0"):
        replay([VERIFY], [True], [0], 0.5, 0)
    with pytest.raises(CalibrationError, match="capacity is 0"):
        TokenBucket(capacity=0)
    with pytest.raises(ValueError, match="actions must"):
        replay([3], [True], [0], 0.5)
    with pytest.raises(ValueError, match="give 1 booleans"):
        replay([VERIFY], [1.0], [0], 0.5)
    for order in ([1], [0, 0], [0.0]):
        with pytest.raises(ValueError, match="no permutation"):
            replay([VERIFY], [True], order, 0.5)


def test_no_candidates_at_all() -> None:
    found = replay(np.zeros(0, np.int8), np.zeros(0, bool), np.zeros(0, int), 0.5)
    assert found.action.shape == (0,)
    assert found.demand == 0
