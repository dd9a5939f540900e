"""Prior-work-derived allocation signals as plain arithmetic on given arrays, section 7.4, Table 1.

Every function returns one FP64 score per suffix token; `top` turns scores into a support. Attention arrays are
[layers, heads, rows, keys], softmax values over everything a row sees: a column keeps its value whatever else
is asked for, so suffix columns need not sum to 1. P rows of prefix stand before S rows of suffix. Caches are
lists with one (K, V) pair of [kv_heads, P + S, dim] per layer.
"""

import math
from collections.abc import Sequence

import numpy as np

from oracles import allocators

Rows = Sequence[tuple[np.ndarray, np.ndarray]]


def top(scores: Sequence[float] | np.ndarray, B: int) -> list[int]:
    """Return the B highest suffix indices in increasing order, the earlier one on ties."""
    return allocators.dense_tokens([float(x) for x in scores], B)


def suffix_columns(attention: np.ndarray, prefix: int, suffix_length: int) -> np.ndarray:
    """Cut the suffix keys out of query attention, without renormalising."""
    attention = np.asarray(attention, dtype=np.float64)
    if attention.ndim != 4 or attention.shape[3] < prefix + suffix_length:
        raise ValueError(f"attention {attention.shape}: needs 4 axes and at least {prefix + suffix_length} keys")
    return attention[:, :, :, prefix : prefix + suffix_length]


def prophetkv_scores(attention: np.ndarray, prefix: int, suffix_length: int) -> np.ndarray:
    """ProphetKV-Adapted: query attention averaged uniformly over layers, heads and query tokens."""
    a = suffix_columns(attention, prefix, suffix_length)
    count = a.shape[0] * a.shape[1] * a.shape[2]
    return np.array([math.fsum(a[:, :, :, i].ravel()) / count for i in range(suffix_length)])


def infoflow_scores(attention: np.ndarray, prefix: int, suffix_length: int) -> np.ndarray:
    """InfoFlow-Motivated: the L2 norm of the same attention over layers, heads and query tokens."""
    a = suffix_columns(attention, prefix, suffix_length)
    return np.array([math.sqrt(math.fsum(a[:, :, :, i].ravel() ** 2)) for i in range(suffix_length)])


def a3_scores(attention: np.ndarray, prefix: int, suffix_length: int) -> np.ndarray:
    """A3-Adapted: query attention of layer 1 (the second decoder layer), summed over heads and query positions."""
    a = suffix_columns(attention, prefix, suffix_length)[1]
    return np.array([math.fsum(a[:, :, i].ravel()) for i in range(suffix_length)])


def cache_craft_scores(attention: np.ndarray, prefix: int, deleted: int) -> np.ndarray:
    """Cache-Craft-Adapted: mass on the deleted keys [P, P + d), averaged over layers and heads.

    attention: the rows of the suffix tokens inside the dirty context p + e + s.
    """
    a = np.asarray(attention, dtype=np.float64)
    count = a.shape[0] * a.shape[1]
    mass = [math.fsum(a[:, :, row, prefix : prefix + deleted].ravel()) for row in range(a.shape[2])]
    return np.array(mass) / count


def row_deviation(one: np.ndarray, other: np.ndarray, row: int) -> float:
    """Return the squared L2 distance of one cache row over heads and dimensions."""
    difference = np.asarray(one, dtype=np.float64)[:, row] - np.asarray(other, dtype=np.float64)[:, row]
    return math.fsum(difference.ravel() ** 2)


def layer_deviation(shifted: Rows, fresh: Rows, layer: int, row: int) -> float:
    """Return |dK|^2 + |dV|^2 of one row in one layer."""
    return sum(row_deviation(shifted[layer][part], fresh[layer][part], row) for part in (0, 1))


def cacheblend_scores(shifted: Rows, fresh: Rows, prefix: int) -> np.ndarray:
    """CacheBlend-Adapted: the squared K and V deviations of layer 1 from a fresh edited prefill, added."""
    length = shifted[1][0].shape[1]
    return np.array([layer_deviation(shifted, fresh, 1, row) for row in range(prefix, length)])


def clean_state_scores(shifted: Rows, clean: Rows, prefix: int) -> np.ndarray:
    """Clean-state oracle: the L2 deviation of K and V over all layers between Shift and a clean prefill."""
    length = shifted[0][0].shape[1]
    layers = range(len(shifted))
    return np.array(
        [
            math.sqrt(math.fsum(layer_deviation(shifted, clean, layer, row) for layer in layers))
            for row in range(prefix, length)
        ]
    )


def legolink(suffix_length: int, B: int, chunk: int = 512) -> list[int]:
    """LegoLink-Adapted: the first B by (depth in the chunk, chunk index); the prefix is chunk 0.

    Chunks start at the suffix's first token, so the prefix's length changes nothing.
    """
    allocators.check(suffix_length, B)
    keyed = [(i % chunk, 1 + i // chunk, i) for i in range(suffix_length)]
    return sorted(i for _, _, i in sorted(keyed)[:B])


def low_pass_bins(suffix_length: int) -> int:
    """CacheTune-Adapted: floor(0.5 (floor(S / 2) + 1)), the number of lowest real-FFT bins that are kept."""
    return (suffix_length // 2 + 1) // 2


def low_pass(x: np.ndarray) -> np.ndarray:
    """Keep the lowest bins along the token axis of [heads, S, dim], by the discrete Fourier sums themselves.

    Bin k of a real transform stands for the frequencies k and S - k of the full one.
    """
    x = np.asarray(x, dtype=np.float64)
    n = x.shape[1]
    at = np.arange(n)
    keep = [k for k in range(n) if min(k, n - k) < low_pass_bins(n)]
    forward = np.exp(-2j * math.pi * ((np.array(keep, dtype=int)[:, None] * at[None, :]) % n) / n)  # [kept, S]
    spectrum = np.einsum("kt,htd->hkd", forward, x)
    return np.einsum("kt,hkd->htd", forward.conj(), spectrum).real / n


def unrotate_half(
    K: np.ndarray, positions: Sequence[int], inv_freq: Sequence[float], attention_scale: float = 1.0
) -> np.ndarray:
    """Undo the half-split rotary embedding at these positions and divide out its attention scale.

    K: [heads, S, dim]. Dimension m < F = len(inv_freq) pairs with m + F; dimensions from 2 F on carry neither
    rotation nor scale.
    """
    K, half = np.asarray(K, dtype=np.float64), len(inv_freq)
    z = K[:, :, :half] + 1j * K[:, :, half : 2 * half]
    angle = np.outer(np.asarray(positions, dtype=np.float64), np.asarray(inv_freq, dtype=np.float64))  # [S, F]
    z = z * np.exp(-1j * angle)[None] / attention_scale
    return np.concatenate([z.real, z.imag, K[:, :, 2 * half :]], axis=-1)


def cachetune_layer_scores(K: np.ndarray, V: np.ndarray) -> np.ndarray:
    """Return one layer's scores: the mean of the unsquared norms of low-passed K and V, scaled to sum 1."""
    n = K.shape[1]
    smooth = [low_pass(K), low_pass(V)]
    raw = [sum(math.sqrt(math.fsum(x[:, i].ravel() ** 2)) for x in smooth) / 2 for i in range(n)]
    total = math.fsum(raw)
    if n == 1 or total == 0:
        return np.full(n, 1 / n)
    return np.array(raw) / total


def cachetune_scores(K: Sequence[np.ndarray], V: Sequence[np.ndarray]) -> np.ndarray:
    """CacheTune-Adapted from each layer's un-rotated suffix K and V, [heads, S, dim]: the mean over layers."""
    return np.mean([cachetune_layer_scores(k, v) for k, v in zip(K, V, strict=True)], axis=0)
