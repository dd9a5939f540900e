"""A Llama-type decoder in FP64 NumPy with Shift and sparse refresh, sections 7.1 and 13.2, equation (2).

One row at a time and no mask anywhere: a row reads the keys and values that already stand before it.
Weights are a dict under Hugging Face names; q/k norms (Qwen3), projection biases (Qwen2) and an untied
`lm_head` are used where present. cfg: hidden, layers, heads, kv_heads, head_dim, rope_theta, eps. Caches
are lists with one [kv_heads, length, head_dim] array per layer, keys rotated. Weights not in FP64 are
converted on each call.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from scipy.special import expit

from oracles.intervals import intervals

Weights = Mapping[str, np.ndarray]
Cache = list[np.ndarray]


def prefill(weights: Weights, cfg: dict, ids: Sequence[int]) -> tuple[np.ndarray, Cache, Cache]:
    """Return (hidden [N, hidden] after the final norm, K, V) of a full forward from an empty cache."""
    empty = [np.zeros((cfg["kv_heads"], 0, cfg["head_dim"])) for _ in range(cfg["layers"])]
    return forward(weights, cfg, ids, empty, empty)


def forward(weights: Weights, cfg: dict, ids: Sequence[int], K: Cache, V: Cache) -> tuple[np.ndarray, Cache, Cache]:
    """Run new tokens after a cache of n rows at positions n, n+1, ...; return hidden and the longer cache."""
    w = {name: np.asarray(value, dtype=np.float64) for name, value in weights.items()}
    K = [np.array(x, dtype=np.float64) for x in K]
    V = [np.array(x, dtype=np.float64) for x in V]
    hidden = []
    for token in ids:
        position = K[0].shape[1]
        x = w["model.embed_tokens.weight"][int(token)]
        for layer in range(cfg["layers"]):
            x = one_layer(w, cfg, layer, x, position, K, V)
        hidden.append(rms_norm(x, w["model.norm.weight"], cfg["eps"]))
    return np.array(hidden).reshape(-1, cfg["hidden"]), K, V


def one_layer(w: Weights, cfg: dict, layer: int, x: np.ndarray, position: int, K: Cache, V: Cache) -> np.ndarray:
    """Advance one row through one layer, appending its key and value to K[layer] and V[layer]."""
    at, d = f"model.layers.{layer}.", cfg["head_dim"]
    y = rms_norm(x, w[at + "input_layernorm.weight"], cfg["eps"])
    q = linear(w, at + "self_attn.q_proj", y).reshape(cfg["heads"], d)
    k = linear(w, at + "self_attn.k_proj", y).reshape(cfg["kv_heads"], d)
    v = linear(w, at + "self_attn.v_proj", y).reshape(cfg["kv_heads"], d)
    if at + "self_attn.q_norm.weight" in w:
        q = rms_norm(q, w[at + "self_attn.q_norm.weight"], cfg["eps"])
        k = rms_norm(k, w[at + "self_attn.k_norm.weight"], cfg["eps"])
    q, k = rotate(q, position, cfg), rotate(k, position, cfg)
    K[layer] = np.concatenate([K[layer], k[:, None, :]], axis=1)
    V[layer] = np.concatenate([V[layer], v[:, None, :]], axis=1)
    heads = []
    for h in range(cfg["heads"]):
        g = h // (cfg["heads"] // cfg["kv_heads"])
        z = K[layer][g] @ q[h] / np.sqrt(d)
        p = np.exp(z - z.max())
        heads.append(p / p.sum() @ V[layer][g])
    x = x + linear(w, at + "self_attn.o_proj", np.concatenate(heads))
    y = rms_norm(x, w[at + "post_attention_layernorm.weight"], cfg["eps"])
    gate = linear(w, at + "mlp.gate_proj", y)
    return x + linear(w, at + "mlp.down_proj", gate * expit(gate) * linear(w, at + "mlp.up_proj", y))


def linear(w: Weights, name: str, x: np.ndarray) -> np.ndarray:
    """Apply a projection, with its bias where it has one."""
    y = w[name + ".weight"] @ x
    return y + w[name + ".bias"] if name + ".bias" in w else y


def rms_norm(x: np.ndarray, weight: np.ndarray, eps: float) -> np.ndarray:
    """Return x / sqrt(mean(x^2) + eps) * weight over the last axis."""
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + eps) * weight


def rotate(x: np.ndarray, by: int, cfg: dict) -> np.ndarray:
    """Apply R(by) in the half-split layout: dimension m pairs with m + d/2 as one complex number."""
    half = cfg["head_dim"] // 2
    frequency = float(cfg["rope_theta"]) ** (-np.arange(half) / half)
    z = (x[..., :half] + 1j * x[..., half:]) * np.exp(1j * by * frequency)
    return np.concatenate([z.real, z.imag], axis=-1)


def shift(K: Cache, V: Cache, prefix: int, deleted: int, cfg: dict) -> tuple[Cache, Cache]:
    """Remove rows [prefix, prefix + deleted) and rotate the later keys by R(-deleted); equation (2)."""
    end = prefix + deleted
    keys = [np.concatenate([k[:, :prefix], rotate(k[:, end:], -deleted, cfg)], axis=1) for k in K]
    values = [np.concatenate([v[:, :prefix], v[:, end:]], axis=1) for v in V]
    return keys, values


def refresh(
    weights: Weights, cfg: dict, ids: Sequence[int], K: Cache, V: Cache, positions: Sequence[int]
) -> tuple[Cache, Cache]:
    """Interval-major sparse refresh of a Shift cache. ids: all edited tokens; positions: absolute."""
    K, V = [np.array(k) for k in K], [np.array(v) for v in V]
    for a, b in intervals(positions):
        before = [k[:, :a] for k in K], [v[:, :a] for v in V]
        _, fresh_k, fresh_v = forward(weights, cfg, ids[a:b], *before)
        for layer in range(cfg["layers"]):
            K[layer][:, a:b] = fresh_k[layer][:, a:b]
            V[layer][:, a:b] = fresh_v[layer][:, a:b]
    return K, V


def logits(weights: Weights, hidden: np.ndarray) -> np.ndarray:
    """Return vocabulary logits of final-normed hidden rows, tied to the embedding without an `lm_head`."""
    head = weights.get("lm_head.weight", weights["model.embed_tokens.weight"])
    return hidden @ np.asarray(head, dtype=np.float64).T


def greedy(
    weights: Weights, cfg: dict, K: Cache, V: Cache, n: int, query_ids: Sequence[int], steps: int
) -> tuple[np.ndarray, list[int]]:
    """Read the query after the first n cache rows, then decode `steps` tokens, lowest id first on ties.

    Returns (logits after the last query token, the ids). Nothing stops the decoding early.
    """
    if n != K[0].shape[1]:
        raise ValueError(f"n = {n}: the cache holds {K[0].shape[1]} rows")
    hidden, K, V = forward(weights, cfg, query_ids, K, V)
    first = scores = logits(weights, hidden[-1])
    ids: list[int] = []
    while len(ids) < steps:
        ids.append(int(np.argmax(scores)))
        hidden, K, V = forward(weights, cfg, ids[-1:], K, V)
        scores = logits(weights, hidden[-1])
    return first, ids
