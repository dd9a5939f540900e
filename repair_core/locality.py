"""Repair locality from above: the fewest positions that a greedy search finds to be enough (paper Eq. 6)."""

from collections.abc import Callable, Sequence

import numpy as np

from cachemend.repair_core.intervals import Positions
from cachemend.repair_core.units import Unit

LOCALITY = "locality-upper-bound"
"""The arm of the search. It looks at answers, so it measures and cannot be deployed."""

Reaches = Callable[[Sequence[Positions]], list[bool]]


def enough_positions(units: Sequence[Unit], order: Sequence[int], reaches: Reaches) -> Positions | None:
    """Search a small set of suffix indices whose refresh reaches the target; None where the search finds none.

    Its share of the suffix is an upper bound on rho_tau: the true minimum is over all sets. The search takes SUR's
    ranked units 1, 2, 4, 8, ... at a time and the fewest between the last two; drops every unit that is not needed,
    the lowest ranked first; and halves each that is left, keeping its tail or else its head, while that is enough.
    Success need not grow with the set, so what lies between is not searched exhaustively.

    Args:
        units: partition of the suffix.
        order: ranked unit indices.
        reaches: whether the refresh of each of several sets of suffix indices reaches the target; the empty set is
            a cache that is not refreshed.
    """
    if reaches([np.empty(0, dtype=np.int64)])[0]:
        return np.empty(0, dtype=np.int64)
    count = _fewest(units, order, reaches)
    if count is None:
        return None
    kept = [units[index] for index in order[:count]]
    for unit in reversed(kept[:]):
        fewer = [other for other in kept if other != unit]
        if fewer and reaches([_indices(fewer)])[0]:
            kept = fewer
    for place in range(len(kept)):
        while (smaller := _halved(kept, place, reaches)) is not None:
            kept[place] = smaller
    return _indices(kept)


def _fewest(units: Sequence[Unit], order: Sequence[int], reaches: Reaches) -> int | None:
    """How many of the ranked units are enough: the first power of two, narrowed down by bisection."""
    if not order:
        return None
    low, high = 0, 1
    while not reaches([_indices([units[index] for index in order[:high]])])[0]:
        if high >= len(order):
            return None
        low, high = high, min(2 * high, len(order))
    while high - low > 1:
        middle = (low + high) // 2
        if reaches([_indices([units[index] for index in order[:middle]])])[0]:
            high = middle
        else:
            low = middle
    return high


def _halved(kept: Sequence[Unit], place: int, reaches: Reaches) -> Unit | None:
    unit = kept[place]
    if unit.length < 2:
        return None
    halves = [
        Unit(unit.stop - (unit.length + 1) // 2, unit.stop),
        Unit(unit.start, unit.start + (unit.length + 1) // 2),
    ]
    found = reaches([_indices([*kept[:place], half, *kept[place + 1 :]]) for half in halves])
    return next((half for half, enough in zip(halves, found, strict=True) if enough), None)


def _indices(units: Sequence[Unit]) -> Positions:
    return np.sort(np.concatenate([np.arange(unit.start, unit.stop) for unit in units]))
