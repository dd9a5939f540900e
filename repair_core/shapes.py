"""How much a decoder computes and keeps per row, read from its own weights and from one token's cache."""

import copy
import re
from collections.abc import Iterable
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import torch
from torch import nn
from transformers.cache_utils import DynamicCache

from cachemend.repair_core.architecture import Window, check_capability, layer_windows, text_config
from cachemend.repair_core.caches import Rows, read_rows
from cachemend.repair_core.errors import Refused
from cachemend.repair_core.forward import base_model, input_device, model_lock
from cachemend.repair_core.prefilling import extend

_NUMBERED_EXPERT = re.compile(r"(?:^|.*\.)experts(?=\.\d+\.)")
_TOP_K = ("num_experts_per_tok", "num_experts_per_token", "moe_topk", "top_k_experts")


class Shapes(NamedTuple):
    """What one row costs.

    Attributes:
        layers: decoder layers.
        row_flops: FLOPs of the matrix products of one row through all layers; of a mixture, the active experts'.
        pair_flops: FLOPs of one query-key pair in one layer, over all heads: 2 * heads * (key dim + value dim).
        kv_row_bytes: keys and values of one row in all layers.
        hidden: width of the residual stream.
        intermediate: width inside the MLP, over the active experts.
        heads: query heads.
        fold: query heads per key/value head.
        itemsize: bytes of one number.
        attention: name of the model's attention implementation.
        windows: per layer, its window or None for full attention.
    """

    layers: int
    row_flops: float
    pair_flops: float
    kv_row_bytes: int
    hidden: int
    intermediate: int
    heads: int
    fold: int
    itemsize: int
    attention: str
    windows: tuple[Window | None, ...]

    def stock_pairs(self, rows: int, history: int, layers: int | None = None) -> float:
        """Query-key pairs that the model's own attention computes, visible or not, summed over layers.

        Only a kernel that knows the causal shape leaves out the future; one that is given a mask computes all pairs.
        """
        total = 0.0
        for window in self.windows[:layers]:
            masked = history > 0 or (window is not None and rows > window.size)
            causal = "flash" in self.attention or (self.attention == "sdpa" and not masked)
            total += rows * history + (rows * (rows + 1) / 2 if causal else rows * rows)
        return total

    def packed_pairs(self, rows: int, prefix: int, suffix: int, layers: int | None = None) -> float:
        """Pairs of a packed refresh of `rows` suffix positions spread evenly (paper section 13.2), over layers."""
        visible = prefix + (suffix + 1) / 2
        return sum(rows * (visible if w is None else min(visible, w.size)) for w in self.windows[:layers])


_known: "WeakKeyDictionary[nn.Module, Shapes]" = WeakKeyDictionary()


def model_shapes(model: nn.Module) -> Shapes:
    """The shapes of `model`; the first call runs it on one token.

    Raises:
        Refused: a model that repair does not support, or a mixture that does not say how many experts are active.
    """
    if model not in _known:
        # A refresh elsewhere changes attention, and a proof the windows, in the configuration read here.
        with model_lock(model):
            check_capability(model)
            _known[model] = _read(model)
    return _known[model]


def _read(model: nn.Module) -> Shapes:
    config = text_config(model)
    layers = decoder_layers(model)
    cache = DynamicCache()
    extend(base_model(model), cache, torch.ones(1, 1, dtype=torch.long, device=input_device(model)), 0)
    rows = read_rows(cache)
    heads, kv_heads = config.num_attention_heads, rows[0].keys.shape[1]
    return Shapes(
        layers=len(layers),
        row_flops=linear_flops(layers, config),
        pair_flops=2.0 * heads * _pair_width(config, rows[0]),
        kv_row_bytes=sum(keys.nbytes + values.nbytes for keys, values in rows),
        hidden=config.hidden_size,
        intermediate=_intermediate(config),
        heads=heads,
        fold=max(1, heads // kv_heads),
        itemsize=rows[0].keys.element_size(),
        attention=str(getattr(config, "_attn_implementation", None) or "eager"),
        windows=layer_windows(model),
    )


def decoder_layers(model: nn.Module) -> nn.ModuleList:
    """The decoder's layers, in order."""
    return _decoder(model)[2]


def first_layers(model: nn.Module, count: int) -> nn.Module:
    """A decoder of the first `count` layers that shares all weights with `model`, which is left as it is."""
    whole, name, layers = _decoder(model)
    short = copy.copy(whole)
    short._modules = {**whole._modules, name: nn.ModuleList(list(layers)[:count])}
    return short


def _decoder(model: nn.Module) -> tuple[nn.Module, str, nn.ModuleList]:
    """The text decoder (a multimodal model keeps it inside its base model), and its list of layers by name."""
    count = text_config(model).num_hidden_layers
    for candidate in (base_model(model), model.get_decoder(), *model.children()):  # type: ignore[operator]
        for name, child in candidate.named_children():
            if isinstance(child, nn.ModuleList) and len(child) == count:
                return candidate, name, child
    raise Refused(f"model {type(model).__name__} has no list of {count} decoder layers; its cost cannot be estimated")


def linear_flops(layers: Iterable[nn.Module], config: Any) -> float:
    """FLOPs of one row through the weight matrices of `layers`: two per weight that the row meets.

    Raises:
        Refused: there are experts and the configuration names no number of active ones.
    """
    return sum(2.0 * p.numel() * _share(layer, name, p, config) for layer in layers for name, p in _matrices(layer))


def _matrices(layer: nn.Module) -> list[tuple[str, nn.Parameter]]:
    return [(name, p) for name, p in layer.named_parameters() if p.ndim >= 2 and not name.endswith("bias")]


def _share(layer: nn.Module, name: str, weight: torch.Tensor, config: Any) -> float:
    numbered = _NUMBERED_EXPERT.match(name)
    if weight.ndim == 2 and not numbered:
        return 1.0
    experts = len(layer.get_submodule(numbered.group(0))) if numbered else weight.shape[0]  # type: ignore[arg-type]
    return _active_experts(config) / experts


def _active_experts(config: Any) -> int:
    for name in _TOP_K:
        if getattr(config, name, None):
            return int(getattr(config, name))
    raise Refused(f"model type {config.model_type!r} has experts but names no num_experts_per_tok; cost is unknown")


def _pair_width(config: Any, rows: Rows) -> int:
    """Key and value width of a head; latent attention caches something narrower than it attends with."""
    if getattr(config, "kv_lora_rank", None):
        return int(config.qk_nope_head_dim + config.qk_rope_head_dim + config.v_head_dim)
    return int(rows.keys.shape[-1] + rows.values.shape[-1])


def _intermediate(config: Any) -> int:
    dense = int(getattr(config, "intermediate_size", None) or 4 * config.hidden_size)
    if not any(getattr(config, name, None) for name in _TOP_K):
        return dense
    return max(dense, int(getattr(config, "moe_intermediate_size", None) or dense) * _active_experts(config))
