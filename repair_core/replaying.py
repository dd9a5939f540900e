"""Replay: keep the valid prefix and recompute the whole suffix (paper section 7.1)."""

from collections.abc import Sequence

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
from cachemend.repair_core.edits import Deletion, require_equal_lengths
from cachemend.repair_core.errors import InputError
from cachemend.repair_core.prefilling import as_batch, extend
from cachemend.repair_core.shifting import read_original


def replay(model: nn.Module, cache: Cache, deletion: Deletion | Sequence[Deletion]) -> RepairedCache:
    """Return the cache of p + s whose prefix rows are copied and whose suffix is recomputed in one forward.

    Args:
        model: a Hugging Face causal language model.
        cache: the clean cache of p + e + s; not modified.
        deletion: the edit; for a batch, one per sequence, with equal lengths.

    Raises:
        Refused: the cache was already repaired.
        InputError: the cache's length or batch is not that of the deletions, or their lengths differ.
    """
    require_clean(cache, "replay")
    edits = [deletion] if isinstance(deletion, Deletion) else list(deletion)
    require_equal_lengths(edits)
    prefix, suffix = edits[0].prefix_length, edits[0].suffix_length
    rows = read_original(cache, edits[0])
    batch = rows[0].keys.shape[0]
    if len(edits) != batch:
        raise InputError(f"the cache holds {batch} sequences; give one deletion for each, not {len(edits)}")
    kept = [Rows(keys[:, :, :prefix].clone(), values[:, :, :prefix].clone()) for keys, values in rows]
    fresh = plain_cache(kept) if prefix else DynamicCache()
    if suffix:
        extend(model, fresh, as_batch([edit.suffix_ids for edit in edits], rows[0].keys.device), prefix)
    states = torch.full((batch, prefix + suffix), RowState.VALID, dtype=torch.uint8)
    return marked_cache(read_rows(fresh), states)
