"""Explicit attention in FP64, and how far an output may be from it (paper section 13.5)."""

from typing import NamedTuple

import torch

from cachemend.repair_core.architecture import Window

TOLERANCES: dict[torch.dtype, tuple[float, float]] = {
    torch.bfloat16: (0.002, 0.02),
    torch.float16: (0.00025, 0.003),
    torch.float32: (1e-5, 1e-4),
}
"""Absolute and relative tolerance. The paper gives those of BF16 and FP16."""


class Tolerance(NamedTuple):
    """An output may be off by `absolute` + `relative` * |truth| in every number."""

    absolute: float
    relative: float

    @classmethod
    def of(cls, dtype: torch.dtype) -> "Tolerance":
        return cls(*TOLERANCES[dtype])

    def used(self, output: torch.Tensor, truth: torch.Tensor) -> float:
        """The largest share of the tolerance that any number uses: wrong above 1; infinite for NaN."""
        share = (output.double() - truth).abs() / (self.absolute + self.relative * truth.abs())
        return float(share.nan_to_num(nan=float("inf")).max())


def absolute_causal(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    positions: torch.Tensor,
    window: Window | None = None,
) -> torch.Tensor:
    """Row r reads keys 0 to u_r (paper Eq. 22), or of them those in its window, in FP64.

    Args:
        query: [batch, heads, B, d].
        key, value: [batch, kv heads, N, d].
        positions: int64 [B] for all sequences, or [batch, B].

    Returns:
        FP64 [batch, B, heads, d].
    """
    batch, kv_heads, length, width = key.shape
    heads, count = query.shape[1:3]
    keys = torch.arange(length, device=key.device)
    last = positions.to(key.device).expand(batch, count)[..., None]
    seen = keys <= last
    if window is not None:
        seen &= keys >= window.first(last)
    out = torch.empty(batch, count, heads, value.shape[-1], dtype=torch.float64, device=query.device)
    for head in range(heads):  # one at a time: FP64 logits of all heads are large
        k, v = (t[:, head * kv_heads // heads].double() for t in (key, value))
        logits = (query[:, head].double() @ k.mT * width**-0.5).masked_fill(~seen, float("-inf"))
        out[:, :, head] = logits.softmax(dim=-1) @ v
    return out
