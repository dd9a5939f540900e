"""What a line of the benchmark cannot be faster than: bytes over bandwidth, FLOPs over peak."""

import torch
from torch import nn

from cachemend.repair_core.architecture import text_config
from cachemend.repair_core.intervals import Positions
from cachemend.repair_core.random_models import SHAPES
from cachemend.tasks.bench.floor import Bound, Machine, bound_of_a_refresh

_COUNTED = frozenset(str(shape["model_type"]) for shape in SHAPES.values())
"""Dense decoders whose every weight matrix a row meets once."""


def refresh_bound(model: nn.Module, positions: Positions, machine: Machine, copied: int) -> Bound | None:
    """The bound of recomputing `positions`, and beside it of copying a cache of `copied` rows; None if not known.

    It is that of one traversal that ends with the last layer's keys and values: what a schedule does twice, or beyond
    them, does not count.
    """
    if text_config(model).model_type not in _COUNTED:
        return None
    return bound_of_a_refresh(model, torch.tensor(positions), machine, copied)


def attention_bound(query: torch.Tensor, key: torch.Tensor, positions: Positions, machine: Machine) -> Bound:
    """The bound of attention alone: two products over the causal pairs; K and V up to the last position, Q, output."""
    heads, rows, width = query.shape[1:]
    pairs = int((positions + 1).sum())
    visible = key.shape[1] * (int(positions.max()) + 1) * width
    moved = (2 * visible + 2 * heads * rows * width) * key.element_size()
    return Bound(4.0 * heads * width * pairs / machine.flops, moved / machine.bandwidth)


def floor_columns(bound: Bound | None, machine: Machine) -> dict[str, float | None]:
    """A bound and what it was calibrated with, as columns."""
    return {
        "floor_flops_seconds": None if bound is None else bound.by_flops,
        "floor_bytes_seconds": None if bound is None else bound.by_bytes,
        "peak_flops": machine.flops,
        "bandwidth": machine.bandwidth,
    }


def copy_column(bound: Bound | None) -> dict[str, float | None]:
    """What the line's copy of the cache adds to its bytes, as a column."""
    return {"floor_copy_seconds": None if bound is None else bound.by_copy}
