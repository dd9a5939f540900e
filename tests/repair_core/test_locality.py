"""The search for the fewest positions that are enough, against the true minimum of small suffixes."""

from collections.abc import Sequence
from itertools import combinations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from cachemend.repair_core.intervals import Positions
from cachemend.repair_core.locality import enough_positions
from cachemend.repair_core.units import Unit

UNITS = (Unit(0, 4), Unit(4, 6), Unit(6, 9))


def searched(order: list[int], enough: set[frozenset[int]]) -> tuple[list[int] | None, list[frozenset[int]]]:
    asked: list[frozenset[int]] = []

    def reaches(sets: Sequence[Positions]) -> list[bool]:
        asked.extend(frozenset(chosen.tolist()) for chosen in sets)
        return [frozenset(chosen.tolist()) in enough for chosen in sets]

    found = enough_positions(UNITS, order, reaches)
    return (None if found is None else found.tolist()), asked


def supersets(*needed: int) -> set[frozenset[int]]:
    """Every set that holds all that is needed: success grows with the set."""
    rest = [i for i in range(9) if i not in needed]
    return {frozenset((*needed, *more)) for size in range(len(rest) + 1) for more in combinations(rest, size)}


@settings(deadline=None, max_examples=50)
@given(st.permutations([0, 1, 2]), st.sets(st.integers(0, 8), max_size=4))
def test_where_success_grows_with_the_set(order: list[int], needed: set[int]) -> None:
    found, _ = searched(order, supersets(*needed))
    assert found is not None
    assert needed <= set(found)
    assert len(found) >= len(needed), "an upper bound on the minimum, which is what is needed"
    touched = [unit for unit in UNITS if any(unit.start <= i < unit.stop for i in needed)]
    assert len(found) <= sum(unit.length for unit in touched), "units without a needed token are dropped"


@settings(deadline=None, max_examples=50)
@given(st.permutations([0, 1, 2]), st.sets(st.frozensets(st.integers(0, 8)), max_size=40))
def test_what_is_found_is_enough_and_was_tried(order: list[int], enough: set[frozenset[int]]) -> None:
    found, asked = searched(order, enough)
    if found is None:
        assert frozenset() not in enough
        assert not enough & set(asked)
    else:
        assert frozenset(found) in enough & set(asked)
        assert found == sorted(set(found))


def test_halves_by_hand() -> None:
    assert searched([0, 1, 2], supersets(3))[0] == [3], "the tail of the first unit, halved twice"
    assert searched([0, 1, 2], supersets(0))[0] == [0]
    assert searched([0, 1, 2], supersets(0, 3))[0] == [0, 1, 2, 3], "neither half is enough"
    assert searched([0, 1, 2], supersets(8))[0] == [8]
    assert searched([0, 1, 2], supersets())[0] == []
    assert searched([0, 1], supersets(8))[0] is None, "the ranking ends before what is needed"
    assert searched([], set())[0] is None


def test_indices_are_positions() -> None:
    found = enough_positions(UNITS, [1], lambda sets: [chosen.size > 0 for chosen in sets])
    assert isinstance(found, np.ndarray)
    assert found.dtype == np.int64
