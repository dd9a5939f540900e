"""Attention of packed rows, ready to be called: the paper's two controls, and the packed executor's backends."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import NamedTuple

import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from cachemend.repair_core.architecture import Window, text_config
from cachemend.repair_core.executors.backends import plan_attention, require_attention
from cachemend.repair_core.executors.plan import AttentionPlan
from cachemend.tasks.execution.lines import GQA_SDPA, HF_SDPA

Attend = Callable[[], torch.Tensor]


class Operands(NamedTuple):
    """Resident query [batch, heads, B, d], key and value [batch, kv heads, N, d]."""

    query: torch.Tensor
    key: torch.Tensor
    value: torch.Tensor

    @classmethod
    def random(
        cls,
        heads: tuple[int, int, int],
        rows: int,
        length: int,
        dtype: torch.dtype,
        device: torch.device,
        seed: int = 0,
        batch: int = 1,
    ) -> "Operands":
        """Standard normal operands; `heads` are query heads, K/V heads and their width."""
        query, kv, width = heads
        generator = torch.Generator().manual_seed(seed)
        shapes = ((query, rows), (kv, length), (kv, length))
        made = [torch.randn(batch, *shape, width, generator=generator).to(device, dtype) for shape in shapes]
        return cls(*made)

    def heads(self) -> dict[str, int]:
        """Their heads, as columns."""
        _, query, _, width = self.query.shape
        return {"query_heads": query, "kv_heads": self.key.shape[1], "head_dim": width}


def heads_of(model: nn.Module) -> tuple[int, int, int]:
    """Query heads, K/V heads and their width."""
    config = text_config(model)
    width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    return config.num_attention_heads, config.num_key_value_heads, width


def prepared(line: str, operands: Operands, positions: torch.Tensor) -> Attend:
    """The attention called `line` of rows at `positions` [B], planned: a call returns [1, B, heads, d], contiguous.

    Raises:
        InputError: a backend that is unknown, or cannot run on this device or in this precision.
    """
    if line == HF_SDPA:
        return _hf_sdpa(operands, _mask(operands, positions))
    if line == GQA_SDPA:
        return _gqa_sdpa(operands, _mask(operands, positions))
    plan = planned(line, operands, positions[None])
    scale = operands.query.shape[-1] ** -0.5
    return lambda: plan.attend(*operands, 0, scale).contiguous()


def planned(backend: str, operands: Operands, positions: torch.Tensor, window: Window | None = None) -> AttentionPlan:
    """The plan of a backend of the packed executor for rows at `positions` [batch, B] of one layer.

    Raises:
        InputError: a backend that is unknown, or cannot run on this device or in this precision.
    """
    require_attention(backend, operands.key.device, operands.key.dtype)
    return plan_attention(backend, positions, (window,))


def _mask(operands: Operands, positions: torch.Tensor) -> torch.Tensor:
    query, key, _ = operands
    seen = torch.arange(key.shape[2], device=key.device) <= positions.to(key.device)[:, None]
    return torch.zeros(seen.shape, dtype=query.dtype, device=query.device).masked_fill_(~seen, float("-inf"))[
        None, None
    ]


def _hf_sdpa(operands: Operands, mask: torch.Tensor) -> Attend:
    query, key, _ = operands
    fold = query.shape[1] // key.shape[1]
    layer = SimpleNamespace(num_key_value_groups=fold, is_causal=True)
    scale = query.shape[-1] ** -0.5
    return lambda: sdpa_attention_forward(layer, *operands, mask, scaling=scale)[0]


def _gqa_sdpa(operands: Operands, mask: torch.Tensor) -> Attend:
    query, key, value = operands
    return lambda: (
        scaled_dot_product_attention(query, key, value, attn_mask=mask, enable_gqa=True).transpose(1, 2).contiguous()
    )
