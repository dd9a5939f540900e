"""Packed attention by FlexAttention, a check on the other backends.

On a CUDA device it is compiled and visits the planned blocks only. On a CPU it runs uncompiled and materialises every
logit.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple

import torch
from torch.nn.attention.flex_attention import AuxRequest, BlockMask, flex_attention

from cachemend.repair_core.architecture import Window
from cachemend.repair_core.executors.plan import AttentionPlan
from cachemend.repair_core.executors.tiles import Visible, tile_bounds, visible_keys

BLOCK = 128


class _Blocks(NamedTuple):
    """Int32 [1 or batch, 1, row tiles] and [.., key tiles]: the key blocks seen in part and in whole."""

    partial: torch.Tensor
    partial_at: torch.Tensor
    full: torch.Tensor
    full_at: torch.Tensor
    visible: Visible


@dataclass(eq=False)
class FlexPlan(AttentionPlan):
    """A `BlockMask` per window and cache length, made of the tile bounds."""

    _masks: dict[tuple[Window | None, int, torch.device], BlockMask] = field(default_factory=dict)

    def prepare(self, window: Window | None) -> None:
        """Nothing: blocks are laid out for a number of keys, which the first layer tells."""

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
        mask = self._mask(self.windows[layer], key.shape[2], query.device)
        cap = None if softcap is None else _capped(softcap)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*flex_attention called without torch.compile")
            out, auxiliary = _flex(query.device.type)(
                query,
                key,
                value,
                score_mod=cap,
                block_mask=mask,
                scale=scale,
                enable_gqa=query.shape[1] != key.shape[1],
                return_aux=AuxRequest(lse=True),
            )
        if sinks is not None:
            # exp(lse) of exp(lse) + exp(sink)
            out = (out * torch.sigmoid(auxiliary.lse - sinks.float()[:, None])[..., None]).to(query.dtype)
        return out.transpose(1, 2).contiguous()

    def _mask(self, window: Window | None, keys: int, device: torch.device) -> BlockMask:
        if (window, keys, device) not in self._masks:
            self._masks[window, keys, device] = self._build(window, keys, device)
        return self._masks[window, keys, device]

    def _build(self, window: Window | None, keys: int, device: torch.device) -> BlockMask:
        parts = _blocks(visible_keys(self.last_seen, window), keys)
        first, last = (t.to(device) for t in parts.visible)
        shared = first.shape[0] == 1

        def sees(batch: torch.Tensor, head: torch.Tensor, row: torch.Tensor, key: torch.Tensor) -> torch.Tensor:  # noqa: ARG001
            of = 0 if shared else batch
            return (key >= first[of, row]) & (key <= last[of, row])

        return BlockMask.from_kv_blocks(
            parts.partial.to(device),
            parts.partial_at.to(device),
            parts.full.to(device),
            parts.full_at.to(device),
            BLOCK_SIZE=BLOCK,
            mask_mod=sees,
            seq_lengths=(self.positions.shape[1], keys),
        )


def _blocks(visible: Visible, keys: int) -> _Blocks:
    start, full_start, full_stop, total = (b[:, None, :, None] for b in tile_bounds(visible, BLOCK, BLOCK))
    at = torch.arange(-(-keys // BLOCK))
    whole = (at >= full_start) & (at < full_stop)
    some = (at >= start) & (at < total) & ~whole
    return _Blocks(*_listed(some), *_listed(whole), visible)


def _listed(chosen: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """How many of the last axis are chosen, and which: those first, in order."""
    order = chosen.to(torch.int8).argsort(dim=-1, descending=True, stable=True)
    return chosen.sum(-1).to(torch.int32), order.to(torch.int32)


def _capped(softcap: float) -> Callable[..., torch.Tensor]:
    def capped(score: torch.Tensor, *_: torch.Tensor) -> torch.Tensor:
        return softcap * torch.tanh(score / softcap)

    return capped


@cache
def _flex(device: str) -> Any:
    return torch.compile(flex_attention, dynamic=True) if device == "cuda" else flex_attention
