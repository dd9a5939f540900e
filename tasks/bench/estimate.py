"""Predicted beside measured cost of repair, Replay and Re-prefill on natural text."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from statistics import median
from typing import NamedTuple

import torch

from cachemend.datasets.niah import build_niah
from cachemend.datasets.niah_rosters import EMBEDDED_DEV
from cachemend.repair_core import Deletion, LoadedModel, prefill, repair, repair_budget, replay
from cachemend.repair_core.calibrating import calibrate
from cachemend.repair_core.estimating import RE_PREFILL, REPAIR, REPLAY, Cost, Lengths, predict
from cachemend.repair_core.machine import Machine
from cachemend.repair_core.shapes import model_shapes
from cachemend.tasks.bench.peak import peak_bytes
from cachemend.tasks.bench.sampling import interleaved
from cachemend.tasks.bench.target import Target

SHORT_SUFFIX = 48


class Cell(NamedTuple):
    """One way to a usable cache, predicted and measured; bytes are None where the system cannot tell."""

    name: str
    predicted: Cost
    seconds: float
    bytes: int | None

    @property
    def error(self) -> float:
        """Relative error of the predicted seconds."""
        return self.predicted.seconds / self.seconds - 1


def bench_estimate(
    loaded: LoadedModel,
    lengths: Sequence[int] = (512, 1024, 2048),
    budgets: Sequence[float] = (2.0, 5.0, 20.0, 80.0),
    repeats: int = 3,
) -> list[Target]:
    """Print every cell and return the target; calibrates anew before each length, so that both see one machine."""
    print(f"\nEstimate, {loaded.name} {loaded.dtype}, {torch.get_num_threads()} threads")
    print("timed: the whole call of repair, replay and prefill; bytes: predicted are the tensors that torch allocates,")
    print("resident also what the C allocator keeps and what the products pack, so it is larger")
    errors: list[float] = []
    right = n = 0
    for length in lengths:
        machine = calibrate(loaded.model)
        rates = zip(machine.rows, machine.rates, strict=True)
        print("calibrated: " + ", ".join(f"{rate / 1e9:.0f} GFLOP/s at {n} rows" for n, rate in rates))
        roster = replace(EMBEDDED_DEV, lengths=(length,), cases_per_length=1)
        case = build_niah(loaded.tokenizer, roster).cases[0]
        for deletion in (case.deletion, _with_suffix(case.deletion, SHORT_SUFFIX)):
            references, repairs = _cells(loaded, machine, deletion, case.query_text, budgets, repeats)
            print(f"  P={deletion.prefix_length} S={deletion.suffix_length}")
            for cell in (*references, *repairs):
                print(f"    {_line(cell)}")
                errors.append(abs(cell.error))
            for cell in repairs:
                ways = (*references, cell)
                advised = min(ways, key=lambda way: way.predicted.seconds)
                right += advised.seconds == min(way.seconds for way in ways)
                n += 1
    print(f"the advice named the fastest way in {right} of {n} cases")
    name = f"median absolute relative error of the estimate, {len(errors)} cells"
    return [Target(name, median(errors), at_most=0.25)]


def _with_suffix(deletion: Deletion, length: int) -> Deletion:
    """The same context, edited so late that only `length` tokens follow."""
    ids, gone = deletion.original_ids, deletion.deleted_length
    cut = len(ids) - length - gone
    return Deletion(prefix_ids=ids[:cut], deleted_ids=ids[cut : cut + gone], suffix_ids=ids[cut + gone :])


def _cells(
    loaded: LoadedModel, machine: Machine, deletion: Deletion, query: str, budgets: Sequence[float], repeats: int
) -> tuple[list[Cell], list[Cell]]:
    model, shapes = loaded.model, model_shapes(loaded.model)
    dirty = prefill(model, deletion.original_ids)
    functions: dict[str, Callable[[], object]] = {
        REPLAY: partial(replay, model, dirty, deletion),
        RE_PREFILL: partial(prefill, model, deletion.edited_ids),
    }
    rows = {f"{REPAIR} {b:g}%": repair_budget(deletion.suffix_length, b) for b in budgets}
    for name, budget in zip(rows, budgets, strict=True):
        functions[name] = partial(repair, model, loaded.tokenizer, deletion, query, budget, cache=dirty)
    times = interleaved(functions, repeats, warmups=1)
    cells = {}
    for name, function in functions.items():
        lengths = Lengths(deletion.prefix_length, deletion.suffix_length, rows.get(name, 0))
        guess = predict(shapes, machine, lengths)
        cost = {REPLAY: guess.replay, RE_PREFILL: guess.re_prefill}.get(name, guess.repair)
        cells[name] = Cell(name, cost, times[name].median, peak_bytes(function))
    references = [cells.pop(REPLAY), cells.pop(RE_PREFILL)]
    return references, list(cells.values())


def _line(cell: Cell) -> str:
    memory = "" if cell.bytes is None else f", resident {cell.bytes / 2**20:7.1f} MiB"
    return (
        f"{cell.name:<12} predicted {cell.predicted.seconds * 1e3:8.1f} ms, measured {cell.seconds * 1e3:8.1f} ms, "
        f"error {100 * cell.error:+5.0f} %; peak predicted {cell.predicted.bytes / 2**20:7.1f} MiB{memory}"
    )
