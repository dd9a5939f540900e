"""Packed attention by indexed Triton kernels: integers per row and tile, no mask (paper section 13.2)."""

from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

import torch

from cachemend.repair_core.architecture import HeadWidths, Window
from cachemend.repair_core.executors import triton_kernels as kernels
from cachemend.repair_core.executors.plan import AttentionPlan
from cachemend.repair_core.executors.tiles import tile_bounds, visible_keys

# Key tiles of one split, and the most splits: a choice made without a device, to be measured on one.
TILES_PER_SPLIT = 8
MOST_SPLITS = 16


class _Indexed(NamedTuple):
    """Int32: first and last key [1 or batch, B]; bounds [1 or batch, 4, row tiles]; key tiles of the longest."""

    first: torch.Tensor
    last: torch.Tensor
    bounds: torch.Tensor
    longest: int

    def on(self, device: torch.device) -> "_Indexed":
        return _Indexed(self.first.to(device), self.last.to(device), self.bounds.to(device), self.longest)


@dataclass(eq=False)
class TritonPlan(AttentionPlan):
    """One launch per layer; every program walks all key tiles of its rows."""

    splits_keys: ClassVar[bool] = False

    _indexed: dict[Window | None, _Indexed] = field(default_factory=dict)
    _uploaded: dict[tuple[Window | None, torch.device], _Indexed] = field(default_factory=dict)

    def prepare(self, window: Window | None) -> None:
        visible = visible_keys(self.last_seen, window)
        bounds = tile_bounds(visible, kernels.ROWS, kernels.KEYS)
        if self.static_keys is None:
            longest = int((bounds.total - bounds.start).max())
        else:
            longest = -(-self.static_keys // kernels.KEYS)
        stacked = torch.stack(bounds, dim=1).to(torch.int32).contiguous()
        self._indexed[window] = _Indexed(visible.first.contiguous(), visible.last.contiguous(), stacked, longest)

    def splits(self, window: Window | None) -> int:
        """How many programs share the key tiles of a tile of rows."""
        if not self.splits_keys:
            return 1
        return max(1, min(MOST_SPLITS, -(-self._indexed[window].longest // TILES_PER_SPLIT)))

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
        batch, heads, rows, width = query.shape
        splits, value_width = self.splits(window), value.shape[-1]
        indexed = self._on(window, query.device)
        out = query.new_empty(batch, rows, heads, value_width)
        partial = lse = out
        if splits > 1:
            partial = torch.empty(splits, *out.shape, dtype=torch.float32, device=out.device)
            lse = torch.empty(splits, batch, rows, heads, dtype=torch.float32, device=out.device)
        tiles = indexed.bounds.shape[2]
        blocks = {"value_width": value_width, "value_block": _block(value_width), "has_sinks": sinks is not None}
        extra = out if sinks is None else sinks
        with torch.cuda.device_of(query):
            kernels.attend_tile[tiles, batch * heads, splits](
                *(query, key, value, partial, lse, extra, indexed.first, indexed.last, indexed.bounds),
                *(float(scale), float(softcap or 1.0), rows, key.shape[2], tiles),
                *(_over_batch(indexed.first), _over_batch(indexed.bounds)),
                *(*query.stride(), *key.stride(), *value.stride()),
                heads=heads,
                group=heads // key.shape[1],
                splits=splits,
                width=width,
                width_block=_block(width),
                row_tile=kernels.ROWS,
                key_tile=kernels.KEYS,
                has_cap=softcap is not None,
                widen=kernels.INTERPRETED,  # the interpreter multiplies the bits of BF16 as integers
                **blocks,
                **kernels.OPTIONS,
            )
            if splits > 1:
                count = batch * rows * heads
                kernels.combine_splits[(-(-count // kernels.ITEMS),)](
                    *(partial, lse, extra, out, count), heads=heads, splits=splits, item_tile=kernels.ITEMS, **blocks
                )
        return out

    def _on(self, window: Window | None, device: torch.device) -> _Indexed:
        if (window, device) not in self._uploaded:
            self._uploaded[window, device] = self._indexed[window].on(device)
        return self._uploaded[window, device]


class SplitTritonPlan(TritonPlan):
    """Several programs share the key tiles of a tile of rows: few rows over a long context fill a device."""

    splits_keys = True


class FusedTritonPlan(TritonPlan):
    """Fresh keys and values of a layer go into the cache in one launch."""

    def write_both(
        self, keys: torch.Tensor, values: torch.Tensor, fresh_keys: torch.Tensor, fresh_values: torch.Tensor
    ) -> None:
        positions = self.rows_on(keys.device)
        batch, heads, rows, width = fresh_keys.shape
        value_width = fresh_values.shape[-1]
        with torch.cuda.device_of(keys):
            kernels.scatter_rows[rows, batch * heads](
                *(keys, values, fresh_keys, fresh_values, positions, _over_batch(positions), heads),
                *(*keys.stride(), *values.stride(), *fresh_keys.stride(), *fresh_values.stride()),
                width=width,
                value_width=value_width,
                block=max(_block(width), _block(value_width)),
            )


def shared_bytes(widths: HeadWidths, dtype: torch.dtype) -> int:
    """Shared memory of one program of `attend_tile` in bytes, as Triton 3.7 compiles it for NVIDIA devices.

    One tile of keys and one of values, the queries (FP32 ones twice, as the two parts of TF32x3) and two tiles of FP32
    logits.
    """
    queries = kernels.ROWS * (2 if dtype == torch.float32 else 1)
    per_width = _block(widths.key) * (kernels.KEYS + queries) + _block(widths.value) * kernels.KEYS
    return per_width * dtype.itemsize + 2 * kernels.ROWS * kernels.KEYS * torch.float32.itemsize


def _block(width: int) -> int:
    """The power of two that a product takes for `width`, at least 16."""
    return max(16, 1 << (width - 1).bit_length())


def _over_batch(values: torch.Tensor) -> int:
    """The stride over sequences of what they may share."""
    return values.stride(0) if values.shape[0] > 1 else 0
