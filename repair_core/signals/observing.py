"""Attention probabilities of a forward, reduced layer by layer and never kept.

A registered attention function computes each layer's output and hands the probabilities to an observer in tiles
of keys, so that the memory of a signal is linear in the context's length.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from transformers.cache_utils import DynamicCache, DynamicLayer

from cachemend.repair_core.architecture import Window, layer_windows
from cachemend.repair_core.caches import Rows, fill
from cachemend.repair_core.forward import Enough, attention_function, base_model, run
from cachemend.repair_core.pinning import pinned_frequencies
from cachemend.repair_core.planned_attention import register_attention

ATTENTION_NAME = "cachemend_observed"
# Floats of one tile of logits: query rows of all heads times keys.
TILE = 4 * 1024**2


class Observer(ABC):
    """Sees the attention of consecutive queries, layer by layer.

    Attributes:
        start: position of the first query.
        windows: every layer's window.
        last_layer: only this layer is seen, and the traversal ends with it; None shows all layers.
        cells: layers x heads x queries shown so far.
    """

    def __init__(self, model: nn.Module, start: int, last_layer: int | None = None) -> None:
        self.start = start
        self.windows = layer_windows(model)
        self.last_layer = last_layer
        self.cells = 0

    def wants(self, layer: int) -> bool:
        """Whether `see` should be called for this layer."""
        return self.last_layer is None or layer == self.last_layer

    @abstractmethod
    def see(self, probabilities: torch.Tensor, first_key: int) -> None:
        """Take one tile: FP32 [batch, kv heads, query heads per kv head, n queries, keys from `first_key` on].

        Probabilities are normalised over everything a query sees, not over the tile.
        """


class PassingLayer(DynamicLayer):
    """Rows that fresh ones are appended to for attention only: nothing is kept."""

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *_: Any, **__: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.cat((self.keys, key_states), dim=-2), torch.cat((self.values, value_states), dim=-2)


def observe(model: nn.Module, cache: DynamicCache, token_ids: torch.Tensor, observer: Observer, length: int) -> None:
    """Forward `token_ids` [batch, n] from `observer.start` on, showing the attention to `observer`.

    Args:
        length: tokens of the context that the rows of `cache` were computed in.
    """
    base = base_model(model)
    positions = torch.arange(observer.start, observer.start + token_ids.shape[1], device=token_ids.device)[None]
    with attention_function(base, ATTENTION_NAME), pinned_frequencies(model, length):
        run(base, token_ids, cache, positions, observer=observer)


def passing_cache(rows: Sequence[Rows]) -> DynamicCache:
    """A cache over these rows that a forward reads and leaves as it was."""
    return fill(DynamicCache(), rows, PassingLayer)


def _attend(
    observer: Observer,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    layer: int,
    scale: float,
    softcap: float | None,
    sinks: torch.Tensor | None,
) -> torch.Tensor:
    batch, heads, count, width = query.shape
    folded = query.reshape(batch, key.shape[1], -1, count, width)
    tiles = _Tiles(folded, key, observer.start, observer.windows[layer], scale, softcap, sinks)
    wanted = observer.wants(layer)
    observer.cells += heads * count * wanted
    out = torch.zeros(*folded.shape[:-1], value.shape[-1], dtype=torch.float32, device=value.device)
    for first, stop in tiles.ranges:
        seen = tiles.probabilities(first, stop)
        if wanted:
            observer.see(seen, first)
        out += seen.to(value.dtype) @ value[:, :, None, first:stop]
    if layer == observer.last_layer:
        raise Enough
    return out.to(query.dtype).reshape(batch, heads, count, -1).transpose(1, 2)


register_attention(ATTENTION_NAME, "observer", _attend)


class _Tiles:
    """Softmax over keys in tiles: one pass finds the normaliser, a second gives probabilities."""

    def __init__(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        start: int,
        window: Window | None,
        scale: float,
        softcap: float | None,
        sinks: torch.Tensor | None,
    ) -> None:
        self.query, self.key, self.scale, self.softcap, self.window = query, key, scale, softcap, window
        batch, kv_heads, group, count, _ = query.shape
        self.rows = torch.arange(start, start + count, device=query.device)[:, None]
        low = 0 if window is None else max(0, int(window.first(self.rows).min()))
        step = max(1, TILE // (batch * kv_heads * group * count))
        self.ranges = [(at, min(at + step, start + count)) for at in range(low, start + count, step)]
        # Kept when there is only one tile, so that nothing is computed twice.
        self._only = self._logits(*self.ranges[0]) if len(self.ranges) == 1 else None
        parts = [self._range_logits(*r).logsumexp(-1, keepdim=True) for r in self.ranges]
        if sinks is not None:
            sink = sinks.float().view(1, kv_heads, group, 1, 1)
            parts.append(sink.expand(batch, -1, -1, count, -1))
        self.normaliser = torch.cat(parts, dim=-1).logsumexp(-1, keepdim=True)

    def probabilities(self, first: int, stop: int) -> torch.Tensor:
        return (self._range_logits(first, stop) - self.normaliser).exp_()

    def _range_logits(self, first: int, stop: int) -> torch.Tensor:
        return self._only if self._only is not None else self._logits(first, stop)

    def _logits(self, first: int, stop: int) -> torch.Tensor:
        logits = (self.query @ self.key[:, :, None, first:stop].transpose(-1, -2)).float() * self.scale
        if self.softcap is not None:
            logits = torch.tanh(logits / self.softcap) * self.softcap
        keys = torch.arange(first, stop, device=logits.device)
        seen = keys <= self.rows
        if self.window is not None:
            seen &= keys >= self.window.first(self.rows)
        return logits.masked_fill_(~seen, float("-inf"))
