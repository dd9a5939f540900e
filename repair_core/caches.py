"""Reading, building and marking Hugging Face caches."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from transformers.cache_utils import Cache, DynamicCache, DynamicLayer

from cachemend.repair_core.errors import InputError, Refused
from cachemend.repair_core.intervals import Positions
from cachemend.repair_core.ledger import Ledger, RowState


class Rows(NamedTuple):
    """One layer's cache.

    Attributes:
        keys: [batch, key/value heads, N, head dim], rotated to their positions.
        values: same leading shape; the last dim may differ.
    """

    keys: torch.Tensor
    values: torch.Tensor


class RepairedCache(DynamicCache):
    """A cache some of whose rows are stale or refreshed. Works wherever a `DynamicCache` does.

    Attributes:
        ledger: state and age of the rows of the edited context; rows appended later (a query, an answer) are not
            listed until the next edit or refresh.
    """

    ledger: Ledger

    @property
    def row_states(self) -> torch.Tensor:
        """Uint8 [batch, N] of `RowState`."""
        return self.ledger.row_states

    @property
    def edits_missed(self) -> torch.Tensor:
        """Int32 [batch, N]: the edits of earlier text made since each row was computed."""
        return self.ledger.edits_missed

    @property
    def is_clean(self) -> bool:
        """Whether every listed row is valid (rows appended to valid ones are valid too)."""
        return bool((self.row_states == RowState.VALID).all())

    def worst_staleness(self) -> int:
        """The most edits that any row has missed, over the batch; re-prefill where it passes your limit.

        A policy recomputes neither the context's last token nor most other rows, so in effect this counts the edits
        since the last prefill. It is about each row's own computation: 0 is no proof of a clean cache, for a refreshed
        row may have read stale ones; `is_clean` is.
        """
        return int(self.edits_missed.max())

    def counts(self) -> dict[str, int]:
        """Number of rows per state name, over the batch."""
        return {state.name.lower(): int((self.row_states == state).sum()) for state in RowState}

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, layer_idx: int, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Append rows, as a forward does.

        Raises:
            Refused: the rows of inserted tokens were not computed yet.
        """
        self.ledger.require_computed("this forward")
        return super().update(key_states, value_states, layer_idx, *args, **kwargs)

    def crop(self, tokens_to_remove: int) -> None:
        super().crop(tokens_to_remove)
        self.ledger = self.ledger.cut(self.get_seq_length())

    def batch_repeat_interleave(self, repeats: int) -> None:
        super().batch_repeat_interleave(repeats)
        self.ledger = self.ledger.take(torch.arange(self.row_states.shape[0]).repeat_interleave(repeats))

    def batch_select_indices(self, indices: torch.Tensor) -> None:
        super().batch_select_indices(indices)
        self.ledger = self.ledger.take(indices)

    def reorder_cache(self, beam_idx: torch.Tensor) -> None:
        super().reorder_cache(beam_idx)
        self.ledger = self.ledger.take(beam_idx)


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


def marked_cache(rows: Sequence[Rows], ledger: Ledger) -> RepairedCache:
    """A repaired cache over these rows, marked."""
    cache = RepairedCache()
    fill(cache, rows)
    cache.ledger = ledger
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


def ledger_of(cache: Cache, batch: int, length: int, unmarked: RowState) -> Ledger:
    """The ledger of all rows of `cache`; those of one that carries no marks are `unmarked`."""
    if not isinstance(cache, RepairedCache):
        return Ledger.uniform(batch, length, unmarked)
    return cache.ledger.appended(length)


def require_computed(cache: Cache, what: str, but: Positions | None = None) -> None:
    """Refuse a marked cache with rows that were never computed, except those at positions `but` [B].

    Raises:
        Refused: as `Ledger.require_computed`; `what` is what would read them.
    """
    if isinstance(cache, RepairedCache):
        batch = cache.row_states.shape[0]
        cache.ledger.require_computed(what, None if but is None else torch.tensor(but).expand(batch, -1))


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
