"""The rotation that moves stored keys to other positions."""

from dataclasses import dataclass
from typing import Literal

import torch


@dataclass(frozen=True, eq=False)
class Rotation:
    """How one layer's cached keys turn when their positions move.

    Attributes:
        inv_freq: FP64 [rotary dims / 2], radians per position, negative where a model turns the other way; None for
            a layer without positions.
        layout: "half" pairs dim i with i + r/2, "interleaved" pairs 2i with 2i + 1.
        tail: the rotary dims are the last ones of the head instead of the first.
        scale: the rotary embedding's attention scaling, which a stored key already contains.
    """

    inv_freq: torch.Tensor | None
    layout: Literal["half", "interleaved"] = "half"
    tail: bool = False
    scale: float = 1.0

    def apply(self, keys: torch.Tensor, offset: int | torch.Tensor) -> torch.Tensor:
        """Return R(offset) keys, computed in FP32 and stored in the keys' dtype (paper Eq. 2).

        Args:
            keys: [..., n, head dim], rotated to some positions.
            offset: how far every position moves; negative after a deletion. A tensor [n] moves each by its own.

        A scaling factor of the rotary embedding is already part of a stored key, so this is a pure rotation.
        """
        if self.inv_freq is None or (isinstance(offset, int) and offset == 0):
            return keys.clone()
        width = 2 * self.inv_freq.numel()
        work = torch.promote_types(keys.dtype, torch.float32)
        moves = torch.as_tensor(offset, dtype=torch.float64, device=keys.device)
        angle = self.inv_freq.to(keys.device, torch.float64) * moves[..., None]
        cos, sin = angle.cos().to(work), angle.sin().to(work)
        start = keys.shape[-1] - width if self.tail else 0
        part = keys[..., start : start + width].to(work)
        if self.layout == "half":
            first, second = part.chunk(2, dim=-1)
            turned = torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)
        else:
            first, second = part[..., 0::2], part[..., 1::2]
            turned = torch.stack((first * cos - second * sin, second * cos + first * sin), dim=-1).flatten(-2)
        out = keys.clone()
        out[..., start : start + width] = turned.to(keys.dtype)
        return out

    def remove(self, keys: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """Return keys [..., n, head dim] stored at `positions` [n] without rotation and scaling, in FP32."""
        bare = self.apply(keys.to(torch.promote_types(keys.dtype, torch.float32)), -positions)
        if self.inv_freq is not None and self.scale != 1:
            width = 2 * self.inv_freq.numel()
            start = keys.shape[-1] - width if self.tail else 0
            bare[..., start : start + width] /= self.scale
        return bare
