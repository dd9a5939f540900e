"""The tensors behind the prior-work-derived signals of section 7.4, Table 1, from whole model forwards.

Attention comes from the model's own eager attention, in an FP64 copy of the model, one forward without any
chunking over keys. Caches keep every row of every layer, sliding-window layers included. Cache rows are lists
with one (K, V) pair of [1, kv_heads, N, dim] tensors per layer, keys rotated; Shift rows hold the P + S
positions of the edited context. p, e, s and q are the token ids of prefix, deleted span, suffix and query.
"""

import copy
import inspect
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import nn
from transformers import DynamicCache

from oracles import signals

CacheRows = Sequence[tuple[torch.Tensor, torch.Tensor]]
Ids = Sequence[int]


def eager_copy(model: nn.Module) -> Any:
    """Return an FP64 copy of the model that computes attention, and experts, in plain steps."""
    plain: Any = copy.deepcopy(model).double().eval()
    plain.set_attn_implementation("eager")
    if hasattr(plain, "set_experts_implementation"):
        plain.set_experts_implementation("eager")
    return plain


def forward(plain: Any, cache_rows: CacheRows, ids: Ids, start: int, **options: Any) -> tuple[Any, DynamicCache]:
    """Run ids at positions start, start + 1, ... after the given rows; return the output and the longer cache."""
    held = cache_rows[0][0].shape[2] if cache_rows else 0
    if held != start:
        raise ValueError(f"start = {start}: the cache holds {held} rows")
    weight = next(plain.parameters())
    cache = DynamicCache()
    for layer, (k, v) in enumerate(cache_rows):
        cache.update(k.to(weight), v.to(weight), layer)
    known = inspect.signature(plain.forward).parameters
    options["cache" if "cache" in known else "past_key_values"] = cache
    positions = torch.arange(start, start + len(ids), device=weight.device)
    tokens = torch.tensor([list(ids)], device=weight.device)
    with torch.no_grad():
        output = plain(input_ids=tokens, position_ids=positions[None], use_cache=True, **options)
    return output, cache


def visible_attention(model: nn.Module, cache_rows: CacheRows, ids: Ids, start: int) -> np.ndarray:
    """Return the attention of new tokens over cached rows and themselves, FP64 [layers, heads, rows, keys].

    start: position of the first new token, the number of cached rows. Without cached rows: a fresh forward.
    Rows sum to 1, to less where the model has attention sinks.
    """
    output, _ = forward(eager_copy(model), cache_rows, ids, start, output_attentions=True)
    return torch.cat(output.attentions).double().cpu().numpy()


def fresh_rows(model: nn.Module, ids: Ids) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Return the cache rows of a prefill from an empty cache, in FP64."""
    _, cache = forward(eager_copy(model), [], ids, 0)
    return [(layer.keys, layer.values) for layer in cache.layers]


def arrays(rows: CacheRows) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return cache rows as FP64 arrays [kv_heads, N, dim]."""
    return [(k[0].double().cpu().numpy(), v[0].double().cpu().numpy()) for k, v in rows]


def query_attention(model: nn.Module, shifted: CacheRows, q: Ids) -> np.ndarray:
    """Return the attention of a query-only forward against the Shift cache."""
    return visible_attention(model, shifted, q, shifted[0][0].shape[2])


def prophetkv_signal(model: nn.Module, shifted: CacheRows, q: Ids, prefix: int) -> np.ndarray:
    """ProphetKV-Adapted, [S]."""
    return signals.prophetkv_scores(query_attention(model, shifted, q), prefix, shifted[0][0].shape[2] - prefix)


def infoflow_signal(model: nn.Module, shifted: CacheRows, q: Ids, prefix: int) -> np.ndarray:
    """InfoFlow-Motivated, [S]."""
    return signals.infoflow_scores(query_attention(model, shifted, q), prefix, shifted[0][0].shape[2] - prefix)


def cache_craft_signal(model: nn.Module, p: Ids, e: Ids, s: Ids) -> np.ndarray:
    """Cache-Craft-Adapted, [S], from one forward of the dirty context: blocks with full access see the same."""
    attention = visible_attention(model, [], [*p, *e, *s], 0)
    return signals.cache_craft_scores(attention[:, :, len(p) + len(e) :], len(p), len(e))


def a3_signal(model: nn.Module, p: Ids, s: Ids, q: Ids) -> np.ndarray:
    """A3-Adapted, [S], from one forward of p + s + q: later layers do not change layer 1."""
    attention = visible_attention(model, [], [*p, *s, *q], 0)
    return signals.a3_scores(attention[:, :, len(p) + len(s) :], len(p), len(s))


def cacheblend_signal(model: nn.Module, shifted: CacheRows, p: Ids, s: Ids) -> np.ndarray:
    """CacheBlend-Adapted, [S]: layer 1 of a full prefill is layer 1 of a two-layer one."""
    return signals.cacheblend_scores(arrays(shifted), arrays(fresh_rows(model, [*p, *s])), len(p))


def clean_state_signal(model: nn.Module, shifted: CacheRows, p: Ids, s: Ids) -> np.ndarray:
    """Clean-state oracle, [S]."""
    return signals.clean_state_scores(arrays(shifted), arrays(fresh_rows(model, [*p, *s])), len(p))


def decoder_layers(model: nn.Module) -> nn.ModuleList:
    """Return the one list named `layers` that holds every decoder layer."""
    count = model.config.get_text_config().num_hidden_layers  # type: ignore[union-attr, operator]
    found = [
        module
        for name, module in model.named_modules()
        if isinstance(module, nn.ModuleList) and name.split(".")[-1] == "layers" and len(module) == count
    ]
    if len(found) != 1:
        raise ValueError(f"{len(found)} lists of {count} decoder layers: expected one")
    return found[0]


def layer_outputs(model: nn.Module, ids: Ids) -> list[np.ndarray]:
    """Return every decoder layer's output, FP64 [N, hidden]; the last one before the final norm."""
    plain, caught = eager_copy(model), []

    def keep(_module: nn.Module, _args: Any, output: Any) -> None:
        caught.append(output[0] if isinstance(output, tuple) else output)

    handle = decoder_layers(plain)[-1].register_forward_hook(keep)
    try:
        output, _ = forward(plain, [], ids, 0, output_hidden_states=True)
    finally:
        handle.remove()
    states = [*output.hidden_states[1:-1], caught[0]]  # [0]: embeddings; [-1]: after the final norm
    return [state.reshape(len(ids), -1).double().cpu().numpy() for state in states]


def hidden_norms(model: nn.Module, ids: Ids) -> np.ndarray:
    """SpecCache-Adapted: each token's L2 norm, averaged over the outputs of the last max(1, L // 3) layers."""
    outputs = layer_outputs(model, ids)
    last = outputs[len(outputs) - max(1, len(outputs) // 3) :]
    return np.mean([np.sqrt((x**2).sum(axis=-1)) for x in last], axis=0)
