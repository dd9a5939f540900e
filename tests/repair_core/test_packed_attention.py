import numpy as np
import pytest
import torch

from cachemend.repair_core.architecture import Window
from cachemend.repair_core.executors.packed_attention import JOIN_UP_TO, MASK_STRIDE, ROW_GROUP, PackedPlan

from oracles import attention as oracle


def _limits(window: Window | None) -> dict[str, int]:
    return {} if window is None else {"chunk" if window.chunked else "window": window.size}


def _inputs(heads: int, kv_heads: int, length: int, width: int, count: int) -> tuple:
    rng = np.random.default_rng(heads * 100 + count)
    q = rng.normal(size=(heads, count, width))
    k, v = rng.normal(size=(2, kv_heads, length, width))
    return q, k, v, np.sort(rng.choice(length, count, replace=False))


@pytest.mark.parametrize(("heads", "kv_heads"), [(4, 4), (6, 2), (8, 1)])
@pytest.mark.parametrize("count", [1, 15, 16, 17, 50])
@pytest.mark.parametrize(
    "window", [None, Window(1), Window(9), Window(500), Window(1, chunked=True), Window(9, True), Window(500, True)]
)
@pytest.mark.parametrize("special", ["plain", "softcap", "sinks"])
def test_equals_the_fp64_oracle(heads: int, kv_heads: int, count: int, window: Window | None, special: str) -> None:
    q, k, v, u = _inputs(heads, kv_heads, 90, 16, count)
    softcap = 2.0 if special == "softcap" else None
    sinks = np.linspace(-1, 1, heads) if special == "sinks" else None
    expected = oracle.indexed_attention(q, k, v, u, 0.25, **_limits(window), softcap=softcap, sinks=sinks)
    plan = PackedPlan.build(torch.from_numpy(u)[None], (window,))
    out = plan.attend(
        *(torch.from_numpy(x).float()[None] for x in (q, k, v)),
        layer=0,
        scale=0.25,
        softcap=softcap,
        sinks=None if sinks is None else torch.from_numpy(sinks).float(),
    )
    assert np.abs(out[0].transpose(0, 1).double().numpy() - expected).max() <= 5e-6


def test_sequences_may_differ() -> None:
    parts = [_inputs(6, 2, 40, 16, 7), _inputs(6, 2, 40, 16, 7)]
    parts[1] = (*parts[1][:3], np.array([0, 1, 2, 3, 20, 30, 39]))
    positions = torch.from_numpy(np.stack([p[3] for p in parts]))
    q, k, v = (torch.from_numpy(np.stack([p[i] for p in parts])).float() for i in range(3))
    out = PackedPlan.build(positions, (None, Window(8))).attend(q, k, v, layer=1, scale=0.25)
    for i, (q1, k1, v1, u1) in enumerate(parts):
        expected = oracle.indexed_attention(q1, k1, v1, u1, 0.25, window=8)
        assert np.abs(out[i].transpose(0, 1).double().numpy() - expected).max() <= 5e-6


@pytest.mark.parametrize("window", [None, Window(70), Window(64, chunked=True)])
@pytest.mark.parametrize("step", [1, 2, 40])
@pytest.mark.parametrize("count", [1, 40, 200])
def test_groups_hold_every_visible_key_and_little_else(window: Window | None, step: int, count: int) -> None:
    u = 300 + step * torch.arange(count)
    plan = PackedPlan.build(u[None], (window,))
    groups = plan._groups[window]
    assert [g.start for g in groups[1:]] == [g.stop for g in groups[:-1]]
    assert (groups[0].start, groups[-1].stop) == (0, count)

    def area(rows: torch.Tensor) -> int:
        low = 0 if window is None else max(0, int(window.first(rows).min()))
        return len(rows) * (int(rows.max()) + 1 - low)

    for group in groups:
        rows = u[group.start : group.stop]
        assert group.area == area(rows)
        assert group.area <= JOIN_UP_TO * sum(area(part) for part in rows.split(ROW_GROUP))
    if step == 1 and window is None and count == 40:
        assert len(groups) == 1, "rows of one interval go together"


def test_masks_need_no_copy_on_cuda() -> None:
    plan = PackedPlan.build(torch.tensor([[3, 11, 30]]), (None,))
    (mask,) = plan._masks_for(None, 2, torch.zeros(1))
    assert mask.shape == (1, 1, 6, 31)
    assert mask.stride(-2) % MASK_STRIDE == 0
    assert mask.stride(-1) == 1
