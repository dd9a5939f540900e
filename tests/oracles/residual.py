"""Both sides of Proposition 14.1 for one row, section 14, equations (25) and (26), one head and one key at a time."""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from oracles.llama import Weights, linear, one_layer, rms_norm, rotate


class RowAttention(NamedTuple):
    """What one row asks and reads in one layer: q [heads, d], k and v [kv heads, visible keys, d]."""

    q: np.ndarray
    k: np.ndarray
    v: np.ndarray


def row_attention(
    weights: Weights, cfg: dict, token: int, position: int, K: Sequence[np.ndarray], V: Sequence[np.ndarray]
) -> Iterator[RowAttention]:
    """Run one token through all layers over the rows before it in a cache, its own row computed anew."""
    w = {name: np.asarray(value, dtype=np.float64) for name, value in weights.items()}
    keys, values = ([np.array(x, dtype=np.float64)[:, :position] for x in cache] for cache in (K, V))
    x = w["model.embed_tokens.weight"][token]
    for layer in range(cfg["layers"]):
        at = f"model.layers.{layer}."
        y = rms_norm(x, w[at + "input_layernorm.weight"], cfg["eps"])
        q = linear(w, at + "self_attn.q_proj", y).reshape(cfg["heads"], cfg["head_dim"])
        if at + "self_attn.q_norm.weight" in w:
            q = rms_norm(q, w[at + "self_attn.q_norm.weight"], cfg["eps"])
        x = one_layer(w, cfg, layer, x, position, keys, values)
        yield RowAttention(rotate(q, position, cfg), keys[layer], values[layer])


def both_sides(repaired: RowAttention, replayed: RowAttention, head: int) -> tuple[float, float, float]:
    """Return the error |o^A - o*|, the bound (25) with the measured logits, and with (26) in their place."""
    group = len(repaired.q) // len(repaired.k)
    qa, ka, va = repaired.q[head], repaired.k[head // group], repaired.v[head // group]
    qr, kr, vr = replayed.q[head], replayed.k[head // group], replayed.v[head // group]
    root = math.sqrt(len(qa))
    za = [float(qa @ k) / root for k in ka]
    zr = [float(qr @ k) / root for k in kr]
    pa, pr = _softmax(za), _softmax(zr)
    outputs = [sum(p * v for p, v in zip(weights, rows, strict=True)) for weights, rows in ((pa, va), (pr, vr))]
    error = float(np.linalg.norm(outputs[0] - outputs[1]))
    values = sum(p * float(np.linalg.norm(a - b)) for p, a, b in zip(pa, va, vr, strict=True))
    most = max(float(np.linalg.norm(v)) for v in vr)
    change = max(abs(a - b) for a, b in zip(za, zr, strict=True))
    dq = float(np.linalg.norm(qa - qr))
    dk = max(float(np.linalg.norm(a - b)) for a, b in zip(ka, kr, strict=True))
    limit = (max(float(np.linalg.norm(k)) for k in kr) * dq + (float(np.linalg.norm(qr)) + dq) * dk) / root
    return error, values + 2 * most * change, values + 2 * most * limit


def _softmax(z: Sequence[float]) -> list[float]:
    peak = max(z)
    total = math.fsum(math.exp(x - peak) for x in z)
    return [math.exp(x - peak) / total for x in z]
