"""The four executors on one support size in 1, 4 and 16 intervals (paper section 13.3, on this machine)."""

from functools import partial
from typing import NamedTuple

import numpy as np
import torch

from cachemend.repair_core import Deletion, LoadedModel, prefill, refresh, shift
from cachemend.repair_core.executors import EXECUTORS
from cachemend.repair_core.intervals import Positions, causal_pairs
from cachemend.tasks.bench.floor import (
    bytes_of_a_refresh,
    calibrate,
    flops_of_a_refresh,
    products_of_a_refresh,
)
from cachemend.tasks.bench.sampling import Sample, interleaved

TIMED = "refresh: copy of the cache, plan and mask, all layers, write of the fresh rows"
DELETED = 8


class ExecutorTimes(NamedTuple):
    """Samples by (executor, R) and of the floor by R; N and B."""

    samples: dict[tuple[str, int], Sample]
    floors: dict[int, Sample]
    length: int
    rows: int


def symmetric_intervals(length: int, count: int, n_intervals: int) -> Positions:
    """`count` positions in `n_intervals` equal runs, symmetric about the middle of the context.

    The sum of (u + 1) is the same for every number of intervals.
    """
    width = count // n_intervals
    centres = (2 * np.arange(n_intervals) + 1) * length // (2 * n_intervals)
    return np.concatenate([np.arange(c - width // 2, c - width // 2 + width) for c in centres])


def bench_executors(
    loaded: LoadedModel, length: int = 2048, count: int = 64, intervals: tuple[int, ...] = (1, 4, 16), repeats: int = 9
) -> ExecutorTimes:
    """Time every executor on every support, interleaved, and print the ratios."""
    model = loaded.model
    ids = torch.randint(1000, 40000, (length + DELETED,), generator=torch.Generator().manual_seed(0)).tolist()
    deletion = Deletion(prefix_ids=ids[:4], deleted_ids=ids[4 : 4 + DELETED], suffix_ids=ids[4 + DELETED :])
    shifted = shift(model, prefill(model, deletion.original_ids), deletion)
    supports = {r: symmetric_intervals(length, count, r) for r in intervals}
    if len({causal_pairs(s) for s in supports.values()}) != 1:
        raise AssertionError("supports must have equal causal pairs")
    functions: dict[str, object] = {
        f"{name}|{r}": partial(refresh, model, shifted, deletion.edited_ids, support, executor=name)
        for name in EXECUTORS
        for r, support in supports.items()
    }
    functions |= {f"floor|{r}": products_of_a_refresh(model, torch.from_numpy(s)) for r, s in supports.items()}
    times = interleaved(functions, repeats)  # type: ignore[arg-type]
    samples = {(n, r): times[f"{n}|{r}"] for n in EXECUTORS for r in intervals}
    result = ExecutorTimes(samples, {r: times[f"floor|{r}"] for r in intervals}, length, count)
    _print(loaded, result, supports)
    return result


def _print(loaded: LoadedModel, result: ExecutorTimes, supports: dict[int, Positions]) -> None:
    machine = calibrate()
    threads = torch.get_num_threads()
    print(f"\nRefresh, {loaded.name} {loaded.dtype}, N={result.length}, B={result.rows}, {threads} threads")
    print(f"timed: {TIMED}")
    print(f"calibrated: {machine.flops / 1e9:.0f} GFLOP/s, {machine.bandwidth / 1e9:.1f} GB/s")
    for r, support in supports.items():
        positions = torch.from_numpy(support)
        by_flops = flops_of_a_refresh(loaded.model, positions) / machine.flops
        by_bytes = bytes_of_a_refresh(loaded.model, positions, result.length) / machine.bandwidth
        print(f"  R={r:<3} floor (its products)  {result.floors[r]}")
        print(f"        FLOPs over peak {by_flops * 1e3:.1f} ms, bytes over bandwidth {by_bytes * 1e3:.1f} ms")
        for name in EXECUTORS:
            sample = result.samples[name, r]
            print(f"        {name:<9} {sample}  {sample.median / result.floors[r].median:.2f} x floor")
    many, one = max(supports), min(supports)
    sequential = min(result.samples[n, many].median for n in ("interval", "direct"))
    packed = result.samples["packed", many].median
    print(f"packed at R={many}: {sequential / packed:.2f} times faster than the faster of interval and direct")
    print(f"packed at R={many} over packed at R={one}: {packed / result.samples['packed', one].median:.2f}")
