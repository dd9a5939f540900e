"""The executors on one support size in 1, 4 and 16 intervals (paper section 13.3, on this machine)."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch
from torch import nn

from cachemend.repair_core import Deletion, LoadedModel, prefill, refresh, shift
from cachemend.repair_core.caches import Rows, clone_rows, plain_cache, read_rows
from cachemend.repair_core.executors import REPAIRING
from cachemend.repair_core.intervals import Positions
from cachemend.repair_core.prefilling import extend
from cachemend.tasks.bench.floor import Bound, Machine, bound_of_a_refresh, calibrate, products_of_a_refresh
from cachemend.tasks.bench.sampling import Sample, interleaved
from cachemend.tasks.bench.target import Target
from cachemend.tasks.execution.supports import DELETED, matched_supports

TIMED = """\
timed: refresh: copy of the cache, plan and mask, all layers, write of the fresh rows
       packed, in place: the same without the copy of the cache
       bottom-right: a control with the wrong mask; not a repair, not compared
       plain forward: B contiguous tokens behind N - B rows, no LM head; its own cache update copies the cache once
ratios: over the measured products; over the larger of FLOPs over peak and bytes over bandwidth, with the line's copy
       both end with the last layer's keys and values; those of the plain forward count its cache, not its output"""
IN_PLACE, CONTROL, PLAIN = "packed, in place", "bottom-right", "plain forward"


class ExecutorTimes(NamedTuple):
    """Samples by (line, R), of the products by R, and of the plain forward; N and B.

    The lines are the executors that repair, packed in place, and the control.
    """

    samples: dict[tuple[str, int], Sample]
    products: dict[int, Sample]
    plain: Sample
    length: int
    rows: int


def bench_executors(
    loaded: LoadedModel, length: int = 2048, count: int = 64, intervals: tuple[int, ...] = (1, 4, 16), repeats: int = 9
) -> list[Target]:
    """Time every executor on every support, interleaved; print the times and return the ratios held to a limit."""
    model = loaded.model
    ids = torch.randint(1000, 40000, (length + DELETED,), generator=torch.Generator().manual_seed(0)).tolist()
    deletion = Deletion(prefix_ids=ids[:4], deleted_ids=ids[4 : 4 + DELETED], suffix_ids=ids[4 + DELETED :])
    shifted = shift(model, prefill(model, deletion.original_ids), deletion)
    scratch = plain_cache(clone_rows(read_rows(shifted)))
    supports = matched_supports(length, count, intervals)
    again = partial(refresh, model, token_ids=deletion.edited_ids)
    functions: dict[tuple[str, int], Callable[[], object]] = {}
    for r, support in supports.items():
        for name in (*REPAIRING, CONTROL):
            functions[name, r] = partial(again, cache=shifted, positions=support, executor=name)
        functions[IN_PLACE, r] = partial(again, cache=scratch, positions=support, in_place=True)
        functions["products", r] = products_of_a_refresh(model, torch.from_numpy(support))
    functions[PLAIN, 1] = plain_forward(model, read_rows(shifted), deletion.edited_ids, count)
    times = interleaved(functions, repeats)
    products = {r: times.pop(("products", r)) for r in intervals}
    result = ExecutorTimes(times, products, times.pop((PLAIN, 1)), length, count)
    _print(loaded, result, supports)
    return targets(result)


def plain_forward(model: nn.Module, rows: list[Rows], ids: tuple[int, ...], count: int) -> Callable[[], None]:
    """The model's own forward of the last `count` tokens of `ids` behind the cached rows of the others."""
    before = len(ids) - count
    tokens = torch.tensor([ids[before:]])

    def forward() -> None:
        extend(model, plain_cache([Rows(k[:, :, :before], v[:, :, :before]) for k, v in rows]), tokens, before)

    return forward


def targets(result: ExecutorTimes) -> list[Target]:
    """The ratios of packed execution that are held to a limit."""
    packed = {r: sample.median for (name, r), sample in result.samples.items() if name == "packed"}
    many = max(packed)
    sequential = min(result.samples[name, many].median for name in ("interval", "direct"))
    flat = max(packed.values()) / min(packed.values())
    own = packed[many] / result.products[many].median
    plain = packed[many] / result.plain.median
    return [
        Target(f"packed over its products, R={many}", own, at_most=2.2),
        Target(f"faster of interval and direct over packed, R={many}", sequential / packed[many], at_least=6.0),
        Target(f"packed, R={many}, over a plain forward of as many tokens", plain, at_most=1.3),
        Target(f"packed, slowest over fastest of R in {tuple(packed)}", flat, at_most=1.35),
    ]


def _print(loaded: LoadedModel, result: ExecutorTimes, supports: dict[int, Positions]) -> None:
    machine, model = calibrate(), loaded.model
    threads = torch.get_num_threads()
    print(f"\nRefresh, {loaded.name} {loaded.dtype}, N={result.length}, B={result.rows}, {threads} threads")
    print(TIMED)
    print(f"calibrated: {machine.flops / 1e9:.0f} GFLOP/s, {machine.bandwidth / 1e9:.1f} GB/s")
    for r, support in supports.items():
        positions, products = torch.from_numpy(support), result.products[r]
        copying, alone = (bound_of_a_refresh(model, positions, machine, copied) for copied in (result.length, 0))
        print(f"  R={r:<3} products          {products}\n        {copying}")
        for (name, at), sample in result.samples.items():
            if at == r:
                print(_line(name, sample, products, alone if name == IN_PLACE else copying))
    _print_plain(model, result, machine)


def _print_plain(model: nn.Module, result: ExecutorTimes, machine: Machine) -> None:
    tail = torch.arange(result.length - result.rows, result.length)
    bound = bound_of_a_refresh(model, tail, machine, result.length)
    print(f"  last {result.rows} tokens\n        {bound}")
    print(_line(PLAIN, result.plain, None, bound))


def _line(name: str, sample: Sample, products: Sample | None, bound: Bound) -> str:
    over = "" if products is None else f"  {sample.median / products.median:5.2f} x products"
    return f"        {name:<17} {sample}{over}  {sample.median / bound.seconds:5.2f} x bound"
