"""The first two layers of a fresh prefill: what CacheBlend and A3 look at (paper Table 1)."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from transformers.cache_utils import DynamicCache

from cachemend.repair_core.caches import Rows, read_rows
from cachemend.repair_core.errors import Refused
from cachemend.repair_core.forward import Enough, base_model, input_device, run
from cachemend.repair_core.pinning import pinned_frequencies
from cachemend.repair_core.prefilling import as_batch
from cachemend.repair_core.relevance import Scores

DEPTH = 2


class _ShallowCache(DynamicCache):
    """A cache that ends the traversal as soon as layer 1 has its keys and values."""

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, layer_idx: int, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        out = super().update(key_states, value_states, layer_idx, *args, **kwargs)
        if layer_idx == DEPTH - 1:
            raise Enough
        return out


def shallow_prefill(model: nn.Module, token_ids: Sequence[int]) -> list[Rows]:
    """Return layers 0 and 1 of the clean cache of `token_ids`, without running anything above layer 1's projections.

    Raises:
        Refused: the model has a single layer.
    """
    cache = _ShallowCache()
    ids = as_batch(model, token_ids, input_device(model))
    with pinned_frequencies(model, ids.shape[1]):
        run(base_model(model), ids, cache, torch.arange(ids.shape[1], device=ids.device)[None])
    rows = read_rows(cache)
    if len(rows) < DEPTH:
        raise Refused(f"the model has {len(rows)} layer; this signal compares layer {DEPTH - 1}")
    return rows


def squared_deviation(a: Rows, b: Rows) -> Scores:
    """|K_a - K_b|^2 + |V_a - V_b|^2 per row, over heads and dims. FP64 [N] (batch 1)."""
    return sum(
        (x[0].double() - y[0].double()).square_().sum(dim=(0, 2)).cpu()
        for x, y in ((a.keys, b.keys), (a.values, b.values))
    ).numpy()  # type: ignore[union-attr]
