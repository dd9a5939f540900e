"""Decoding many caches that differ from one in a few rows, without a copy of it for each.

Attention of an arm runs over the shared rows with its replaced ones hidden, its own rows, and what was appended for
it. Arms with equally many own rows are computed together.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, NamedTuple

import torch
from transformers.cache_utils import DynamicCache, DynamicLayer

from cachemend.repair_core.architecture import Window
from cachemend.repair_core.caches import Rows
from cachemend.repair_core.deltas import Delta
from cachemend.repair_core.planned_attention import register_attention

ATTENTION_NAME = "cachemend_shared"
# Logits computed at once: sequences x heads x queries x keys. On a CPU they are passed over several times and must stay
# in its cache; elsewhere few large tiles are launched.
TILE = 32 * 1024**2
CPU_TILE = 512 * 1024


class Group(NamedTuple):
    """Neighbouring sequences of the batch with equally many rows of their own.

    Attributes:
        members: their places in the batch.
        positions: int64 [members, B] of their own rows.
        rows: per layer keys and values [members, kv heads, B, dim].
        hidden: additive [members, N], -inf where a shared row is replaced.
    """

    members: slice
    positions: torch.Tensor
    rows: tuple[Rows, ...]
    hidden: torch.Tensor

    def split(self, size: int) -> "list[Group]":
        """The same in groups of at most `size` sequences."""
        count = len(self.positions)
        return [self._part(at, min(at + size, count)) for at in range(0, count, size)] if size < count else [self]

    def _part(self, start: int, stop: int) -> "Group":
        return Group(
            slice(self.members.start + start, self.members.start + stop),
            self.positions[start:stop],
            tuple(Rows(keys[start:stop], values[start:stop]) for keys, values in self.rows),
            self.hidden[start:stop],
        )


@dataclass(eq=False, kw_only=True)
class SharedRows:
    """One cache of batch 1 and the rows by which the sequences of a batch differ from it.

    Attributes:
        base: per layer keys and values [1, kv heads, N, dim].
        groups: the sequences, in the order of the batch.
        windows: every layer's window.
        start: position of the first query of the forward that runs; set before each.
    """

    base: Sequence[Rows]
    groups: tuple[Group, ...]
    windows: tuple[Window | None, ...]
    start: int = 0
    _masks: dict[tuple[int, Window | None], torch.Tensor] = field(default_factory=dict)
    _masks_of: tuple[int, int, int] | None = None

    @classmethod
    def build(cls, base: Sequence[Rows], deltas: Sequence[Delta], windows: tuple[Window | None, ...]) -> "SharedRows":
        """Group `deltas`, which must be sorted by their number of rows."""
        groups, at = [], 0
        for _, same in groupby(deltas, key=lambda delta: len(delta.positions)):
            part = list(same)
            groups.append(_group(base, part, slice(at, at + len(part))))
            at += len(part)
        return cls(base=base, groups=tuple(groups), windows=windows)

    def attend(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        layer: int,
        scale: float,
        softcap: float | None = None,
        sinks: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Attention of every sequence. Query [batch, heads, n, d] -> [batch, n, heads, value dim].

        Args:
            query: the newest n tokens.
            key, value: [batch, kv heads, t, dim] of all tokens after the shared rows.
            layer, scale, softcap, sinks: as in `PackedPlan.attend`.
        """
        batch, heads, count, width = query.shape
        kv_heads, appended = key.shape[1], key.shape[2]
        folded = query.reshape(batch, kv_heads, -1, width)
        window = self.windows[layer]
        out = folded.new_empty(*folded.shape[:-1], value.shape[-1])
        for group in self._tiles(heads * count, appended):
            at = group.members
            logits = self._logits(group, folded[at], key[at], layer) * scale
            if softcap is not None:
                logits = torch.tanh(logits / softcap) * softcap
            mask = self._mask(group, appended, count, window).to(logits.device)
            logits = logits.unflatten(2, (-1, count)) + mask
            if sinks is not None:
                column = sinks.float().view(1, kv_heads, -1, 1, 1).expand(logits.shape[0], -1, -1, count, 1)
                seen = torch.cat((logits, column), dim=-1).softmax(dim=-1)[..., :-1]
            else:
                seen = logits.softmax(dim=-1)
            out[at] = self._values(group, seen.flatten(2, 3).to(query.dtype), value[at], layer)
        return out.view(batch, heads, count, -1).transpose(1, 2)

    def _tiles(self, rows: int, appended: int) -> Iterator[Group]:
        tile = CPU_TILE if self.base[0].keys.device.type == "cpu" else TILE
        for group in self.groups:
            keys = group.hidden.shape[1] + group.positions.shape[1] + appended
            yield from group.split(max(1, tile // (rows * keys)))

    def _logits(self, group: Group, query: torch.Tensor, tail: torch.Tensor, layer: int) -> torch.Tensor:
        """FP32 [members, kv heads, heads per kv head x n, N + B + t], without scale and mask."""
        members, kv_heads, rows, width = query.shape
        shared = self.base[layer].keys[0]
        by_head = query.transpose(0, 1).reshape(kv_heads, members * rows, width)
        one = (by_head @ shared.transpose(-1, -2)).view(kv_heads, members, rows, -1).transpose(0, 1)
        own = query @ group.rows[layer].keys.transpose(-1, -2)
        return torch.cat((one, own, query @ tail.transpose(-1, -2)), dim=-1).float()

    def _values(self, group: Group, seen: torch.Tensor, tail: torch.Tensor, layer: int) -> torch.Tensor:
        members, kv_heads, rows, _ = seen.shape
        shared, own = self.base[layer].values[0], group.rows[layer].values
        first, second, third = seen.split((shared.shape[1], own.shape[2], tail.shape[2]), dim=-1)
        by_head = first.transpose(0, 1).reshape(kv_heads, members * rows, -1)
        out = (by_head @ shared).view(kv_heads, members, rows, -1).transpose(0, 1)
        return out + second @ own + third @ tail

    def _mask(self, group: Group, appended: int, count: int, window: Window | None) -> torch.Tensor:
        """Additive [members, 1, 1, n, N + B + t]: replaced rows, later tokens, and what a window hides.

        Built once per forward and kept for its layers.
        """
        forward = (self.start, count, appended)
        if self._masks_of != forward:
            self._masks.clear()
            self._masks_of = forward
        key = (group.members.start, window)
        if key not in self._masks:
            self._masks[key] = self._build_mask(group, appended, count, window)
        return self._masks[key]

    def _build_mask(self, group: Group, appended: int, count: int, window: Window | None) -> torch.Tensor:
        device, length = group.hidden.device, group.hidden.shape[1]
        query = torch.arange(self.start, self.start + count, device=device)[:, None]
        tail = torch.arange(length, length + appended, device=device)
        keys = torch.cat(
            (
                torch.arange(length, device=device).expand(len(group.hidden), -1),
                group.positions.to(device),
                tail.expand(len(group.hidden), -1),
            ),
            dim=1,
        )[:, None]
        seen = keys <= query
        if window is not None:
            seen &= keys >= window.first(query)
        mask = torch.zeros(seen.shape, device=device).masked_fill_(~seen, float("-inf"))
        mask[..., :length] += group.hidden[:, None]
        return mask[:, None, None]


def _group(base: Sequence[Rows], deltas: Sequence[Delta], members: slice) -> Group:
    positions = torch.stack([delta.positions for delta in deltas])
    rows = tuple(
        Rows(*(torch.cat(parts) for parts in zip(*layers, strict=True)))
        for layers in zip(*(delta.rows for delta in deltas), strict=True)
    )
    length = base[0].keys.shape[2]
    hidden = torch.zeros(len(deltas), length).scatter_(1, positions, float("-inf")).to(base[0].keys.device)
    return Group(members, positions, rows, hidden)


class AppendedLayer(DynamicLayer):
    """What was appended after `shared` rows that are kept elsewhere; written at `length`, counted with them."""

    shared: int
    length: int

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *_: Any, **__: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        start = self.length - self.shared
        stop = start + key_states.shape[-2]
        self.keys[:, :, start:stop] = key_states
        self.values[:, :, start:stop] = value_states
        self.length += key_states.shape[-2]
        return self.keys[:, :, :stop], self.values[:, :, :stop]

    def get_seq_length(self) -> int:
        return self.length

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self.length + query_length, 0


def appended_cache(base: Sequence[Rows], batch: int, room: int) -> DynamicCache:
    """A cache with room for `room` tokens of `batch` sequences after the shared rows."""
    cache = DynamicCache()
    for keys, values in base:
        layer = AppendedLayer()
        layer.keys, layer.values = (
            part.new_empty(batch, part.shape[1], room, part.shape[3]) for part in (keys, values)
        )
        layer.dtype, layer.device, layer.is_initialized = keys.dtype, keys.device, True
        layer.shared = layer.length = keys.shape[2]
        cache.layers.append(layer)
    return cache


register_attention(ATTENTION_NAME, "shared_rows", SharedRows.attend)
