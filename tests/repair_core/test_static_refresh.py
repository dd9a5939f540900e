"""What a CUDA graph would replay, run step by step where there is no device."""

import gc
import weakref
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from cachemend.repair_core import Deletion, Refused, prefill, refresh, shift
from cachemend.repair_core.caches import Rows, clone_rows, read_rows
from cachemend.repair_core.executors import EXECUTORS, EXPERIMENTAL, get_executor
from cachemend.repair_core.executors.static_refresh import Bucket, StaticRefresh
from cachemend.repair_core.invariants import caches_equal, changed_rows

from support.tiny_models import BY_NAME, VOCABULARY, build

pytest.importorskip("triton", reason="triton is installed on Linux only")

IDS = np.random.default_rng(4).integers(3, VOCABULARY, 90).tolist()
DELETION = Deletion(prefix_ids=IDS[:20], deleted_ids=IDS[20:31], suffix_ids=IDS[31:])
CHOICES = ([20, 21, 40, 70, 78], [33], list(range(20, 36)))


class _HostReads(TorchDispatchMode):
    """Refuses every operation that hands numbers to the host or makes shapes of them, as a capture does."""

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        if func.overloadpacket in (
            torch.ops.aten._local_scalar_dense,
            torch.ops.aten.nonzero,
            torch.ops.aten.unique_dim,
        ):
            raise AssertionError(f"{func} reads from the device")
        return func(*args, **(kwargs or {}))


def _worst(a: list[Rows], b: list[Rows]) -> float:
    pairs = [(x, y) for p, q in zip(a, b, strict=True) for x, y in zip(p, q, strict=True)]
    # Unlike Python's, this maximum of numbers with a NaN is NaN.
    return float(torch.stack([(x - y).abs().max() / y.abs().max() for x, y in pairs]).max())


def _places(static: StaticRefresh) -> list[int]:
    tensors = (static.tokens, static.positions, static.targets, *(t for layer in static.rows for t in layer))
    return [t.data_ptr() for t in tensors]


@pytest.mark.parametrize("name", ["llama", "qwen3", "gemma3", "gpt-oss"])
@pytest.mark.parametrize("attention", ["sdpa", "triton"])
def test_one_set_of_buffers_serves_any_support_of_its_bucket(name: str, attention: str) -> None:
    model = build(BY_NAME[name])
    shifted = shift(model, prefill(model, DELETION.original_ids), DELETION)
    rows, ids = read_rows(shifted), torch.tensor([DELETION.edited_ids])
    static = StaticRefresh(model, rows, (16, 128), attention)
    buffers = _places(static)
    for positions in CHOICES:
        out, where = clone_rows(rows), torch.tensor([positions])
        static.load(rows, ids, where)
        static.step(model)
        static.store(out, where)
        expected = read_rows(refresh(model, shifted, DELETION.edited_ids, positions))
        assert _worst(out, expected) <= 1e-5
        assert set(changed_rows(rows, out)) == set(positions)
    assert _places(static) == buffers


@pytest.mark.parametrize("name", ["llama", "qwen3", "gemma3"])
def test_a_step_reads_nothing_back_from_the_device(name: str) -> None:
    model = build(BY_NAME[name])
    rows, ids = read_rows(prefill(model, IDS)), torch.tensor([IDS])
    static = StaticRefresh(model, rows, (16, 128), "sdpa")
    static.load(rows, ids, torch.tensor([[3, 50]]))
    static.step(model)
    before = clone_rows(static.rows)
    with _HostReads():
        static.step(model)
    assert caches_equal(before, static.rows), "a step repeats exactly"
    with pytest.raises(AssertionError, match="reads from the device"), _HostReads():
        torch.tensor([1]).item()


@pytest.mark.parametrize("attention", ["sdpa", "triton-fused"])
def test_the_copies_that_fill_a_bucket_write_no_row_of_the_cache(attention: str) -> None:
    model = build(BY_NAME["gemma3"])
    shifted = shift(model, prefill(model, DELETION.original_ids), DELETION)
    rows, where = read_rows(shifted), torch.tensor([CHOICES[0]])
    static = StaticRefresh(model, rows, (16, 128), attention)
    static.load(rows, torch.tensor([DELETION.edited_ids]), where)
    # As much as copies can differ from the row they repeat.
    static.tokens[:, len(CHOICES[0]) :] = 7
    static.step(model)
    out = clone_rows(rows)
    static.store(out, where)
    assert _worst(out, read_rows(refresh(model, shifted, DELETION.edited_ids, CHOICES[0]))) <= 1e-5


@pytest.mark.parametrize("attention", ["sdpa", "triton"])
def test_nothing_of_a_longer_context_is_left(attention: str) -> None:
    model = build(BY_NAME["llama"])
    rows, ids, where = read_rows(prefill(model, IDS)), torch.tensor([IDS]), torch.tensor([[3, 70]])
    static = StaticRefresh(model, rows, (16, 128), attention)
    longer = [
        Rows(*(torch.cat((t, t.new_full((1, t.shape[1], 30, t.shape[3]), np.inf)), dim=2) for t in r)) for r in rows
    ]
    static.load(longer, ids, where)
    static.load(rows, ids, where)
    static.step(model)
    out = clone_rows(rows)
    static.store(out, where)
    assert _worst(out, rows) <= 1e-5, "the rows of a clean cache are computed again"


def test_a_static_refresh_lets_its_model_go() -> None:
    model = build(BY_NAME["llama"])
    rows = read_rows(prefill(model, IDS))
    static = StaticRefresh(model, rows, (16, 128), "sdpa")
    static.load(rows, torch.tensor([IDS]), torch.tensor([[3, 50]]))
    static.step(model)
    gone = weakref.ref(model)
    del model
    gc.collect()
    assert gone() is None


def test_buckets() -> None:
    assert [Bucket.of(*x) for x in ((1, 1), (16, 1024), (17, 1025), (64, 2048))] == [
        (16, 1024),
        (16, 1024),
        (32, 2048),
        (64, 2048),
    ]


@pytest.mark.parametrize("executor", EXPERIMENTAL)
def test_it_is_refused_by_name_without_a_device_and_in_no_list(executor: str) -> None:
    model = build(BY_NAME["llama"])
    cache = prefill(model, IDS)
    with pytest.raises(Refused, match=f"{executor!r} needs a CUDA device; the cache is on cpu"):
        refresh(model, cache, IDS, [5], executor=executor)
    assert executor not in EXECUTORS
    assert type(get_executor("auto", 5)) is EXECUTORS["packed"]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="a CUDA graph needs a device")
@pytest.mark.parametrize("executor", EXPERIMENTAL)
@pytest.mark.parametrize("attention", ["sdpa", "triton", "triton-split"])
def test_a_replayed_graph_equals_the_packed_executor(executor: str, attention: str) -> None:
    model = build(BY_NAME["llama"]).cuda()
    shifted = shift(model, prefill(model, DELETION.original_ids), DELETION)
    for positions in CHOICES:
        expected = read_rows(refresh(model, shifted, DELETION.edited_ids, positions))
        out = read_rows(refresh(model, shifted, DELETION.edited_ids, positions, executor, attention))
        assert _worst(out, expected) <= 1e-4


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="a CUDA graph needs a device")
def test_refreshes_from_several_streams_follow_each_other() -> None:
    model = build(BY_NAME["llama"]).cuda()
    shifted = shift(model, prefill(model, DELETION.original_ids), DELETION)
    expected = [read_rows(refresh(model, shifted, DELETION.edited_ids, positions)) for positions in CHOICES]
    streams = [torch.cuda.Stream() for _ in CHOICES]
    torch.cuda.synchronize()
    for _ in range(20):
        found = []
        for stream, positions in zip(streams, CHOICES, strict=True):
            with torch.cuda.stream(stream):
                found.append(refresh(model, shifted, DELETION.edited_ids, positions, "packed-graph"))
        torch.cuda.synchronize()
        assert all(_worst(read_rows(a), b) <= 1e-4 for a, b in zip(found, expected, strict=True))
