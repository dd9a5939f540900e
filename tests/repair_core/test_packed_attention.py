import numpy as np
import pytest
import torch

from cachemend.repair_core.executors.packed_attention import PackedPlan

from oracles import attention as oracle


def _inputs(heads: int, kv_heads: int, length: int, width: int, count: int) -> tuple:
    rng = np.random.default_rng(heads * 100 + count)
    q = rng.normal(size=(heads, count, width))
    k, v = rng.normal(size=(2, kv_heads, length, width))
    return q, k, v, np.sort(rng.choice(length, count, replace=False))


@pytest.mark.parametrize(("heads", "kv_heads"), [(4, 4), (6, 2), (8, 1)])
@pytest.mark.parametrize("count", [1, 15, 16, 17, 50])
@pytest.mark.parametrize("window", [None, 1, 9, 500])
@pytest.mark.parametrize("special", ["plain", "softcap", "sinks"])
def test_equals_the_fp64_oracle(heads: int, kv_heads: int, count: int, window: int | None, special: str) -> None:
    q, k, v, u = _inputs(heads, kv_heads, 90, 16, count)
    softcap = 2.0 if special == "softcap" else None
    sinks = np.linspace(-1, 1, heads) if special == "sinks" else None
    expected = oracle.indexed_attention(q, k, v, u, 0.25, window=window, softcap=softcap, sinks=sinks)
    plan = PackedPlan.build(torch.from_numpy(u)[None], (window,))
    out = plan.attend(
        *(torch.from_numpy(x).float()[None] for x in (q, k, v)),
        layer=0,
        scale=0.25,
        softcap=softcap,
        sinks=None if sinks is None else torch.from_numpy(sinks).float(),
    )
    assert np.abs(out[0].double().numpy() - expected).max() <= 5e-6


def test_sequences_may_differ() -> None:
    parts = [_inputs(6, 2, 40, 16, 7), _inputs(6, 2, 40, 16, 7)]
    parts[1] = (*parts[1][:3], np.array([0, 1, 2, 3, 20, 30, 39]))
    positions = torch.from_numpy(np.stack([p[3] for p in parts]))
    q, k, v = (torch.from_numpy(np.stack([p[i] for p in parts])).float() for i in range(3))
    out = PackedPlan.build(positions, (None, 8)).attend(q, k, v, layer=1, scale=0.25)
    for i, (q1, k1, v1, u1) in enumerate(parts):
        expected = oracle.indexed_attention(q1, k1, v1, u1, 0.25, window=8)
        assert np.abs(out[i].double().numpy() - expected).max() <= 5e-6
