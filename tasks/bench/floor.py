"""What a refresh cannot be faster than on this machine, measured in the run that needs it."""

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn.functional import linear

from cachemend.repair_core.architecture import text_config
from cachemend.repair_core.forward import base_model

_CPU = torch.device("cpu")


class Machine(NamedTuple):
    """Calibrated limits: FLOP/s of a large product and bytes/s of a large copy beyond any cache.

    On a CPU at the run's threads.
    """

    flops: float
    bandwidth: float


class Bound(NamedTuple):
    """Seconds that the FLOPs of some work take at peak, its bytes at full bandwidth, and those of a copy beside it."""

    by_flops: float
    by_bytes: float
    by_copy: float = 0.0

    @property
    def seconds(self) -> float:
        """The larger: no schedule that copies as much is faster."""
        return max(self.by_flops, self.by_bytes + self.by_copy)

    def __str__(self) -> str:
        moved = f"bytes over bandwidth {self.by_bytes * 1e3:.1f} ms"
        copied = f" and {self.by_copy * 1e3:.1f} ms of the copy" if self.by_copy else ""
        return f"FLOPs over peak {self.by_flops * 1e3:.1f} ms, {moved}{copied}"


def calibrate(repeats: int = 5, dtype: torch.dtype = torch.float32, device: torch.device = _CPU) -> Machine:
    """Measure both limits on `device`, the product in `dtype`; best of `repeats`."""
    size, copied = (8192, 2**30) if device.type == "cuda" else (1536, 64 * 2**20)
    a, b = torch.randn(2, size, size, device=device).to(dtype)
    big = torch.randn(copied // 4, device=device)
    target = torch.empty_like(big)
    product = _best(lambda: a @ b, repeats, device)
    copy = _best(lambda: target.copy_(big), repeats, device)
    return Machine(2 * size**3 / product, 2 * big.nbytes / copy)


def _best(function: Callable[[], object], repeats: int, device: torch.device) -> float:
    best = float("inf")
    for _ in range(repeats + 1):
        start = time.perf_counter()
        function()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        best = min(best, time.perf_counter() - start)
    return best


def products_of_a_refresh(model: nn.Module, positions: torch.Tensor) -> Callable[[], None]:
    """The matrix products a refresh of `positions` [B] needs, with the model's own weights and nothing else.

    The projections of `_needed` for B rows, and in every layer but the last for each row its logits over the u + 1
    visible keys and the weighted sum of their values, as one product per 16 neighbouring rows.
    """
    base: Any = base_model(model)
    weights = _needed(model)
    config = base.config
    rows, kv_heads = len(positions), config.num_key_value_heads
    fold = config.num_attention_heads // kv_heads
    inputs = {w.shape[1]: torch.randn(rows, w.shape[1]) for w in weights}
    groups = positions.split(16)
    keys = torch.randn(kv_heads, int(positions.max()) + 1, config.head_dim)
    queries = [torch.randn(kv_heads, fold * len(group), config.head_dim) for group in groups]

    def run() -> None:
        for weight in weights:
            linear(inputs[weight.shape[1]], weight)
        for _ in range(len(base.layers) - 1):
            for group, query in zip(groups, queries, strict=True):
                visible = keys[:, : int(group.max()) + 1]
                (query @ visible.transpose(1, 2)) @ visible

    return run


def bound_of_a_refresh(model: nn.Module, positions: torch.Tensor, machine: Machine, copied: int) -> Bound:
    """The bound of a refresh of `positions` [B] that copies a cache of `copied` rows."""
    return Bound(
        flops_of_a_refresh(model, positions) / machine.flops,
        bytes_of_a_refresh(model, positions) / machine.bandwidth,
        bytes_of_a_copy(model, copied) / machine.bandwidth,
    )


def flops_of_a_refresh(model: nn.Module, positions: torch.Tensor) -> float:
    """FLOPs of the same products, with exactly u + 1 keys per row."""
    base: Any = base_model(model)
    linear_flops = sum(2 * weight.numel() for weight in _needed(model)) * len(positions)
    width = base.config.num_attention_heads * base.config.head_dim
    pairs = int((positions + 1).sum())
    return linear_flops + 4.0 * width * pairs * (len(base.layers) - 1)


def bytes_of_a_refresh(model: nn.Module, positions: torch.Tensor) -> float:
    """Bytes of the weights of `_needed`, and of K and V up to the last position in every layer but the last, read once.

    No copy of a cache is among them.
    """
    weights = sum(weight.nbytes for weight in _needed(model))
    return weights + _bytes_of_rows(model, int(positions.max()) + 1, text_config(model).num_hidden_layers - 1)


def bytes_of_a_copy(model: nn.Module, copied: int) -> float:
    """Bytes of a cache of `copied` rows, read once and written once."""
    return 2 * _bytes_of_rows(model, copied, text_config(model).num_hidden_layers)


def _needed(model: nn.Module) -> list[torch.Tensor]:
    """The weight matrices that fresh rows take: all of every layer but the last, of which the cache needs K and V only.

    Where the last layer projects to keys and values by other names, all of it.
    """
    base: Any = base_model(model)
    *before, last = base.layers
    ends = [part for name, part in last.named_modules() if name.rpartition(".")[2] in ("k_proj", "v_proj")]
    parts = [part for layer in (*before, *(ends or [last])) for part in layer.modules()]
    return [part.weight for part in parts if isinstance(part, nn.Linear)]


def _bytes_of_rows(model: nn.Module, count: int, layers: int) -> float:
    base: Any = base_model(model)
    config = base.config
    itemsize = next(model.parameters()).element_size()
    return 2 * config.num_key_value_heads * config.head_dim * itemsize * layers * count
