"""Refresh of a short replaced span and K tokens behind it, against a prefill of the edited context."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from torch import nn

from cachemend.repair_core import LoadedModel, prefill, refresh
from cachemend.repair_core.architecture import text_config
from cachemend.repair_core.caches import clone_rows, plain_cache, read_rows
from cachemend.repair_core.intervals import Positions
from cachemend.repair_core.replacement import Replacement
from cachemend.tasks.bench.floor import (
    Machine,
    bound_of_a_refresh,
    bytes_of_a_copy,
    calibrate,
    products_of_a_refresh,
)
from cachemend.tasks.bench.sampling import Sample, interleaved
from cachemend.tasks.bench.target import Target
from cachemend.tasks.edit_cost import DEPTH

TIMED = """\
timed: re-prefill: all tokens of the edited context through all layers; no query and no LM head in any line
       refresh: copy of the whole cache, span and K tokens behind it through all layers (packed), write of their rows
       in place: the same without the copy of the cache; copy alone: the same copy and nothing else
floors: in place: the measured products of the refresh; with the copy: those and the copy's bytes over bandwidth
token-layer ratio: token positions per layer of the re-prefill over those of the refresh"""
SPAN = 4
SHOWN_K = 32
SHORT_PER_ROUND = 3
RE_PREFILL, REFRESH, IN_PLACE, COPY, PRODUCTS = "re-prefill", "refresh", "in place", "copy alone", "products"


class EditTimes(NamedTuple):
    """Samples by (line, K) of a context of `length` tokens, K 0 for lines that have none, and the K rows' positions."""

    samples: dict[tuple[str, int], Sample]
    where: dict[int, Positions]
    length: int

    def ratio(self, line: str, k: int) -> float:
        """How many times faster than a re-prefill."""
        return self.samples[RE_PREFILL, 0].median / self.samples[line, k].median

    def token_layer_ratio(self, k: int) -> float:
        """The same by counting tokens, each of which passes all layers in both."""
        return self.length / len(self.where[k])


def bench_edits(
    loaded: LoadedModel, lengths: Sequence[int] = (2048, 5000), ks: Sequence[int] = (8, 16, 32, 64), rounds: int = 3
) -> list[Target]:
    """Print all times of every length, interleaved within it, and return the targets.

    `rounds` re-prefills are timed, and `SHORT_PER_ROUND` times as many of everything else.
    """
    machine = calibrate()
    print(f"\nEdit in place, {loaded.name} {loaded.dtype}, span of {SPAN} at 30 %, {torch.get_num_threads()} threads")
    print(TIMED)
    print(f"calibrated: {machine.flops / 1e9:.0f} GFLOP/s, {machine.bandwidth / 1e9:.1f} GB/s")
    targets: list[Target] = []
    for length in lengths:
        times = _time(loaded.model, length, ks, rounds)
        floors = _floors(loaded.model, times, machine)
        _print(loaded.model, times, floors, machine)
        if length == max(lengths):
            targets.append(_gain(times, SHOWN_K))
        targets += [_distance(times, floors, line) for line in (REFRESH, IN_PLACE)]
    return targets


def replaced_span(vocabulary: int, length: int) -> Replacement:
    """A context of random tokens, `SPAN` of which near 30 % are replaced by as many others."""
    ids = np.random.default_rng(0).integers(0, vocabulary, size=length)
    start = int(DEPTH * length)
    new = (ids[start : start + SPAN] + 1) % vocabulary
    return Replacement(original_ids=ids.tolist(), start=start, stop=start + SPAN, replacement_ids=new.tolist())


def _time(model: nn.Module, length: int, ks: Sequence[int], rounds: int) -> EditTimes:
    edit = replaced_span(text_config(model).vocab_size, length)
    stale = prefill(model, edit.original_ids)
    scratch = plain_cache(clone_rows(read_rows(stale)))
    where = {k: np.arange(edit.span.start, edit.span.stop + k, dtype=np.int64) for k in ks}
    functions: dict[tuple[str, int], Callable[[], object]] = {
        (RE_PREFILL, 0): partial(prefill, model, edit.edited_ids),
        (COPY, 0): partial(clone_rows, read_rows(stale)),
    }
    for k, positions in where.items():
        functions[REFRESH, k] = partial(refresh, model, stale, edit.edited_ids, positions)
        functions[IN_PLACE, k] = partial(refresh, model, scratch, edit.edited_ids, positions, in_place=True)
        functions[PRODUCTS, k] = products_of_a_refresh(model, torch.from_numpy(positions))
    often = {line: SHORT_PER_ROUND for line in functions if line[0] != RE_PREFILL}
    return EditTimes(interleaved(functions, rounds, warmups=1, per_round=often), where, length)


def _floors(model: nn.Module, times: EditTimes, machine: Machine) -> dict[tuple[str, int], float]:
    """Seconds below which no refresh can go that needs the measured products, by line and K."""
    copy = bytes_of_a_copy(model, times.length) / machine.bandwidth
    products = {k: times.samples[PRODUCTS, k].median for k in times.where}
    return {
        (line, k): floor + copy * (line == REFRESH) for k, floor in products.items() for line in (REFRESH, IN_PLACE)
    }


def _gain(times: EditTimes, k: int) -> Target:
    name = f"re-prefill over refresh of span + {k} with its copy, N={times.length}"
    counted = f"token-layer ratio {times.token_layer_ratio(k):.0f}"
    return Target(f"{name}, {counted}", times.ratio(REFRESH, k), at_least=40)


def _distance(times: EditTimes, floors: dict[tuple[str, int], float], line: str) -> Target:
    over = {k: times.samples[line, k].median / floors[line, k] for k in times.where}
    worst = max(over, key=lambda k: over[k])
    copying = "with its copy" if line == REFRESH else line
    name = f"refresh {copying} over its own floor, N={times.length}, worst K of {tuple(over)} ({worst})"
    return Target(name, over[worst], at_most=2)


def _print(model: nn.Module, times: EditTimes, floors: dict[tuple[str, int], float], machine: Machine) -> None:
    whole = bound_of_a_refresh(model, torch.arange(times.length), machine, 0)
    again, copy = times.samples[RE_PREFILL, 0], times.samples[COPY, 0]
    print(f"  N={times.length}  {RE_PREFILL}  {again}  {again.median / whole.seconds:5.2f} x bound\n        {whole}")
    moved = bytes_of_a_copy(model, times.length) / machine.bandwidth
    print(f"        {COPY:<11} {copy}  {copy.median / moved:5.2f} x bytes over bandwidth, {moved * 1e3:.1f} ms")
    for k, positions in times.where.items():
        bound = bound_of_a_refresh(model, torch.from_numpy(positions), machine, times.length)
        products = times.samples[PRODUCTS, k]
        print(
            f"  K={k:<3} {PRODUCTS:<11} {products}  token-layer ratio {times.token_layer_ratio(k):.1f}\n        {bound}"
        )
        for line in (REFRESH, IN_PLACE):
            sample, floor = times.samples[line, k], floors[line, k]
            print(
                f"        {line:<11} {sample}  re-prefill over it {times.ratio(line, k):6.1f}  "
                f"{sample.median / floor:5.2f} x floor  {sample.median / products.median:5.2f} x products"
            )
