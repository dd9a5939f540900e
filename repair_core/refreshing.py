"""Refresh: recompute chosen rows of a cache."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import nn
from transformers.cache_utils import Cache

from cachemend.repair_core.architecture import check_capability, head_widths, text_config
from cachemend.repair_core.caches import (
    RepairedCache,
    Rows,
    clone_rows,
    ledger_of,
    marked_cache,
    read_rows,
)
from cachemend.repair_core.errors import InputError
from cachemend.repair_core.executors import get_executor
from cachemend.repair_core.executors.backends import ATTENTIONS, check_attention_name, require_attention
from cachemend.repair_core.intervals import Positions, check_positions, maximal_intervals, whole_positions
from cachemend.repair_core.ledger import RowState
from cachemend.repair_core.pinning import pinned_frequencies
from cachemend.repair_core.prefilling import TokenIds, as_batch
from cachemend.repair_core.proving import prove_refresh

__all__ = ["ATTENTIONS", "refresh"]


def refresh(
    model: nn.Module,
    cache: Cache,
    token_ids: TokenIds,
    positions: Sequence[int] | Positions | Sequence[Sequence[int]],
    executor: str = "packed",
    attention: str = "sdpa",
    in_place: bool = False,
) -> RepairedCache:
    """Recompute the rows at `positions` through every layer and write them back.

    Args:
        model: a Hugging Face causal language model.
        cache: the shifted cache, N rows per layer; not modified unless `in_place`.
        token_ids: the edited context, [N] or [batch, N].
        positions: sorted unique positions in the edited context: [B] for all sequences, or [batch, B].
        executor: "packed", "interval", "direct", "one-shot" or "auto" (direct for one interval with the default
            attention, else packed); the control "bottom-right" is no repair.
        attention: backend of the packed executor: "sdpa", "flex" (FlexAttention), "triton" (indexed kernels), or with
            them "triton-split" (keys split among programs) or "triton-fused" (one write of keys and values). It is
            not replaced by another.
        in_place: write into `cache` instead of a copy.

    Returns:
        A marked cache: the rows at `positions` are REFRESHED (VALID where every row before is; UNKNOWN after
        "bottom-right"), all others keep their bits and marks.

    Raises:
        InputError: positions that are no whole numbers, unsorted or outside the context, token ids outside the
            vocabulary, lengths that disagree, an unknown executor or attention backend, a backend that cannot run here.
        Refused: a model or attention implementation that cannot be refreshed, or rows of inserted tokens that were
            never computed and are not among the positions.
    """
    check_capability(model)
    check_attention_name(attention)
    rows = read_rows(cache)
    batch, length = rows[0].keys.shape[0], rows[0].keys.shape[-2]
    ids = as_batch(model, token_ids, rows[0].keys.device)
    if ids.shape != (batch, length):
        raise InputError(f"token ids have shape {tuple(ids.shape)}; the cache holds {batch} x {length} rows")
    where = _as_batch_positions(positions, batch, length)
    layers = text_config(model).num_hidden_layers
    if len(rows) != layers:
        raise InputError(f"the cache has {len(rows)} layers; the model has {layers}")
    ledger = ledger_of(cache, batch, length, unmarked=RowState.UNKNOWN)
    ledger.require_computed("this refresh", but=where)
    n_intervals = max(len(maximal_intervals(row)) for row in where.numpy()) if where.numel() else 0
    chosen = get_executor(executor, n_intervals, attention)
    require_attention(attention, rows[0].keys.device, rows[0].keys.dtype, head_widths(model))
    if where.numel():
        prove_refresh(model)
        with torch.no_grad(), pinned_frequencies(model, length):
            out: Sequence[Rows] = chosen.run(model, rows, ids, where, in_place)
        ledger = ledger.refreshed(where)
        if not chosen.repairs:
            unknown = ledger.row_states.scatter(1, where, int(RowState.UNKNOWN))
            ledger = replace(ledger, row_states=unknown)
    else:
        out = rows if in_place else clone_rows(rows)
    if in_place and isinstance(cache, RepairedCache):
        cache.ledger = ledger
        return cache
    return marked_cache(out, ledger)


def _as_batch_positions(
    positions: Sequence[int] | Positions | Sequence[Sequence[int]], batch: int, length: int
) -> torch.Tensor:
    array = whole_positions(positions)
    if array.ndim <= 1:
        array = np.broadcast_to(array.reshape(1, -1), (batch, array.size))
    if array.ndim != 2 or array.shape[0] != batch:
        raise InputError(f"positions have shape {array.shape}; give [B] or [{batch}, B]")
    return torch.from_numpy(np.stack([check_positions(row, length) for row in array]))
