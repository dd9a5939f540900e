"""Prefill: the cache of a context, every row kept."""

from collections.abc import Sequence

import torch
from torch import nn
from transformers.cache_utils import DynamicCache

from cachemend.repair_core.architecture import check_capability, text_config
from cachemend.repair_core.caches import read_rows
from cachemend.repair_core.errors import InputError, Refused
from cachemend.repair_core.forward import base_model, input_device, run
from cachemend.repair_core.pinning import pinned_frequencies

TokenIds = torch.Tensor | Sequence[int] | Sequence[Sequence[int]]


def as_batch(model: nn.Module, token_ids: TokenIds, device: torch.device | None = None) -> torch.Tensor:
    """Return `token_ids` (n, or batch x n) as int64 [batch, n] on `device`, or where they are.

    Raises:
        InputError: empty, ragged, not one- or two-dimensional, or an id outside the vocabulary of `model`.
    """
    try:
        ids = torch.as_tensor(token_ids, dtype=torch.long)
    except (TypeError, ValueError) as error:
        raise InputError(f"token ids must be whole numbers, those of a batch in equal lengths: {error}") from error
    if ids.ndim == 1:
        ids = ids[None]
    if ids.ndim != 2 or ids.numel() == 0:
        raise InputError(f"token ids have shape {tuple(ids.shape)}; give [n] or [batch, n] with n > 0")
    vocabulary = text_config(model).vocab_size
    # Looked at where they are, before they are moved: a list costs no wait for the accelerator, a tensor one.
    least, most = torch.stack((ids.min(), ids.max())).tolist()
    if least < 0 or most >= vocabulary:
        raise InputError(
            f"token id {least if least < 0 else most} is outside the model's vocabulary of {vocabulary} tokens; "
            f"give ids from 0 to {vocabulary - 1}"
        )
    return ids.to(device)


def prefill(model: nn.Module, token_ids: TokenIds) -> DynamicCache:
    """Compute the cache of `token_ids` from nothing (the Re-prefill reference on the edited context).

    Args:
        model: a Hugging Face causal language model in evaluation mode.
        token_ids: [n], or [batch, n] of equal lengths.

    Returns:
        A stock cache that holds all n rows of every layer, also where the model's attention is a sliding window.

    Raises:
        InputError: no tokens, a ragged batch, ids outside the vocabulary.
        Refused: a model that repair does not support.
    """
    check_capability(model)
    ids = as_batch(model, token_ids, input_device(model))
    # Without the configuration: with it, sliding layers would drop the rows outside their window.
    cache = DynamicCache()
    with pinned_frequencies(model, ids.shape[1]):
        extend(model, cache, ids, 0)
    shapes = {rows.keys.shape[-2] for rows in read_rows(cache)} if cache.layers else set()
    layers = text_config(model).num_hidden_layers
    if shapes != {ids.shape[1]} or len(cache.layers) != layers:
        raise Refused(
            f"a prefill of {ids.shape[1]} tokens left {len(cache.layers)} cached layers of {sorted(shapes)} rows; "
            f"repair needs {layers} layers with one row a token"
        )
    return cache


def extend(model: nn.Module, cache: DynamicCache, token_ids: torch.Tensor, start: int) -> None:
    """Append the rows of `token_ids` [batch, n] at positions start.. to `cache`."""
    positions = torch.arange(start, start + token_ids.shape[1], device=token_ids.device)[None]
    run(base_model(model), token_ids, cache, positions)
