"""Attention of packed rows over the full cache, planned once per refresh and reused by every layer."""

from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch.nn.functional import scaled_dot_product_attention

# Rows share one key range; more groups cut more invisible keys, fewer make larger products.
ROW_GROUP = 16


class _Group(NamedTuple):
    rows: slice
    low: int
    high: int


@dataclass(eq=False)
class PackedPlan:
    """Which keys each packed row sees (paper Eq. 22), in groups of neighbouring rows with a truncated key range.

    Attributes:
        positions: int64 [1 or batch, B], sorted; one row when every sequence selected the same positions.
        windows: per layer, the sliding window in tokens or None.
    """

    positions: torch.Tensor
    windows: tuple[int | None, ...]
    _groups: dict[int | None, list[_Group]] = field(default_factory=dict)
    _masks: dict[tuple[object, ...], torch.Tensor] = field(default_factory=dict)
    _rows: dict[torch.device, torch.Tensor] = field(default_factory=dict)

    @classmethod
    def build(cls, positions: torch.Tensor, windows: tuple[int | None, ...]) -> "PackedPlan":
        """Plan for `positions` [batch, B] on the CPU."""
        shared = bool((positions == positions[:1]).all())
        plan = cls(positions=positions[:1] if shared else positions, windows=windows)
        for window in set(windows):
            plan._groups[window] = plan._cut(window)
        return plan

    def rows_on(self, device: torch.device) -> torch.Tensor:
        """`positions` on `device`."""
        if device not in self._rows:
            self._rows[device] = self.positions.to(device)
        return self._rows[device]

    def _cut(self, window: int | None) -> list[_Group]:
        groups = []
        for start in range(0, self.positions.shape[1], ROW_GROUP):
            part = self.positions[:, start : start + ROW_GROUP]
            low = 0 if window is None else max(0, int(part.min()) - window + 1)
            groups.append(_Group(slice(start, start + part.shape[1]), low, int(part.max()) + 1))
        return groups

    def _mask(self, group: _Group, window: int | None, fold: int, like: torch.Tensor) -> torch.Tensor:
        """Additive mask [1 or batch, 1, fold * rows, keys] of a group, built on first use."""
        key = (group.rows.start, window, fold, like.dtype, like.device)
        if key not in self._masks:
            rows = self.rows_on(like.device)[:, group.rows, None]
            keys = torch.arange(group.low, group.high, device=like.device)
            seen = keys <= rows
            if window is not None:
                seen &= keys > rows - window
            mask = torch.zeros(seen.shape, dtype=like.dtype, device=like.device).masked_fill_(~seen, float("-inf"))
            self._masks[key] = mask.repeat(1, fold, 1)[:, None]
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
        """Return softmax(scale * Q K[0:u]^T) V[0:u] row by row. [batch, heads, B, value dim].

        Args:
            query: [batch, heads, B, d].
            key, value: [batch, kv heads, N, d]; heads is a multiple of kv heads.
            layer: decides the sliding window.
            scale: factor of the logits.
            softcap: logits become softcap * tanh(logits / softcap).
            sinks: [heads], one extra logit per head that takes probability and gives nothing.
        """
        window = self.windows[layer]
        batch, heads, count, width = query.shape
        kv_heads = key.shape[1]
        fold = heads // kv_heads
        folded = query.view(batch, kv_heads, fold, count, width)
        out = query.new_empty(batch, kv_heads, fold, count, value.shape[-1])
        for group in self._groups[window]:
            rows = folded[:, :, :, group.rows].reshape(batch, kv_heads, -1, width)
            k, v = key[:, :, group.low : group.high], value[:, :, group.low : group.high]
            mask = self._mask(group, window, fold, query)
            if softcap is None and sinks is None:
                part = scaled_dot_product_attention(rows, k, v, attn_mask=mask, scale=scale)
            else:
                part = _explicit(rows, k, v, mask, scale, softcap, sinks)
            out[:, :, :, group.rows] = part.view(batch, kv_heads, fold, -1, value.shape[-1])
        return out.view(batch, heads, count, value.shape[-1])


def _explicit(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor,
    scale: float,
    softcap: float | None,
    sinks: torch.Tensor | None,
) -> torch.Tensor:
    """Attention that SDPA cannot express, with probabilities in FP32. Query [batch, kv heads, fold * rows, d]."""
    logits = torch.matmul(query, key.transpose(-1, -2)).float() * scale
    if softcap is not None:
        logits = torch.tanh(logits / softcap) * softcap
    logits = logits + mask
    if sinks is not None:
        kv_heads = query.shape[1]
        per_row = sinks.float().view(1, kv_heads, -1, 1)
        repeats = query.shape[2] // per_row.shape[2]
        column = per_row.repeat_interleave(repeats, dim=2).expand(query.shape[0], -1, -1, 1)
        logits = torch.cat((logits, column), dim=-1)
        return torch.matmul(logits.softmax(dim=-1)[..., :-1].to(value.dtype), value)
    return torch.matmul(logits.softmax(dim=-1).to(value.dtype), value)
