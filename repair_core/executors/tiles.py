"""Which tiles of keys a tile of packed rows reads: all of it, part of it, or none (paper Eq. 23-24).

Only integers per row and per tile are made, never a mask of rows by keys.
"""

from typing import NamedTuple

import torch

from cachemend.repair_core.architecture import Window


class Visible(NamedTuple):
    """Int32 [1 or batch, B] each: the first and the last key that every row sees."""

    first: torch.Tensor
    last: torch.Tensor


class Bounds(NamedTuple):
    """Numbers of key tiles, int64 [1 or batch, row tiles] each; half-open ranges.

    Tiles `start` to `total` hold every key that a row of the tile sees; of these, `full_start` to `full_stop` are seen
    whole by every row. Without a window start and full_start are 0, full_stop is Eq. 23 and total is Eq. 24.
    """

    start: torch.Tensor
    full_start: torch.Tensor
    full_stop: torch.Tensor
    total: torch.Tensor


def visible_keys(last_seen: torch.Tensor, window: Window | None) -> Visible:
    """The keys of rows that see up to `last_seen` [1 or batch, B], as far back as `window` lets them."""
    first = torch.zeros_like(last_seen) if window is None else window.first(last_seen).clamp(min=0)
    return Visible(first.to(torch.int32), last_seen.to(torch.int32))


def tile_bounds(visible: Visible, rows: int, keys: int) -> Bounds:
    """The bounds of tiles of `rows` packed rows by `keys` positions; the last row tile may hold fewer rows."""
    first, last = (_tiled(values.long(), rows) for values in visible)
    start = first.amin(-1) // keys
    total = last.amax(-1) // keys + 1
    full_start = (-(-first.amax(-1) // keys)).minimum(total)
    full_stop = ((last.amin(-1) + 1) // keys).maximum(full_start)
    return Bounds(start, full_start, full_stop, total)


def _tiled(values: torch.Tensor, rows: int) -> torch.Tensor:
    """[1 or batch, tiles, rows], filled up by the last row, which changes no bound."""
    short = -values.shape[1] % rows
    filled = torch.cat((values, values[:, -1:].expand(-1, short)), dim=1)
    return filled.view(values.shape[0], -1, rows)
