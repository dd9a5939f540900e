"""Shift: cut the deleted rows out and rotate the later keys to their new positions (paper section 7.1)."""

import torch
from torch import nn
from transformers.cache_utils import Cache

from cachemend.repair_core.caches import RepairedCache, Rows, RowState, marked_cache, read_rows, require_clean
from cachemend.repair_core.edits import Deletion
from cachemend.repair_core.errors import InputError
from cachemend.repair_core.rotary import rotation_plan


def shift(model: nn.Module, cache: Cache, deletion: Deletion) -> RepairedCache:
    """Return the cache of the edited context with position-corrected, otherwise stale suffix rows.

    Args:
        model: a Hugging Face causal language model.
        cache: the clean cache of p + e + s, [batch, heads, P + d + S, head dim] per layer; not modified.
        deletion: what was deleted. Every sequence of a batch shares its lengths.

    Returns:
        A marked cache of P + S rows: prefix VALID, suffix STALE. Prefix rows and all values are copied bit by bit.

    Raises:
        Refused: the model's positions cannot be moved, or the cache was already repaired.
        InputError: the cache's length is not that of p + e + s.
    """
    require_clean(cache, "shift")
    prefix, stop = deletion.prefix_length, deletion.prefix_length + deletion.deleted_length
    rows, plan = read_original(cache, deletion), rotation_plan(model)
    if len(rows) != len(plan):
        raise InputError(f"the cache has {len(rows)} layers; the model has {len(plan)}")
    shifted = [
        Rows(
            torch.cat((keys[:, :, :prefix], rotation.apply(keys[:, :, stop:], prefix - stop)), dim=-2),
            torch.cat((values[:, :, :prefix], values[:, :, stop:]), dim=-2),
        )
        for (keys, values), rotation in zip(rows, plan, strict=True)
    ]
    states = torch.full((rows[0].keys.shape[0], prefix + deletion.suffix_length), RowState.STALE, dtype=torch.uint8)
    states[:, :prefix] = RowState.VALID
    return marked_cache(shifted, states)


def read_original(cache: Cache, deletion: Deletion) -> list[Rows]:
    """Return the layers of the cache of p + e + s.

    Raises:
        InputError: the cache's length is not that of p + e + s.
    """
    rows = read_rows(cache)
    length, expected = rows[0].keys.shape[-2], len(deletion.original_ids)
    if length != expected:
        raise InputError(f"the cache holds {length} rows; p + e + s has {expected} tokens")
    return rows
