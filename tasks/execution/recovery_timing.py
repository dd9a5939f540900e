"""Recovery of a real context: relevance, units, choice, shift and refresh beside Replay (paper 13.4, Table 20)."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np
from torch import nn
from transformers.cache_utils import Cache

from cachemend.repair_core import Deletion, LoadedModel, Repair, prefill, repair, replay, shift
from cachemend.repair_core.architecture import text_config
from cachemend.repair_core.forward import input_device
from cachemend.repair_core.intervals import Positions, causal_pairs, maximal_intervals, token_layers
from cachemend.repair_core.timing import synchronize
from cachemend.tasks.bench.floor import calibrate
from cachemend.tasks.bench.sampling import interleaved
from cachemend.tasks.execution.floors import copy_column, floor_columns, refresh_bound
from cachemend.tasks.execution.lines import OWN_ATTENTION, OWN_EXECUTOR, Line, how
from cachemend.tasks.execution.protocol import Protocol, sample_columns
from cachemend.tasks.execution.trying import OK, attempt

TIMED_STAGES = (
    "recovery of a repair: shift, relevance, unit construction, allocation, refresh in place on the shifted copy, one "
    "after another; allocation and planning beside Shift, as in the paper's section 13.3, is not done here",
    "refresh of a repair: plan, mask, all layers and write of the rows, without the copy, which shift makes; the "
    "paper's refresh includes that of its output",
    "replay: copy of the prefix rows and a forward of the suffix; re-prefill: a forward of the edited context; "
    "shift: the copy and the rotation alone",
    "not in it: prefill of the original context, tokenization of the prompt, query and decoding",
    "floor: of the refresh or operator alone, FLOPs over peak or bytes over bandwidth, the larger, of one traversal "
    "that ends with the last layer's K/V: weights and visible K/V read once, without a copy; beside it the floor with "
    "the rows that the recovery copies. The ratio is the refresh or operator over the floor without the copy; "
    "selection and rotation have none",
)
RE_PREFILL, REPLAY, SHIFT, REPAIR = "re-prefill", "replay", "shift", "repair"


class RecoveryLine(NamedTuple):
    """One way to a usable cache."""

    method: str
    executor: str
    attention: str
    budget: float | None


@dataclass(frozen=True, kw_only=True)
class RecoverySetup:
    """What is timed on one context.

    Attributes:
        budgets: percent of the retained suffix.
        refreshes: executors and backends of the repairs.
        protocol: how often each is timed.
    """

    budgets: tuple[float, ...]
    refreshes: tuple[Line, ...]
    protocol: Protocol

    @property
    def name(self) -> str:
        return f"recovery at {'/'.join(f'{budget:g}' for budget in self.budgets)} %"

    def cells(self) -> list[dict[str, Any]]:
        """The key columns of every row, in order."""
        return [{**line._asdict(), **self.protocol.columns()} for line in self.lines()]

    def lines(self) -> tuple[RecoveryLine, ...]:
        """The references, then every budget by every executor."""
        plain = tuple(RecoveryLine(name, OWN_EXECUTOR, OWN_ATTENTION, None) for name in (RE_PREFILL, REPLAY, SHIFT))
        return plain + tuple(RecoveryLine(REPAIR, *way, budget) for budget in self.budgets for way in self.refreshes)


def time_recovery(loaded: LoadedModel, deletion: Deletion, query: str, setup: RecoverySetup) -> list[dict[str, Any]]:
    """Time every line on one context in turn; one row each, by `setup.lines()`."""
    trial = _Trial(loaded, deletion, query, prefill(loaded.model, deletion.original_ids))
    attempts = {line: attempt(" ".join(map(str, line)), partial(trial.run, line)) for line in setup.lines()}
    functions: dict[RecoveryLine, Callable[[], object]] = {
        line: partial(trial.run, line) for line, tried in attempts.items() if tried == OK
    }
    seen: dict[RecoveryLine, _Seen] = {line: _Seen([], [], None) for line in functions}

    def inspect(line: RecoveryLine, result: object, seconds: float | None) -> None:
        if isinstance(result, Repair):
            seen[line] = seen[line]._replace(chosen=result.positions)
        if seconds is not None:
            seen[line].whole.append(seconds)
            seen[line].refresh.append(result.timings["refresh"] if isinstance(result, Repair) else seconds)

    dtype, device = next(loaded.model.parameters()).dtype, input_device(loaded.model)
    machine = calibrate(dtype=dtype, device=device)
    times = interleaved(functions, setup.protocol.repeats, setup.protocol.warmups, inspect=inspect)
    rows = []
    for cell, (line, tried) in zip(setup.cells(), attempts.items(), strict=True):
        had = seen.get(line, _Seen([], [], None))
        work = _work(line, deletion, had.chosen)
        bound = refresh_bound(loaded.model, work.positions, machine, work.copied) if work.positions.size else None
        rows.append(
            {
                **cell,
                **(_counts(loaded.model, work.positions, deletion) if work.positions.size else {}),
                **sample_columns(times.get(line)),
                "seconds_mean": fmean(had.whole) if had.whole else None,
                "refresh_mean": fmean(had.refresh) if had.refresh and line.method != SHIFT else None,
                **floor_columns(bound, machine),
                **copy_column(bound),
                "how": how(line.attention, device, dtype),
                **tried._asdict(),
            }
        )
    return rows


class _Seen(NamedTuple):
    """Seconds of every timed run, whole and of its refresh (its operator, for a reference), and what it chose."""

    whole: list[float]
    refresh: list[float]
    chosen: Positions | None


class _Work(NamedTuple):
    """Positions recomputed, and rows of the cache copied."""

    positions: Positions
    copied: int


@dataclass(frozen=True)
class _Trial:
    """A prefilled context, and the ways to edit it."""

    loaded: LoadedModel
    deletion: Deletion
    query: str
    dirty: Cache

    def run(self, line: RecoveryLine) -> object:
        model, deletion = self.loaded.model, self.deletion
        result: object
        if line.method == RE_PREFILL:
            result = prefill(model, deletion.edited_ids)
        elif line.method == REPLAY:
            result = replay(model, self.dirty, deletion)
        elif line.method == SHIFT:
            result = shift(model, self.dirty, deletion)
        else:
            way = Line(line.executor, line.attention)
            attention = way.backend(input_device(model), next(model.parameters()).dtype)
            result = repair(
                model,
                self.loaded.tokenizer,
                deletion,
                self.query,
                line.budget,
                cache=self.dirty,
                executor=line.executor,
                attention=attention,
            )
        synchronize(model)
        return result


def _work(line: RecoveryLine, deletion: Deletion, chosen: Positions | None) -> _Work:
    length = len(deletion.edited_ids)
    if line.method == RE_PREFILL:
        return _Work(np.arange(length), 0)
    if line.method == REPLAY:
        return _Work(deletion.suffix_positions, deletion.prefix_length)
    return _Work(np.empty(0, dtype=np.int64) if chosen is None else chosen, length)


def _counts(model: nn.Module, positions: Positions, deletion: Deletion) -> dict[str, Any]:
    """The operation counts of paper section 13.1."""
    return {
        "rows": len(positions),
        "n_intervals": len(maximal_intervals(positions)),
        "causal_pairs": causal_pairs(positions),
        "token_layers": token_layers(positions, text_config(model).num_hidden_layers),
        "pair_share_bound": min(1.0, 2 * len(positions) / deletion.suffix_length),
    }
