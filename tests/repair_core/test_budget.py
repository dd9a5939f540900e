import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cachemend.repair_core import InputError, Tokens, repair_budget
from cachemend.repair_core.intervals import causal_pairs, check_positions, maximal_intervals, token_layers

from oracles import budget as oracle
from oracles import counts as counts_oracle
from oracles import intervals as intervals_oracle

PERCENTS = (0, 0.1, 2, 5, 33.3, 99.9, 100)


@given(st.integers(0, 5000), st.sampled_from(PERCENTS))
def test_budget_equals_the_oracle(suffix: int, percent: float) -> None:
    assert repair_budget(suffix, percent) == oracle.budget(suffix, percent)


@given(st.integers(0, 5000), st.decimals(0, 100, places=4))
def test_any_decimal_is_exact(suffix: int, percent: object) -> None:
    assert repair_budget(suffix, str(percent)) == oracle.budget(suffix, str(percent))


def test_hand_computed_budgets() -> None:
    # 0.1 % of 3,000 is 3 exactly; the binary float 0.1 is slightly more and would give 4.
    assert repair_budget(3000, 0.1) == 3
    assert repair_budget(1, 0.1) == 1
    assert repair_budget(700, 5) == 35
    assert repair_budget(701, 5) == 36
    assert repair_budget(10, Tokens(64)) == 10
    assert repair_budget(100, Tokens(64)) == 64


@pytest.mark.parametrize(
    "bad",
    # A number of as many digits as the last two have would never be done.
    [
        *(-1, 100.5, "many", float("nan"), float("inf"), None, True, "٥", "1_0", "1/2", " 5", "5%", "0x5", "", "."),
        *("1e999999999", "1e-999999999"),
    ],
)
def test_bad_budgets_are_named(bad: object) -> None:
    with pytest.raises(InputError, match="budget"):
        repair_budget(100, bad)  # type: ignore[arg-type]


def test_negative_lengths_and_token_counts_are_refused() -> None:
    with pytest.raises(InputError, match="negative"):
        repair_budget(-1, 5)
    with pytest.raises(InputError, match="negative"):
        Tokens(-2)
    for bad in (True, False, 2.0, "2", None):
        with pytest.raises(InputError, match=f"budget of {bad!r} tokens is no whole number"):
            Tokens(bad)  # type: ignore[arg-type]
    assert Tokens(np.int64(3)) == Tokens(3)  # type: ignore[arg-type]
    assert type(Tokens(np.int64(3)).count) is int  # type: ignore[arg-type]
    for odd in (np.float32(2), np.bool_(True)):
        with pytest.raises(InputError, match="is no whole number"):
            Tokens(odd)  # type: ignore[arg-type]


@given(st.floats(0, 100))
def test_any_float_is_the_decimal_it_prints_as(percent: float) -> None:
    assert repair_budget(999, percent) == oracle.budget(999, percent) == repair_budget(999, str(percent))


@given(st.sets(st.integers(0, 300)))
def test_intervals_and_counts_equal_the_oracle(chosen: set[int]) -> None:
    positions = sorted(chosen)
    assert [tuple(run) for run in maximal_intervals(positions)] == intervals_oracle.intervals(positions)
    assert causal_pairs(positions) == counts_oracle.causal_pairs_absolute(positions)
    assert token_layers(positions, 30) == counts_oracle.token_layers(30, len(positions))


@pytest.mark.parametrize(
    "bad",
    [
        [3, 2],
        [1, 1],
        [-1, 2],
        [0, 9],
        [1.5],
        [1.0, 2.0],
        [0, 1.5],
        [float("nan")],
        ["1"],
        [True],
        [None],
        [[1], [2, 3]],
    ],
)
def test_bad_positions_are_refused(bad: list[int]) -> None:
    with pytest.raises(InputError, match="positions"):
        check_positions(bad, 9)


def test_the_position_that_is_no_whole_number_is_named() -> None:
    with pytest.raises(InputError, match=r"^positions hold 1\.5; give the whole numbers of tokens$"):
        check_positions([0, 1.5, 2.5], 9)  # type: ignore[list-item]
    for whole in ([1, 3], range(1, 4, 2), np.array([1, 3], dtype=np.uint8)):
        assert check_positions(whole, 9).tolist() == [1, 3]
    assert check_positions([], 9).dtype == np.int64
