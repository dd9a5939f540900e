"""Reading, building and marking Hugging Face caches."""

from collections.abc import Sequence
from enum import IntEnum
from typing import Any, NamedTuple

import torch
from transformers.cache_utils import Cache, DynamicCache, DynamicLayer

from cachemend.repair_core.errors import InputError, Refused


class Rows(NamedTuple):
    """One layer's cache.

    Attributes:
        keys: [batch, key/value heads, N, head dim], rotated to their positions.
        values: same leading shape; the last dim may differ.
    """

    keys: torch.Tensor
    values: torch.Tensor


class RowState(IntEnum):
    """What is known of one cached row."""

    VALID = 0
    """What a clean prefill computes: neither it nor any row it read is stale."""
    STALE = 1
    """Moved to its new position, but computed while the deleted text was visible."""
    REFRESHED = 2
    """Recomputed under the edited context, but some row before it is not valid."""
    UNKNOWN = 3
    """From a cache that carried no marks."""


class RepairedCache(DynamicCache):
    """A cache some of whose rows are stale or refreshed. Works wherever a `DynamicCache` does.

    Attributes:
        row_states: uint8 [batch, N] of `RowState`, for the rows of the edited context; rows appended later
            (a query, an answer) are not listed.
    """

    row_states: torch.Tensor

    @property
    def is_clean(self) -> bool:
        """Whether every listed row is valid (rows appended to valid ones are valid too)."""
        return bool((self.row_states == RowState.VALID).all())

    def counts(self) -> dict[str, int]:
        """Number of rows per state name, over the batch."""
        return {state.name.lower(): int((self.row_states == state).sum()) for state in RowState}

    def crop(self, tokens_to_remove: int) -> None:
        super().crop(tokens_to_remove)
        self.row_states = self.row_states[:, : self.get_seq_length()]

    def batch_repeat_interleave(self, repeats: int) -> None:
        super().batch_repeat_interleave(repeats)
        self.row_states = self.row_states.repeat_interleave(repeats, dim=0)

    def batch_select_indices(self, indices: torch.Tensor) -> None:
        super().batch_select_indices(indices)
        self.row_states = self.row_states[indices.cpu()]


def read_rows(cache: Cache) -> list[Rows]:
    """Return the layers of `cache`, without copying.

    Raises:
        Refused: a layer that is not a plain growing one (quantized, sliding-truncated, linear, static ...).
        InputError: an empty cache.
    """
    rows = []
    if not isinstance(cache, Cache):
        raise InputError(f"cache is a {type(cache).__name__}; give a transformers Cache, e.g. from prefill")
    for index, layer in enumerate(cache.layers):
        if type(layer) is not DynamicLayer:
            raise Refused(
                f"cache layer {index} is a {type(layer).__name__}; repair needs every row in a DynamicLayer: "
                "prefill with DynamicCache() without a config"
            )
        if layer.keys is None or layer.values is None or layer.keys.numel() == 0:
            raise InputError(f"cache layer {index} is empty; prefill the context first")
        rows.append(Rows(layer.keys, layer.values))
    if not rows:
        raise InputError("the cache has no layers; prefill the context first")
    return rows


def fill(cache: DynamicCache, rows: Sequence[Rows], layer_class: type[DynamicLayer] = DynamicLayer) -> DynamicCache:
    """Give `cache` these layers (aliased, not copied) and return it."""
    cache.layers = [_layer(layer_class(), keys, values) for keys, values in rows]
    return cache


def _layer(layer: DynamicLayer, keys: torch.Tensor, values: torch.Tensor) -> DynamicLayer:
    layer.keys, layer.values = keys, values
    layer.dtype, layer.device = keys.dtype, keys.device
    layer.is_initialized = True
    return layer


def plain_cache(rows: Sequence[Rows]) -> DynamicCache:
    """A stock cache over these rows."""
    return fill(DynamicCache(), rows)


def marked_cache(rows: Sequence[Rows], row_states: torch.Tensor) -> RepairedCache:
    """A repaired cache over these rows, marked."""
    cache = RepairedCache()
    fill(cache, rows)
    cache.row_states = row_states
    return cache


def clone_rows(rows: Sequence[Rows]) -> list[Rows]:
    """A contiguous copy of every layer."""
    return [
        Rows(
            keys.clone(memory_format=torch.contiguous_format),
            values.clone(memory_format=torch.contiguous_format),
        )
        for keys, values in rows
    ]


def row_states(cache: Cache, batch: int, length: int) -> torch.Tensor:
    """A copy of the marks of `cache`; UNKNOWN for a cache that carries none. uint8 [batch, length].

    Rows appended since the marks were made read every row before them: they are stale unless all of those are valid.
    """
    if not isinstance(cache, RepairedCache):
        return torch.full((batch, length), RowState.UNKNOWN, dtype=torch.uint8)
    known = cache.row_states[:, :length]
    valid = (known == RowState.VALID).all(dim=1, keepdim=True)
    appended = torch.where(valid, int(RowState.VALID), int(RowState.STALE)).to(torch.uint8)
    return torch.cat((known, appended.expand(-1, length - known.shape[1])), dim=1)


def mark_refreshed(states: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
    """The marks after rows `positions` [batch, B] were recomputed: valid where every row before is, else refreshed."""
    fresh = torch.zeros_like(states, dtype=torch.bool).scatter_(1, positions, value=True)
    sound = fresh | (states == RowState.VALID)
    valid = sound.long().cumprod(dim=1).bool()
    return torch.where(fresh, torch.where(valid, int(RowState.VALID), int(RowState.REFRESHED)), states).to(torch.uint8)


def require_clean(cache: Cache, what: str) -> None:
    """Refuse a repaired cache where a clean one is needed.

    Raises:
        Refused: `cache` is marked and holds stale or unknown rows.
    """
    if isinstance(cache, RepairedCache) and not cache.is_clean:
        raise Refused(
            f"{what} needs a clean cache, and this one was repaired ({cache.counts()}); "
            "re-prefill the context before editing it again"
        )


class InPlaceLayer(DynamicLayer):
    """A layer with room: rows are written at `length`, which then grows; attention sees rows before it."""

    length: int

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *_: Any, **__: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        stop = self.length + key_states.shape[-2]
        self.keys[:, :, self.length : stop] = key_states
        self.values[:, :, self.length : stop] = value_states
        self.length = stop
        return self.keys[:, :, :stop], self.values[:, :, :stop]

    def get_seq_length(self) -> int:
        return self.length

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self.length + query_length, 0


def in_place_cache(rows: Sequence[Rows], length: int) -> DynamicCache:
    """A cache that writes into `rows`, whose first `length` rows are valid."""
    cache = fill(DynamicCache(), rows, InPlaceLayer)
    set_length(cache, length)
    return cache


def set_length(cache: DynamicCache, length: int) -> None:
    """Make the next forward of an in-place cache write from row `length` on."""
    for layer in cache.layers:
        layer.length = length
