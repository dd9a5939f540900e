"""Every backend of packed attention against the FP64 oracle. Without a device Triton's kernels are interpreted."""

from pathlib import Path

import numpy as np
import pytest
import torch

from cachemend.repair_core.architecture import Window
from cachemend.repair_core.executors.backends import ATTENTIONS, plan_attention

from support.attention_cases import DEVICE, Operands, expected, operands, worst

pytest.importorskip("triton", reason="triton is installed on Linux only")

# What does not exist in the kernels of "triton-fused" is its write; its attention is that of "triton".
NAMES = [name for name in ATTENTIONS if name != "triton-fused"]
names = pytest.mark.parametrize("name", NAMES)


@pytest.fixture(autouse=True)
def _many_splits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every key tile is a split of its own, or there would be one split of so few keys."""
    from cachemend.repair_core.executors import triton_attention

    monkeypatch.setattr(triton_attention, "TILES_PER_SPLIT", 1)


def attend(
    name: str,
    given: Operands,
    window: Window | None = None,
    softcap: float | None = None,
    sinks: np.ndarray | None = None,
) -> torch.Tensor:
    plan = plan_attention(name, given.positions, (window,))
    extra = None if sinks is None else torch.from_numpy(sinks).to(given.query)
    return plan.attend(*given[:3], 0, given.query.shape[-1] ** -0.5, softcap, extra)


@names
@pytest.mark.parametrize("group", range(1, 9))
def test_query_heads_share_keys_in_groups(name: str, group: int) -> None:
    given = operands(heads=2 * group, kv_heads=2, rows=3, keys=70)
    assert worst(attend(name, given), expected(given)) <= 1


@names
@pytest.mark.parametrize("width", [20, 64, 96, 128])
def test_head_dims(name: str, width: int) -> None:
    given = operands(width=width, rows=5, keys=70)
    assert worst(attend(name, given), expected(given)) <= 1


@names
@pytest.mark.parametrize(("rows", "keys"), [(1, 1), (1, 64), (15, 65), (16, 128), (33, 127)])
def test_tails_of_rows_and_keys(name: str, rows: int, keys: int) -> None:
    given = operands(heads=1, kv_heads=1, rows=rows, keys=keys)
    assert worst(attend(name, given), expected(given)) <= 1


@names
@pytest.mark.parametrize(
    "positions",
    [[0], [199], [63, 64], [0, 1, 2, 197, 198, 199], [0, 63, 64, 127, 128, 191, 192, 199], list(range(100, 140))],
)
@pytest.mark.parametrize("window", [None, Window(70), Window(64, chunked=True)])
def test_causal_gaps_at_the_edges_of_tiles(name: str, positions: list[int], window: Window | None) -> None:
    given = operands(heads=1, kv_heads=1, rows=len(positions), keys=200)
    given = given._replace(positions=torch.tensor([positions]))
    assert worst(attend(name, given, window), expected(given, window)) <= 1


@names
@pytest.mark.parametrize("window", [Window(1), Window(9), Window(64), Window(100)])
@pytest.mark.parametrize("chunked", [False, True])
def test_windows(name: str, window: Window, chunked: bool) -> None:
    given, window = operands(heads=1, kv_heads=1), window._replace(chunked=chunked)
    assert worst(attend(name, given, window), expected(given, window)) <= 1


@names
def test_softcap_and_sinks(name: str) -> None:
    given, sinks = operands(rows=5), np.array([-1.0, 0.0, 1.0, 8.0])
    assert worst(attend(name, given, softcap=2.0), expected(given, softcap=2.0)) <= 1
    assert worst(attend(name, given, sinks=sinks), expected(given, sinks=sinks)) <= 1


@names
@pytest.mark.parametrize("window", [None, Window(40)])
def test_sequences_with_positions_of_their_own(name: str, window: Window | None) -> None:
    given = operands(heads=2, kv_heads=1, batch=2, rows=17)
    assert worst(attend(name, given, window), expected(given, window)) <= 1
    shared = given._replace(positions=given.positions[:1].expand(2, -1))
    assert worst(attend(name, shared, window), expected(shared, window)) <= 1


@names
def test_operands_may_be_views(name: str) -> None:
    given = operands(keys=70, rows=5)
    truth = expected(given)
    # As models make them (heads behind rows), as one slice of a larger cache, and with every second number.
    query = given.query.transpose(1, 2).contiguous().transpose(1, 2)
    key = torch.cat((torch.full_like(given.key, 9), given.key, given.key), dim=2)[:, :, 70:140]
    value = torch.stack((given.value, given.value + 9), dim=-1).flatten(-2)[..., ::2]
    assert not any(t.is_contiguous() for t in (query, key, value))
    assert worst(attend(name, given._replace(query=query, key=key, value=value)), truth) <= 1


@names
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("window", [None, Window(40)])
def test_low_precision(name: str, dtype: torch.dtype, window: Window | None) -> None:
    given = operands(heads=2, kv_heads=1, dtype=dtype)
    # FlexAttention rounds its probabilities when it is not compiled.
    assert worst(attend(name, given, window), expected(given, window)) <= (2 if name == "flex" else 1)


@names
def test_large_logits_stay_finite(name: str) -> None:
    given = operands(rows=5, keys=70)
    given = given._replace(query=given.query * 400)
    assert worst(attend(name, given), expected(given)) <= 20  # logits near 2,000 carry FP32 errors near 1e-4
    assert worst(attend(name, given, softcap=30.0), expected(given, softcap=30.0)) <= 20


@names
def test_a_plan_serves_its_own_positions_only(name: str) -> None:
    given, other = operands(heads=2, rows=5), operands(heads=2, rows=5, seed=1)
    where = given.positions.clone()
    plan = plan_attention(name, where, (None,))
    scale = given.query.shape[-1] ** -0.5
    before = plan.attend(*given[:3], 0, scale)
    where.copy_(other.positions)
    assert torch.equal(plan.attend(*given[:3], 0, scale), before), "the caller's tensor is not the plan's"
    moved = given._replace(positions=other.positions)
    assert worst(attend(name, moved), expected(moved)) <= 1, "nothing is kept from an earlier plan"
    for query, key, value in (
        (given.query[:, :, 1:], given.key, given.value),
        (given.query, given.key[:, :, : int(given.positions.max())], given.value[:, :, : int(given.positions.max())]),
        (given.query, given.key.expand(2, -1, -1, -1), given.value.expand(2, -1, -1, -1)),
        (torch.cat((given.query, given.query[:, :1]), dim=1), given.key, given.value),
    ):
        with pytest.raises(ValueError, match="build a new plan"):
            plan.attend(query, key, value, 0, scale)
    several = plan_attention(name, torch.cat((given.positions, other.positions)), (None,))
    with pytest.raises(ValueError, match="2 sequences"):
        several.attend(*given[:3], 0, scale)


@pytest.mark.parametrize("name", ["triton", "triton-split"])
def test_indexed_plans_hold_integers_per_row_and_tile_only(name: str) -> None:
    rows, far = 1000, 2_000_000_000
    positions = torch.arange(rows)[None] * (far // rows)
    plan = plan_attention(name, positions, (None, Window(4096)))
    sizes = [t.numel() for held in plan._indexed.values() for t in held[:3]]
    tiles = -(-rows // 16)
    assert sum(sizes) == 2 * (2 * rows + 4 * tiles), "no mask of rows by keys, however long the context"


def test_fused_write_equals_indexed_writes() -> None:
    given = operands(batch=2, rows=5, keys=70)
    for positions in (given.positions, given.positions[:1].expand(2, -1)):
        stock, fused = (plan_attention(name, positions, (None,)) for name in ("triton", "triton-fused"))
        fresh = torch.randn(2, 5, 2, 64, device=DEVICE).transpose(1, 2)
        narrow = torch.randn(2, 2, 5, 24, device=DEVICE)
        ours = (given.key.clone(), torch.randn(2, 2, 70, 48, device=DEVICE)[..., ::2])
        theirs = tuple(t.clone() for t in ours)
        fused.write_both(*ours, fresh, narrow)
        stock.write_both(*theirs, fresh, narrow)
        assert torch.equal(ours[0], theirs[0])
        assert torch.equal(ours[1], theirs[1])
        changed = (ours[0] != given.key).any(-1).any(1)
        assert [row.nonzero().flatten().tolist() for row in changed] == positions.tolist()


@pytest.mark.skipif(torch.cuda.is_available(), reason="for the interpreter: a device would need 8.6 GB")
def test_heads_may_lie_further_apart_than_32_bits_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from triton.runtime.interpreter import GridExecutor

    # It copies every storage onto itself after a launch, and would fill the sparse file.
    monkeypatch.setattr(GridExecutor, "_restore_args_dev", lambda *_: None)
    # The third head starts at 2 * (2^31 - 16) numbers, which as int32 is -32.
    apart, keys, width = 2**31 - 16, 20, 16
    shape = (2 * apart + 64 + keys * width,)
    far = torch.from_numpy(np.memmap(tmp_path / "cache", dtype=np.float16, mode="w+", shape=shape))
    key = far[64:].as_strided((1, 3, keys, width), (1, apart, width, 1))
    given = operands(heads=3, kv_heads=3, width=width, rows=3, keys=keys, dtype=torch.float16)
    key.copy_(given.key)
    assert worst(attend("triton", given._replace(key=key)), expected(given)) <= 1
    plan = plan_attention("triton-fused", given.positions, (None,))
    other = given.value.clone()
    plan.write_both(key, other, given.query, given.query)
    where = given.positions[0]
    assert torch.equal(key[:, :, where], given.query)
    assert torch.equal(other[:, :, where], given.query)
