"""Effect mass and depth in a ranking: loops and hand numbers."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cachemend.calibration.operators import depth, effect_mass


def test_effect_mass_by_hand() -> None:
    found = effect_mass([1.0, -5.0, 2.0, 1.0, 4.0], [3, 4, 7, 8, 20], carrier=(7, 9), block=(3, 8))
    assert found == (3 / 8, 3 / 8, 8.0)
    assert effect_mass([1.0, 1.0], [8, 9], (8, 9), (0, 8)) == (0.5, 0.0, 2.0)  # half-open at both ends


def test_effect_mass_next_to_the_edit_counts_the_carrier_in_its_block() -> None:
    found = effect_mass([1.0, 2.0, 3.0], [5, 6, 7], carrier=(6, 8), block=(4, 8))
    assert (found.carrier, found.block) == (5 / 6, 1.0)


def test_without_a_positive_effect_there_are_no_shares() -> None:
    found = effect_mass([-1.0, 0.0], [1, 2], (0, 3), (0, 3))
    assert found.total == 0
    assert math.isnan(found.carrier)
    assert math.isnan(found.block)


@given(
    st.lists(st.tuples(st.floats(-3, 3), st.integers(0, 30)), min_size=1, max_size=20, unique_by=lambda t: t[1]),
    st.randoms(),
)
def test_effect_mass_against_a_loop(rows: list[tuple[float, int]], random) -> None:  # type: ignore[no-untyped-def]
    expected = sum(e for e, i in rows if e > 0 and 5 <= i < 12)
    total = sum(e for e, _ in rows if e > 0)
    random.shuffle(rows)
    effects, positions = zip(*rows, strict=True)
    found = effect_mass(effects, positions, carrier=(5, 12), block=(0, 31))
    assert found.total == pytest.approx(total)
    if found.total > 0:
        assert found.carrier == pytest.approx(expected / total)
        assert found.block == pytest.approx(1)


def test_depth_by_hand() -> None:
    assert depth([40, 10, 30, 20, 50], [10, 50, 20]) == (3, 3.0, 4.0, 4.5, 5)
    assert depth([7], [7]) == (1, 1.0, 1.0, 1.0, 1)


@given(st.permutations(range(12)), st.sets(st.integers(0, 11), min_size=1))
def test_depth_against_a_loop(ranking: list[int], wanted: set[int]) -> None:
    ranks = sorted(ranking.index(position) + 1 for position in wanted)
    found = depth(ranking, list(wanted))
    assert (found.n, found.deepest) == (len(ranks), ranks[-1])
    middle = len(ranks) // 2
    assert found.median == (ranks[middle] if len(ranks) % 2 else (ranks[middle - 1] + ranks[middle]) / 2)
    assert found.lower_quartile <= found.median <= found.upper_quartile


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: effect_mass([1.0], [1, 2], (0, 1), (0, 1)), "1 effects of 2 positions"),
        (lambda: effect_mass([1.0, 2.0], [1, 1], (0, 1), (0, 1)), "positions holds a position twice"),
        (lambda: effect_mass([1.0], [1], (3, 1), (0, 1)), "carrier ends at 1, before its start 3"),
        (lambda: effect_mass([math.inf], [1], (0, 1), (0, 1)), "effects holds"),
        (lambda: effect_mass([1.0], [1.5], (0, 1), (0, 1)), "whole positions"),
        (lambda: depth([1, 2], [3]), "lacks position 3"),
        (lambda: depth([1, 1], [1]), "ranking holds a position twice"),
        (lambda: depth([1], []), "wanted has shape"),
    ],
)
def test_bad_input_raises(call, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match=message):
        call()
