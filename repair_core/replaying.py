"""Replay: keep the valid prefix and recompute the whole suffix (paper section 7.1)."""

import torch
from torch import nn
from transformers.cache_utils import Cache, DynamicCache

from cachemend.repair_core.caches import (
    RepairedCache,
    Rows,
    RowState,
    marked_cache,
    plain_cache,
    read_rows,
    require_clean,
)
from cachemend.repair_core.edits import Deletion
from cachemend.repair_core.prefilling import as_batch, extend


def replay(model: nn.Module, cache: Cache, deletion: Deletion) -> RepairedCache:
    """Return the cache of p + s whose prefix rows are copied and whose suffix is recomputed in one forward.

    Args:
        model: a Hugging Face causal language model.
        cache: the clean cache of p + e + s; not modified.
        deletion: the edit.
    """
    require_clean(cache, "replay")
    prefix = deletion.prefix_length
    rows = read_rows(cache)
    batch = rows[0].keys.shape[0]
    kept = [Rows(keys[:, :, :prefix].clone(), values[:, :, :prefix].clone()) for keys, values in rows]
    fresh = plain_cache(kept) if prefix else DynamicCache()
    if deletion.suffix_length:
        ids = as_batch(deletion.suffix_ids, rows[0].keys.device).expand(batch, -1)
        extend(model, fresh, ids, prefix)
    states = torch.full((batch, prefix + deletion.suffix_length), RowState.REFRESHED, dtype=torch.uint8)
    states[:, :prefix] = RowState.VALID
    return marked_cache(read_rows(fresh), states)
