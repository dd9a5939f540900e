"""Turn a budget into positions by a named allocator."""

from collections.abc import Callable

import numpy as np

from cachemend.repair_core.allocators.base import get_allocator
from cachemend.repair_core.budget import Tokens, repair_budget
from cachemend.repair_core.context import RepairContext
from cachemend.repair_core.intervals import Positions


def allocate(name: str, context: RepairContext, budget: float | str | Tokens) -> Positions:
    """Return the positions that `name` recomputes at `budget`.

    Args:
        name: an allocator, e.g. "sur".
        context: the edited context and its query; signals it lacks are computed and timed.
        budget: percent of the retained suffix, or ``Tokens(n)``.

    Returns:
        int64 [B], sorted unique positions in the edited context, exactly B of them (Eq. 3). Inserted tokens are never
        among them: they must be computed whatever the budget.

    Raises:
        InputError: unknown allocator (with the nearest name), or a budget outside 0..100.
    """
    allocator = get_allocator(name)
    return chosen_positions(name, allocator.select, context, repair_budget(context.deletion.suffix_length, budget))


def chosen_positions(
    name: str, select: Callable[[RepairContext, int], Positions], context: RepairContext, count: int
) -> Positions:
    """Return the `count` positions in the edited context that `select` chooses, and check that they are that many.

    Args:
        name: what chooses, for the error.
        select: as `Allocator.select`; not asked for none or for all.
        context: the edited context and its query.
        count: from 0 to the suffix length.
    """
    positions = context.deletion.suffix_positions
    length = positions.size
    if count == 0:
        return np.empty(0, dtype=np.int64)
    chosen = np.arange(length) if count == length else np.sort(select(context, count))
    if chosen.size != count or (np.diff(chosen) <= 0).any() or chosen[0] < 0 or chosen[-1] >= length:
        raise AssertionError(f"allocator {name!r} did not choose {count} distinct suffix positions")
    return positions[chosen]
