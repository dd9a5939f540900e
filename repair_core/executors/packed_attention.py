"""Packed attention by SDPA, the default backend: planned once per refresh and reused by every layer."""

from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch.nn.functional import scaled_dot_product_attention

from cachemend.repair_core.architecture import Window
from cachemend.repair_core.executors.plan import AttentionPlan

# Rows that share one key range. Fewer per group cut more invisible keys, more make larger products; measured over
# 8, 16, 32 and 64 rows on a CPU, 16 is best for scattered rows.
ROW_GROUP = 16
# Neighbouring groups whose joint key range is hardly larger (rows of one interval) are joined: a quarter faster.
JOIN_UP_TO = 1.1
# CUDA's memory-efficient kernel copies a mask with another row stride anew in every layer.
MASK_STRIDE = 8


class _Group(NamedTuple):
    """Packed rows `start` to `stop` and the keys `low` to `high` that hold all they see."""

    start: int
    stop: int
    low: int
    high: int

    @property
    def area(self) -> int:
        return (self.stop - self.start) * (self.high - self.low)

    def with_next(self, other: "_Group") -> "_Group":
        return _Group(self.start, other.stop, min(self.low, other.low), max(self.high, other.high))


@dataclass(eq=False)
class PackedPlan(AttentionPlan):
    """SDPA in groups of neighbouring rows with a truncated key range, under one additive mask per group."""

    _groups: dict[Window | None, list[_Group]] = field(default_factory=dict)
    _masks: dict[tuple[object, ...], list[torch.Tensor]] = field(default_factory=dict)

    def prepare(self, window: Window | None) -> None:
        whole = _Group(0, self.positions.shape[1], 0, self.static_keys or 0)
        self._groups[window] = self._cut(window) if self.static_keys is None else [whole]

    def _cut(self, window: Window | None) -> list[_Group]:
        groups: list[_Group] = []
        apart = 0
        for start in range(0, self.last_seen.shape[1], ROW_GROUP):
            part = self.last_seen[:, start : start + ROW_GROUP]
            low = 0 if window is None else max(0, int(window.first(part).min()))
            group = _Group(start, start + part.shape[1], low, int(part.max()) + 1)
            joined = groups[-1].with_next(group) if groups else group
            apart += group.area
            if groups and joined.area <= JOIN_UP_TO * apart:
                groups[-1] = joined
            else:
                groups.append(group)
                apart = group.area
        return groups

    def _mask(self, group: _Group, window: Window | None, fold: int, like: torch.Tensor) -> torch.Tensor:
        """Additive mask [1 or batch, 1, rows * fold, keys] of a group."""
        last = self.last_seen[:, group.start : group.stop, None].to(like.device)
        keys = torch.arange(group.low, group.high, device=like.device)
        seen = keys <= last
        if window is not None:
            seen &= keys >= window.first(last)
        width = -(-len(keys) // MASK_STRIDE) * MASK_STRIDE
        mask = torch.zeros(*seen.shape[:2], width, dtype=like.dtype, device=like.device)
        mask[:, :, : len(keys)].masked_fill_(~seen, float("-inf"))
        return mask.repeat_interleave(fold, dim=1)[:, None, :, : len(keys)]

    def _masks_for(self, window: Window | None, fold: int, like: torch.Tensor) -> list[torch.Tensor]:
        """The masks of all groups, built once for all layers alike."""
        key = (window, fold, like.dtype, like.device)
        if key not in self._masks:
            self._masks[key] = [self._mask(group, window, fold, like) for group in self._groups[window]]
        return self._masks[key]

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
        self.require_fit(query, key)
        window = self.windows[layer]
        batch, heads, count, width = query.shape
        kv_heads = key.shape[1]
        fold = heads // kv_heads
        # The query heads of one K/V head become further rows, so K and V are not repeated.
        folded = query.reshape(batch, kv_heads, fold, count, width).transpose(2, 3).reshape(batch, kv_heads, -1, width)
        parts = []
        for group, mask in zip(self._groups[window], self._masks_for(window, fold, query), strict=True):
            rows = folded[:, :, group.start * fold : group.stop * fold]
            k, v = key[:, :, group.low : group.high], value[:, :, group.low : group.high]
            if softcap is None and sinks is None:
                parts.append(scaled_dot_product_attention(rows, k, v, attn_mask=mask, scale=scale))
            else:
                parts.append(explicit_attention(rows, k, v, mask, scale, softcap, sinks))
        out = parts[0] if len(parts) == 1 else torch.cat(parts, dim=2)
        unfolded = out.view(batch, kv_heads, count, fold, -1).transpose(1, 2)
        return unfolded.reshape(batch, count, heads, -1)


def explicit_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor,
    scale: float,
    softcap: float | None,
    sinks: torch.Tensor | None,
) -> torch.Tensor:
    """Attention that SDPA cannot express, with probabilities in FP32. Query [batch, kv heads, rows * fold, d]."""
    logits = torch.matmul(query, key.transpose(-1, -2)).float() * scale
    if softcap is not None:
        logits = torch.tanh(logits / softcap) * softcap
    logits = logits + mask
    if sinks is not None:
        kv_heads, rows = query.shape[1:3]
        per_head = sinks.float().view(kv_heads, -1)
        column = per_head.repeat(1, rows // per_head.shape[1])[None, :, :, None].expand(query.shape[0], -1, -1, 1)
        logits = torch.cat((logits, column), dim=-1)
        return torch.matmul(logits.softmax(dim=-1)[..., :-1].to(value.dtype), value)
    return torch.matmul(logits.softmax(dim=-1).to(value.dtype), value)
