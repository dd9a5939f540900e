"""Explicit attention in FP64, and how far an output may be from it (paper section 13.5)."""

from typing import NamedTuple

import torch

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
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, positions: torch.Tensor
) -> torch.Tensor:
    """Row r reads keys 0 to u_r (paper Eq. 22), in FP64.

    Args:
        query: [1, heads, B, d].
        key, value: [1, kv heads, N, d].
        positions: int64 [B].

    Returns:
        FP64 [1, B, heads, d].
    """
    kv_heads, length, width = key.shape[1:]
    heads, count = query.shape[1:3]
    seen = torch.arange(length, device=key.device) <= positions.to(key.device)[:, None]
    out = torch.empty(1, count, heads, value.shape[-1], dtype=torch.float64, device=query.device)
    for head in range(heads):  # one at a time: FP64 logits of all heads are large
        k, v = (t[0, head * kv_heads // heads].double() for t in (key, value))
        logits = (query[0, head].double() @ k.T * width**-0.5).masked_fill(~seen, float("-inf"))
        out[0, :, head] = logits.softmax(dim=-1) @ v
    return out
