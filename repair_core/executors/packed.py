"""Packed executor: all selected rows advance through one layer together (paper sections 3.3 and 13.2).

A decoder layer writes its fresh K/V into the cache before it attends. A cache that scatters those rows to
their absolute positions, and an attention function that lets query row r see keys j <= u_r, turn the
unmodified model forward into one layer-major traversal. It ends with the last layer's K/V: nothing that the
model would compute from them goes into the cache.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from transformers.cache_utils import DynamicCache, DynamicLayer

from cachemend.repair_core.architecture import layer_windows
from cachemend.repair_core.caches import Rows, fill
from cachemend.repair_core.executors.backends import DEFAULT, plan_attention
from cachemend.repair_core.executors.base import Executor
from cachemend.repair_core.executors.plan import AttentionPlan
from cachemend.repair_core.forward import Enough, attention_function, base_model, run
from cachemend.repair_core.planned_attention import register_attention

ATTENTION_NAME = "cachemend_packed"


class PackedExecutor(Executor):
    """One traversal for any number of intervals, exact causal history per row, batch of any size.

    Attributes:
        attention: the backend, one of `backends.ATTENTIONS`.
    """

    def __init__(self, attention: str = DEFAULT) -> None:
        self.attention = attention

    def run(
        self,
        model: nn.Module,
        rows: Sequence[Rows],
        ids: torch.Tensor,
        positions: torch.Tensor,
        in_place: bool,
    ) -> list[Rows]:
        where = positions.to(ids.device)
        return traverse(model, self.plan(model, positions, ids.shape[1]), rows, ids.gather(1, where), where, in_place)

    def plan(self, model: nn.Module, positions: torch.Tensor, length: int) -> AttentionPlan:  # noqa: ARG002
        """What the rows at `positions` [batch, B] of a context of `length` tokens see: all up to themselves."""
        return plan_attention(self.attention, positions, layer_windows(model))


def traverse(
    model: nn.Module,
    plan: AttentionPlan,
    rows: Sequence[Rows],
    tokens: torch.Tensor,
    where: torch.Tensor,
    in_place: bool,
) -> list[Rows]:
    """Run the model's layers once over `tokens` [batch, B] at `where` [batch, B]; return the layers with their rows."""
    base = base_model(model)
    traversal = Traversal(plan=plan, in_place=in_place, stops=not _hooked(base), pending=set(range(len(rows))))
    cache = fill(DynamicCache(), rows, ScatterLayer)
    for index, layer in enumerate(cache.layers):
        layer.index, layer.traversal = index, traversal
    with attention_function(base, ATTENTION_NAME):
        run(base, tokens, cache, where, packed_plan=plan)
    if traversal.pending:
        raise RuntimeError(f"the model's forward never wrote layers {sorted(traversal.pending)} of the cache")
    return [Rows(layer.keys, layer.values) for layer in cache.layers]


@dataclass(eq=False, kw_only=True)
class Traversal:
    """What the layers of one refresh share.

    Attributes:
        plan: where the fresh rows go.
        in_place: write into the given tensors, not into a copy made when a layer is reached.
        stops: end the forward once every layer is written.
        pending: the layers that were not written yet.
    """

    plan: AttentionPlan
    in_place: bool
    stops: bool
    pending: set[int]


class ScatterLayer(DynamicLayer):
    """A full-length layer whose update overwrites the selected rows (paper Eq. 21)."""

    keys: torch.Tensor
    values: torch.Tensor
    index: int
    traversal: Traversal

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *_: Any, **__: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        if not self.traversal.in_place:
            self.keys = self.keys.clone(memory_format=torch.contiguous_format)
            self.values = self.values.clone(memory_format=torch.contiguous_format)
        self.traversal.plan.write_both(self.keys, self.values, key_states, value_states)
        self.traversal.pending.discard(self.index)
        if self.traversal.stops and not self.traversal.pending:
            raise Enough
        return self.keys, self.values


def _hooked(base: nn.Module) -> bool:
    """Whether something acts after a module's forward (FSDP, accelerate); ending the traversal would skip it."""
    return any(module._forward_hooks or "_hf_hook" in vars(module) for module in base.modules())


def _attend(plan: AttentionPlan, *arguments: Any) -> torch.Tensor:
    return plan.attend(*arguments)


register_attention(ATTENTION_NAME, "packed_plan", _attend)
