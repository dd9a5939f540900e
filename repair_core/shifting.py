"""Shift: cut the deleted rows out and rotate the later keys to their new positions (paper section 7.1)."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import nn
from transformers.cache_utils import Cache

from cachemend.repair_core.architecture import check_capability, text_config
from cachemend.repair_core.caches import RepairedCache, Rows, ledger_of, marked_cache, read_rows
from cachemend.repair_core.edits import Edit
from cachemend.repair_core.errors import InputError
from cachemend.repair_core.ledger import RowState
from cachemend.repair_core.pinning import check_same_frequencies
from cachemend.repair_core.rotary import LayerRotations, cache_rotations
from cachemend.repair_core.rotation import Rotation


def shift(model: nn.Module, cache: Cache, edit: Edit) -> RepairedCache:
    """Return the cache of the edited context with position-corrected, otherwise stale suffix rows.

    Each retained segment between two changes is rotated by its own offset. Where no offset differs from 0, as after
    an edit in place, nothing is rotated, and a model whose rows cannot be moved is accepted.

    Args:
        model: a Hugging Face causal language model.
        cache: the cache of the original context, [batch, heads, N, head dim] per layer; not modified. One without
            marks is taken for a clean prefill. In a repaired one, rows keep what is known of them.
        edit: what was done to the context. Every sequence of a batch shares its lengths and positions.

    Returns:
        A marked cache of the edited context: prefix rows as they were, retained rows behind it STALE, rows of
        inserted tokens MISSING (zeros). Prefix rows and all retained values are copied bit by bit.

    Raises:
        Refused: rows have to move and the model's positions cannot be moved.
        InputError: the cache's length is not that of the original context.
    """
    rows, segments = read_original(cache, edit), retained_segments(edit)
    plan = edit_rotations(model, edit, segments)
    if len(rows) != len(plan):
        raise InputError(f"the cache has {len(rows)} layers; the model has {len(plan)}")
    shifted = [
        Rows(_moved(keys, edit, segments, turn.keys), _moved(values, edit, segments, turn.values))
        for (keys, values), turn in zip(rows, plan, strict=True)
    ]
    batch, _, length, _ = rows[0].keys.shape
    return marked_cache(shifted, ledger_of(cache, batch, length, unmarked=RowState.VALID).edited(edit))


class Segment(NamedTuple):
    """Retained tokens that move together: a half-open range of the original context, and how far it moves."""

    start: int
    stop: int
    offset: int


def retained_segments(edit: Edit) -> tuple[Segment, ...]:
    """The retained suffix as maximal runs without a change inside."""
    old, new = edit.suffix_original_positions, edit.suffix_positions
    if not old.size:
        return ()
    breaks = np.flatnonzero((np.diff(old) != 1) | (np.diff(new) != 1)) + 1
    runs = zip(np.split(old, breaks), np.split(new, breaks), strict=True)
    return tuple(Segment(int(a[0]), int(a[-1]) + 1, int(b[0] - a[0])) for a, b in runs)


def edit_rotations(model: nn.Module, edit: Edit, segments: Sequence[Segment]) -> tuple[LayerRotations, ...]:
    """How every layer's rows turn when the segments move; not at all where none has an offset.

    Raises:
        Refused: rows have to move and the model's positions cannot be moved, or a model that repair does not support.
    """
    if any(segment.offset for segment in segments):
        return cache_rotations(model)
    check_capability(model)
    check_same_frequencies(model, len(edit.original_ids), len(edit.edited_ids))
    return (LayerRotations(Rotation(None), Rotation(None)),) * text_config(model).num_hidden_layers


def _moved(tensor: torch.Tensor, edit: Edit, segments: tuple[Segment, ...], rotation: Rotation | None) -> torch.Tensor:
    """One layer's keys, or values (no rotation), [batch, heads, N, width] in the order of the edited context."""

    def zeros(count: int) -> torch.Tensor:
        return tensor.new_zeros((*tensor.shape[:2], count, tensor.shape[-1]))

    done = edit.prefix_length
    parts = [tensor[:, :, :done]]
    for start, stop, offset in segments:
        part = tensor[:, :, start:stop]
        parts += [zeros(start + offset - done), part if rotation is None else rotation.apply(part, offset)]
        done = stop + offset
    return torch.cat((*parts, zeros(len(edit.edited_ids) - done)), dim=-2)


def read_original(cache: Cache, edit: Edit) -> list[Rows]:
    """Return the layers of the cache of the original context.

    Raises:
        InputError: the cache's length is not that of the original context.
    """
    rows = read_rows(cache)
    length, expected = rows[0].keys.shape[-2], len(edit.original_ids)
    if length != expected:
        raise InputError(f"the cache holds {length} rows; the context before the edit has {expected} tokens")
    return rows
