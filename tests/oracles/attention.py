"""Absolute-causal attention of packed query rows in FP64, equation (22) of section 13.2.

Row r reads the keys j <= u_r of the mixed cache, whatever row it occupies in the packed buffer.
"""

import math
from collections.abc import Sequence

import numpy as np


def indexed_attention(
    q: np.ndarray,
    K: np.ndarray,
    V: np.ndarray,
    u: Sequence[int],
    scale: float,
    window: int | None = None,
    chunk: int | None = None,
    softcap: float | None = None,
    sinks: Sequence[float] | None = None,
) -> np.ndarray:
    """Return [Hq, B, dv].

    q [Hq, B, d], K [Hkv, N, d], V [Hkv, N, dv]; query head h reads K/V head h // (Hq / Hkv). u: the absolute
    position of each row. window: only j > u_r - window as well. chunk: only j in the same block of `chunk` positions
    as u_r, blocks counted from 0. softcap: c tanh(z / c) on the scaled scores,
    before the mask. sinks: one logit per query head, neither scaled nor capped, in the denominator only.
    """
    q, K, V = (np.asarray(x, dtype=np.float64) for x in (q, K, V))
    heads, rows, _ = q.shape
    if heads % K.shape[0] or len(u) != rows or max(u, default=0) >= K.shape[1]:
        raise ValueError("heads, rows or positions do not fit the cache")
    group = heads // K.shape[0]
    out = np.zeros((heads, rows, V.shape[2]))
    for h in range(heads):
        for r in range(rows):
            visible = [j for j in range(K.shape[1]) if j <= u[r] and (window is None or j > u[r] - window)]
            if chunk is not None:
                visible = [j for j in visible if j // chunk == u[r] // chunk]
            logits = []
            for j in visible:
                z = scale * math.fsum(q[h, r] * K[h // group, j])
                logits.append(z if softcap is None else softcap * math.tanh(z / softcap))
            joined = logits if sinks is None else [*logits, float(sinks[h])]
            peak = max(joined)
            total = math.fsum(math.exp(z - peak) for z in joined)
            for j, z in zip(visible, logits, strict=True):
                out[h, r] += math.exp(z - peak) / total * V[h // group, j]
    return out
