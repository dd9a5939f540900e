"""What attention reads at chosen rows of a finished cache: a forward that writes nothing."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention
from transformers.cache_utils import Cache, DynamicCache, DynamicLayer

from cachemend.repair_core.architecture import Window, layer_windows, text_config
from cachemend.repair_core.caches import fill, read_rows
from cachemend.repair_core.errors import Refused
from cachemend.repair_core.forward import attention_function, base_model, input_device, run
from cachemend.repair_core.intervals import Positions
from cachemend.repair_core.pinning import pinned_frequencies
from cachemend.repair_core.planned_attention import register_attention

ATTENTION_NAME = "cachemend_reading"


class LayerReading(NamedTuple):
    """The attention of one layer at the chosen rows, batch 1.

    Attributes:
        layer: the layer.
        query: [heads, rows, d].
        keys: [kv heads, N, d]; heads is a multiple of kv heads.
        values: [kv heads, N, value dim].
        scale: factor of the logits, 1 / sqrt(d) in most models.
        visible: bool [rows, N], what each row attends to.
    """

    layer: int
    query: torch.Tensor
    keys: torch.Tensor
    values: torch.Tensor
    scale: float
    visible: torch.Tensor


@dataclass(eq=False, kw_only=True)
class _Plan:
    """What the layers of one reading share.

    Attributes:
        kind: the model, for refusals.
        rows: int64 [rows] on the CPU.
        windows: every layer's window.
        see: gets each layer's reading.
        deviations: by layer, the largest |fresh - cached| / |cached| of a chosen row's keys and values.
    """

    kind: str
    rows: torch.Tensor
    windows: tuple[Window | None, ...]
    see: Callable[[LayerReading], None]
    deviations: dict[int, float] = field(default_factory=dict)

    def attend(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        layer: int,
        scale: float,
        softcap: float | None,
        sinks: torch.Tensor | None,
    ) -> torch.Tensor:
        """The layer's attention, [1, rows, heads, value dim]."""
        if softcap is not None or sinks is not None:
            what = "caps its attention logits (softcap)" if softcap is not None else "has attention sinks"
            raise Refused(
                f"{self.kind} {what}; the residual bound is of plain softmax attention (paper Proposition 14.1)"
            )
        rows, keys = self.rows.to(key.device)[:, None], torch.arange(key.shape[-2], device=key.device)
        visible, window = keys <= rows, self.windows[layer]
        if window is not None:
            visible &= keys >= window.first(rows)
        self.see(LayerReading(layer, query[0], key[0], value[0], scale, visible))
        out = scaled_dot_product_attention(
            query, key, value, attn_mask=visible[None, None], scale=scale, enable_gqa=query.shape[1] != key.shape[1]
        )
        return out.transpose(1, 2)


class _ReadingLayer(DynamicLayer):
    """A full-length layer that is read as it is: what a forward would write is only compared with what stands there."""

    plan: _Plan
    index: int

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *_: Any, **__: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        found = []
        for stored, fresh in ((self.keys, key_states), (self.values, value_states)):
            there = stored.index_select(2, self.plan.rows.to(stored.device)).double()
            apart, size = (fresh.double() - there).norm(dim=-1), there.norm(dim=-1)
            found.append((apart / size.clamp_min(torch.finfo(stored.dtype).tiny)).max())
        # The tensors' own maximum: NaN stays NaN in it, which Python's would drop or keep by the order.
        self.plan.deviations[self.index] = float(torch.stack(found).max())
        return self.keys, self.values


def read_attention(
    model: nn.Module, cache: Cache, token_ids: torch.Tensor, rows: Positions, see: Callable[[LayerReading], None]
) -> npt.NDArray[np.float64]:
    """Forward the tokens at `rows` over a finished cache and hand every layer's attention to `see`.

    A row that was recomputed in `cache` reads there what it read when it was: rows before it that were recomputed in
    the same refresh, and others as they were. Its fresh keys and values are therefore the cached ones up to rounding.

    Args:
        model: a Hugging Face causal language model.
        cache: N rows, batch 1; not modified.
        token_ids: the context, int64 [N].
        rows: sorted, of those that were recomputed.

    Returns:
        FP64 [layers], the largest |fresh - cached| / |cached| over heads and rows, keys and values; NaN where one is.

    Raises:
        Refused: attention with sinks or a soft cap.
    """
    layers = read_rows(cache)
    kind = f"model type {text_config(model).model_type!r}"
    where = torch.as_tensor(rows, dtype=torch.int64)
    plan = _Plan(kind=kind, rows=where, windows=layer_windows(model), see=see)
    reading = fill(DynamicCache(), layers, _ReadingLayer)
    for index, layer in enumerate(reading.layers):
        layer.plan, layer.index = plan, index
    device, base = input_device(model), base_model(model)
    with attention_function(base, ATTENTION_NAME), pinned_frequencies(model, len(token_ids)):
        run(base, token_ids[where][None].to(device), reading, where[None].to(device), reading=plan)
    return np.array([plan.deviations[index] for index in range(len(layers))])


register_attention(ATTENTION_NAME, "reading", _Plan.attend)
