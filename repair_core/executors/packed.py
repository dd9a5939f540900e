"""Packed executor: all selected rows advance through one layer together (paper sections 3.3 and 13.2).

A decoder layer writes its fresh K/V into the cache before it attends. A cache that scatters those rows to
their absolute positions, and an attention function that lets query row r see keys j <= u_r, turn the
unmodified model forward into one layer-major traversal.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from transformers import AttentionInterface
from transformers.cache_utils import DynamicCache, DynamicLayer

from cachemend.repair_core.architecture import layer_windows
from cachemend.repair_core.caches import Rows, clone_rows, fill
from cachemend.repair_core.executors.base import Executor
from cachemend.repair_core.executors.packed_attention import PackedPlan
from cachemend.repair_core.forward import base_model, model_lock, run

ATTENTION_NAME = "cachemend_packed"


class PackedExecutor(Executor):
    """One traversal for any number of intervals, exact causal history per row, batch of any size."""

    def run(
        self,
        model: nn.Module,
        rows: Sequence[Rows],
        ids: torch.Tensor,
        positions: torch.Tensor,
        in_place: bool,
    ) -> list[Rows]:
        out = list(rows) if in_place else clone_rows(rows)
        where = positions.to(ids.device)
        plan = PackedPlan.build(positions, layer_windows(model))
        cache = fill(DynamicCache(), out, ScatterLayer)
        for layer in cache.layers:
            layer.plan = plan
        base = base_model(model)
        with _packed_attention(base):
            run(base, ids.gather(1, where), cache, where, packed_plan=plan)
        return out


class ScatterLayer(DynamicLayer):
    """A full-length layer whose update overwrites the selected rows (paper Eq. 21)."""

    plan: PackedPlan

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *_: Any, **__: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        for target, fresh in ((self.keys, key_states), (self.values, value_states)):
            index = self.plan.rows_on(target.device)
            if index.shape[0] == 1:
                target.index_copy_(2, index[0], fresh)
            else:
                expanded = index[:, None, :, None].expand(-1, target.shape[1], -1, target.shape[3])
                target.scatter_(2, expanded, fresh)
        return self.keys, self.values


def _attention(
    module: nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,  # noqa: ARG001  (the plan replaces it)
    packed_plan: PackedPlan | None = None,
    scaling: float | None = None,
    softcap: float | None = None,
    s_aux: torch.Tensor | None = None,
    **_: Any,
) -> tuple[torch.Tensor, None]:
    """The registered attention function. Query [batch, heads, B, d]; key and value [batch, kv heads, N, d]."""
    if packed_plan is None:
        raise RuntimeError("this model is being refreshed by another thread; call it under forward.model_lock(model)")
    scale = scaling if scaling is not None else query.shape[-1] ** -0.5
    out = packed_plan.attend(query, key, value, int(module.layer_idx), scale, softcap, s_aux)  # type: ignore[arg-type]
    return out.transpose(1, 2), None


AttentionInterface.register(ATTENTION_NAME, _attention)


@contextmanager
def _packed_attention(base: nn.Module) -> Iterator[None]:
    # The attention function is chosen through the model's shared configuration for the time of one forward.
    with model_lock(base):
        configs: dict[int, Any] = {id(m.config): m.config for m in base.modules() if hasattr(m, "config")}
        before = {key: config._attn_implementation for key, config in configs.items()}
        try:
            for config in configs.values():
                config._attn_implementation = ATTENTION_NAME
            yield
        finally:
            for key, config in configs.items():
                config._attn_implementation = before[key]
