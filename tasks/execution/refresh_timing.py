"""Complete refreshes of equal work by every executor and backend (paper section 13.3, Table 18)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import nn

from cachemend.repair_core import Deletion, RepairedCache, prefill, refresh, shift
from cachemend.repair_core.architecture import text_config
from cachemend.repair_core.caches import Rows, clone_rows, read_rows
from cachemend.repair_core.forward import input_device
from cachemend.repair_core.intervals import Positions, causal_pairs, token_layers
from cachemend.repair_core.invariants import caches_equal, changed_rows
from cachemend.repair_core.timing import synchronize
from cachemend.tasks.bench.floor import calibrate
from cachemend.tasks.bench.sampling import interleaved
from cachemend.tasks.execution.floors import floor_columns, refresh_bound
from cachemend.tasks.execution.lines import OWN_ATTENTION, Line, how
from cachemend.tasks.execution.protocol import Protocol, sample_columns
from cachemend.tasks.execution.supports import matched_supports, random_deletion
from cachemend.tasks.execution.trying import OK, Attempt, attempt

TIMED_STAGES = (
    "refresh: checks of the call, copy of the whole cache into an output of its own, plan and mask with their upload, "
    "all layers, write of the fresh rows; device synchronised at both ends",
    "not in it: prefill, selection, shift, query, decoding, the first call of a line with its compilation",
    "floor: one traversal's FLOPs over peak or its bytes (weights, visible K/V, copy) over bandwidth, the larger",
)
REFERENCE = "interval"
_Key = tuple[int, Line]


@dataclass(frozen=True, kw_only=True)
class RefreshSetup:
    """What is refreshed at a length, all in one go: ratios hold between times that were taken together.

    Attributes:
        intervals: numbers of intervals R.
        lines: executors and backends.
        protocol: how often each is timed.
    """

    intervals: tuple[int, ...]
    lines: tuple[Line, ...]
    protocol: Protocol

    @property
    def name(self) -> str:
        return f"refresh in {'/'.join(map(str, self.intervals))} intervals"

    def cells(self) -> list[dict[str, Any]]:
        """The key columns of every row, in order."""
        rounds = self.protocol.columns()
        return [{"n_intervals": n, **line._asdict(), **rounds} for n in self.intervals for line in self.lines]


def time_refresh(model: nn.Module, length: int, count: int, setup: RefreshSetup, seed: int = 0) -> list[dict[str, Any]]:
    """Time every line at every number of intervals in turn; one row each, by intervals and line.

    Args:
        model: what is refreshed.
        length: N, tokens of the edited context.
        count: B, positions recomputed.
        setup: lines and rounds.
        seed: of the random tokens.

    A line that cannot run here, or whose result breaks what a refresh promises, has a row that says so.

    Raises:
        InputError: supports that do not fit the length.
    """
    supports = matched_supports(length, count, setup.intervals)
    deletion = random_deletion(length, text_config(model).vocab_size, seed)
    shifted = shift(model, prefill(model, deletion.original_ids), deletion)
    trial = _Trial(model, deletion, shifted)
    checks = {(n, line): trial.check(line, support) for n, support in supports.items() for line in setup.lines}
    functions: dict[_Key, Callable[[], object]] = {
        (n, line): partial(trial.run, line, supports[n]) for (n, line), found in checks.items() if found.attempt == OK
    }
    dtype, device = next(model.parameters()).dtype, input_device(model)
    machine = calibrate(dtype=dtype, device=device)
    times = interleaved(functions, setup.protocol.repeats, setup.protocol.warmups, seed)
    unchanged = caches_equal(trial.kept, read_rows(shifted))
    rows = []
    for cell, ((n, line), found) in zip(setup.cells(), checks.items(), strict=True):
        support = supports[n]
        rows.append(
            {
                **cell,
                **_work(model, support, len(deletion.suffix_ids)),
                **sample_columns(times.get((n, line))),
                **floor_columns(refresh_bound(model, support, machine, length), machine),
                "how": how(line.attention, device, dtype),
                **found.columns(unchanged),
            }
        )
    return rows


def _work(model: nn.Module, support: Positions, suffix: int) -> dict[str, Any]:
    """The operation counts of paper section 13.1."""
    return {
        "causal_pairs": causal_pairs(support),
        "token_layers": token_layers(support, text_config(model).num_hidden_layers),
        "pair_share_bound": min(1.0, 2 * len(support) / suffix),
    }


@dataclass(frozen=True, kw_only=True)
class _Checked:
    """What a line's first, untimed call showed."""

    attempt: Attempt
    difference: float | None = None
    kept_bits: bool | None = None

    def columns(self, unchanged: bool) -> dict[str, Any]:
        outcome, error = self.attempt
        if outcome == "ok" and not (self.kept_bits and unchanged):
            outcome, error = "case_error", "the refresh changed its input or rows that were not selected"
        return {
            "relative_l2": self.difference,
            "input_unchanged": unchanged if self.attempt == OK else None,
            "unselected_bit_identical": self.kept_bits,
            "outcome": outcome,
            "error": error,
        }


class _Trial:
    """The shifted cache, and refreshes of it."""

    def __init__(self, model: nn.Module, deletion: Deletion, shifted: RepairedCache) -> None:
        self.model, self.deletion, self.shifted = model, deletion, shifted
        self.kept = clone_rows(read_rows(shifted))
        self._references: dict[bytes, torch.Tensor] = {}

    def run(self, line: Line, support: Positions) -> RepairedCache:
        attention = line.backend(input_device(self.model), next(self.model.parameters()).dtype)
        out = refresh(self.model, self.shifted, self.deletion.edited_ids, support, line.executor, attention)
        synchronize(self.model)
        return out

    def check(self, line: Line, support: Positions) -> _Checked:
        """Run a line once; compare its rows with the interval-wise executor's, and the others with their old bits."""
        reference = self._reference(support)
        out: list[Rows] = []
        tried = attempt(f"{line.executor}/{line.attention}", lambda: out.extend(read_rows(self.run(line, support))))
        if tried != OK:
            return _Checked(attempt=tried)
        kept_bits = set(changed_rows(self.kept, out)) <= set(support)
        difference = (_selected(out, support) - reference).norm() / reference.norm()
        return _Checked(attempt=tried, difference=float(difference), kept_bits=kept_bits)

    def _reference(self, support: Positions) -> torch.Tensor:
        key = support.tobytes()
        if key not in self._references:
            rows = read_rows(self.run(Line(REFERENCE, OWN_ATTENTION), support))
            self._references[key] = _selected(rows, support)
        return self._references[key]


def _selected(rows: Sequence[Rows], support: Positions) -> torch.Tensor:
    where = torch.from_numpy(support)
    return torch.stack([t.index_select(2, where.to(t.device)).double().cpu() for layer in rows for t in layer])
