"""Attention functions of our own, which get what they must know as a keyword of the forward."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from transformers import AttentionInterface

LOST_PLAN = (
    "its attention was called without a plan: the model's layers do not pass it on, or another thread runs the model "
    "without holding forward.model_lock(model)"
)

Attend = Callable[..., torch.Tensor]


def register_attention(name: str, keyword: str, attend: Attend) -> None:
    """Make `attend` the attention function called `name`.

    Args:
        name: for `forward.attention_function`.
        keyword: the argument of the model's forward that carries the plan.
        attend: (plan, query, key, value, layer, scale, softcap, sinks) -> [batch, n, heads, value dim]. Query is
            [batch, heads, n, d], key and value [batch, kv heads, keys, dim]; softcap and sinks [heads] may be None.
            The model's own mask is not passed: what a query sees follows from the plan.
    """

    def attention(
        module: nn.Module,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        attention_mask: torch.Tensor | None,  # noqa: ARG001  (the plan replaces it)
        scaling: float | None = None,
        softcap: float | None = None,
        s_aux: torch.Tensor | None = None,
        **options: Any,
    ) -> tuple[torch.Tensor, None]:
        plan = options.get(keyword)
        if plan is None:
            raise RuntimeError(LOST_PLAN)
        scale = scaling if scaling is not None else query.shape[-1] ** -0.5
        return attend(plan, query, key, value, int(module.layer_idx), scale, softcap, s_aux), None  # type: ignore[arg-type]

    AttentionInterface.register(name, attention)
