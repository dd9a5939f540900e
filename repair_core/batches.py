"""Sequences that are decoded together."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
from torch import nn
from transformers.cache_utils import DynamicCache

from cachemend.repair_core.architecture import layer_windows
from cachemend.repair_core.caches import Rows, in_place_cache, set_length
from cachemend.repair_core.deltas import Delta
from cachemend.repair_core.forward import attention_function, run, takes
from cachemend.repair_core.pinning import pinned_frequencies
from cachemend.repair_core.shared_rows import ATTENTION_NAME, SharedRows, appended_cache


class Batch(ABC):
    """Contexts of equal length after which tokens are placed.

    Attributes:
        size: number of sequences.
        length: N, tokens of each context.
        device: where token ids go.
    """

    def __init__(self, model: nn.Module, size: int, base: Sequence[Rows]) -> None:
        self.model = model
        self.size = size
        self.length = base[0].keys.shape[-2]
        self.device = base[0].keys.device

    def forward(self, ids: torch.Tensor, start: int, last_only: bool = False) -> torch.Tensor:
        """FP32 logits [size, n, vocabulary] of `ids` [size, n] at positions start.., or only of the last.

        Whatever stood from `start` on is overwritten. Rotary frequencies are those of the contexts' length, which
        their rows have.
        """
        positions = torch.arange(start, start + ids.shape[1], device=ids.device)[None]
        # A head over a whole query costs as much as several layers.
        last = last_only and takes(self.model, "logits_to_keep")
        with pinned_frequencies(self.model, self.length):
            return self._run(ids, positions, start, {"logits_to_keep": 1} if last else {})

    @abstractmethod
    def _run(self, ids: torch.Tensor, positions: torch.Tensor, start: int, options: dict[str, int]) -> torch.Tensor:
        """Logits of one forward."""


class JoinedBatch(Batch):
    """Whole caches, copied into one with room behind."""

    def __init__(self, model: nn.Module, caches: Sequence[Sequence[Rows]], room: int) -> None:
        super().__init__(model, len(caches), caches[0])
        self._cache = _join(caches, self.length, room)

    def _run(self, ids: torch.Tensor, positions: torch.Tensor, start: int, options: dict[str, int]) -> torch.Tensor:
        set_length(self._cache, start)
        logits: torch.Tensor = run(self.model, ids, self._cache, positions, **options).logits
        return logits.float()


class SharedBatch(Batch):
    """Caches that differ from `base` in a few rows: only those, and what is appended, exist per sequence.

    Args:
        deltas: sorted by their number of rows.
    """

    def __init__(self, model: nn.Module, base: Sequence[Rows], deltas: Sequence[Delta], room: int) -> None:
        super().__init__(model, len(deltas), base)
        self._rows = SharedRows.build(base, deltas, layer_windows(model))
        self._cache = appended_cache(base, len(deltas), room)

    def _run(self, ids: torch.Tensor, positions: torch.Tensor, start: int, options: dict[str, int]) -> torch.Tensor:
        set_length(self._cache, start)
        self._rows.start = start
        with attention_function(self.model, ATTENTION_NAME):
            logits: torch.Tensor = run(
                self.model, ids, self._cache, positions, shared_rows=self._rows, **options
            ).logits
        return logits.float()


def _join(caches: Sequence[Sequence[Rows]], length: int, room: int) -> DynamicCache:
    joined = []
    for layer in zip(*caches, strict=True):
        keys, values = (like.new_empty(len(caches), like.shape[1], length + room, like.shape[3]) for like in layer[0])
        for index, rows in enumerate(layer):
            keys[index, :, :length] = rows.keys[0]
            values[index, :, :length] = rows.values[0]
        joined.append(Rows(keys, values))
    return in_place_cache(joined, length)
