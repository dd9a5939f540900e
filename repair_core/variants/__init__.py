"""Variants of SUR: labelled changes of one rule, kept apart from the allocators of the paper's comparison.

None of them joins `allocators.names()`: the sweep of 14 allocators is the paper's.
"""

from typing import NamedTuple

from cachemend.repair_core.allocators import allocate, get_allocator, names
from cachemend.repair_core.allocators.allocate import chosen_positions
from cachemend.repair_core.allocators.base import Signal
from cachemend.repair_core.budget import repair_budget
from cachemend.repair_core.context import RepairContext
from cachemend.repair_core.errors import InputError, nearest
from cachemend.repair_core.intervals import Positions
from cachemend.repair_core.locality import LOCALITY
from cachemend.repair_core.variants.catalogue import VARIANTS
from cachemend.repair_core.variants.variant import Variant

__all__ = ["VARIANTS", "Spent", "Variant", "check_rule", "signals_of", "spend"]


class Spent(NamedTuple):
    """The positions that a rule recomputes, and how many it was allowed."""

    positions: Positions
    allowance: int


def spend(name: str, context: RepairContext, percent: float) -> Spent:
    """Return what the allocator or variant called `name` recomputes at a percentage.

    Raises:
        InputError: unknown name (with the nearest), or a percentage outside 0..100.
    """
    if name not in VARIANTS:
        check_rule(name)
        allowance = repair_budget(context.deletion.suffix_length, percent)
        return Spent(allocate(name, context, percent), allowance)
    variant = VARIANTS[name]
    allowance = variant.allowance(context, percent)
    return Spent(chosen_positions(name, variant.select, context, allowance), allowance)


def signals_of(name: str) -> tuple[Signal, ...]:
    """What an allocator, a variant or the search for repair locality must know.

    Raises:
        InputError: unknown name.
    """
    if name == LOCALITY:
        return get_allocator("sur").signals
    check_rule(name)
    return VARIANTS[name].signals if name in VARIANTS else get_allocator(name).signals


def check_rule(name: str) -> None:
    """Raise InputError, with the nearest name, unless `name` is an allocator or a variant."""
    known = (*names(), *VARIANTS)
    if name not in known:
        raise InputError(f"allocator {name!r} is unknown; {nearest(name, known)}")
