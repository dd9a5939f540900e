"""The recomputed rows of a refresh alone, so that the arms of a case need one scratch cache and no copies of it.

Refresh in place, take the delta, restore the scratch cache; then write the delta into a batch of caches to answer.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch

from cachemend.repair_core.caches import Rows
from cachemend.repair_core.errors import InputError
from cachemend.repair_core.intervals import Positions, check_positions


class Delta(NamedTuple):
    """What one refresh changed in one sequence.

    Attributes:
        positions: int64 [B] on the CPU, sorted and unique.
        rows: per layer keys and values [1, heads, B, head dim] on the layer's device.
    """

    positions: torch.Tensor
    rows: tuple[Rows, ...]


def delta_of(rows: Sequence[Rows], positions: Sequence[int] | Positions | torch.Tensor) -> Delta:
    """Copy the rows at `positions` out of a cache of one sequence.

    Raises:
        InputError: several sequences, or positions unsorted or outside the cache.
    """
    batch, _, length, _ = rows[0].keys.shape
    if batch != 1:
        raise InputError(f"the cache holds {batch} sequences; a delta is of one")
    where = torch.tensor(np.asarray(positions), dtype=torch.int64)
    check_positions(where.numpy(), length)
    return Delta(where, tuple(Rows(*(t.index_select(2, where.to(t.device)) for t in layer)) for layer in rows))


def apply_delta(target: Sequence[Rows], delta: Delta, batch_index: int) -> None:
    """Write a delta into sequence `batch_index` of a batch, at its positions.

    Args:
        target: per layer keys and values [batch, heads, at least N, head dim]; written.

    Raises:
        InputError: no such sequence, or a target of other layers or fewer rows.
    """
    _check(target, len(delta.rows), delta.positions)
    if not 0 <= batch_index < target[0].keys.shape[0]:
        raise InputError(f"batch index {batch_index} is outside the {target[0].keys.shape[0]} sequences of the target")
    for layer, fresh in zip(target, delta.rows, strict=True):
        for tensor, source in zip(layer, fresh, strict=True):
            tensor[batch_index].index_copy_(1, delta.positions.to(tensor.device), source[0].to(tensor.device))


def restore(target: Sequence[Rows], base: Sequence[Rows], positions: Sequence[int] | Positions | torch.Tensor) -> None:
    """Put the rows of `base` at `positions` [B] back into `target`, in every sequence.

    Args:
        target: the cache that was refreshed in place; written.
        base: what it held before, same shapes.

    Raises:
        InputError: other layers, or positions outside the cache.
    """
    where = torch.as_tensor(positions, dtype=torch.int64, device="cpu")
    _check(target, len(base), where)
    for layer, before in zip(target, base, strict=True):
        for tensor, source in zip(layer, before, strict=True):
            index = where.to(tensor.device)
            tensor.index_copy_(2, index, source.index_select(2, where.to(source.device)).to(tensor.device))


def _check(target: Sequence[Rows], layers: int, positions: torch.Tensor) -> None:
    if len(target) != layers:
        raise InputError(f"the target has {len(target)} layers; {layers} are to be written")
    check_positions(positions.numpy(), target[0].keys.shape[2])
