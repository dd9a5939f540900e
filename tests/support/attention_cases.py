"""Operands of packed attention for the tests of its backends, and what they should give."""

from typing import NamedTuple

import numpy as np
import torch

from cachemend.repair_core.architecture import Window

from oracles import attention as oracle

# Absolute and relative, per format (paper section 13.5 for the last two).
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
TOLERANCES = {torch.float32: (1e-5, 1e-5), torch.bfloat16: (0.002, 0.02), torch.float16: (0.00025, 0.003)}


class Operands(NamedTuple):
    """Query [batch, heads, B, d], key and value [batch, kv heads, N, d], positions int64 [batch, B]."""

    query: torch.Tensor
    key: torch.Tensor
    value: torch.Tensor
    positions: torch.Tensor


def operands(
    *,
    heads: int = 4,
    kv_heads: int = 2,
    width: int = 64,
    rows: int = 19,
    keys: int = 150,
    batch: int = 1,
    dtype: torch.dtype = torch.float32,
    seed: int = 0,
) -> Operands:
    """Random operands; every sequence has positions of its own."""
    rng = np.random.default_rng(seed)
    query = torch.from_numpy(rng.normal(size=(batch, heads, rows, width))).to(DEVICE, dtype)
    key, value = torch.from_numpy(rng.normal(size=(2, batch, kv_heads, keys, width))).to(DEVICE, dtype)
    chosen = np.stack([np.sort(rng.choice(keys, rows, replace=False)) for _ in range(batch)])
    return Operands(query, key, value, torch.from_numpy(chosen))


def limits(window: Window | None) -> dict[str, int]:
    """A window as the oracle takes it."""
    return {} if window is None else {"chunk" if window.chunked else "window": window.size}


def expected(
    given: Operands, window: Window | None = None, softcap: float | None = None, sinks: np.ndarray | None = None
) -> np.ndarray:
    """FP64 [batch, B, heads, d] with the scale 1 / sqrt(d)."""
    scale = given.query.shape[-1] ** -0.5
    each = [
        oracle.indexed_attention(
            *(t[i].double().cpu().numpy() for t in given[:3]),
            given.positions[i].tolist(),
            scale,
            **limits(window),
            softcap=softcap,
            sinks=sinks,
        )
        for i in range(given.query.shape[0])
    ]
    return np.stack(each).swapaxes(1, 2)


def worst(out: torch.Tensor, truth: np.ndarray) -> float:
    """The largest error over its tolerance; at most 1 is right."""
    absolute, relative = TOLERANCES[out.dtype]
    error = np.abs(out.double().cpu().numpy() - truth)
    return float((error / (absolute + relative * np.abs(truth))).max())
