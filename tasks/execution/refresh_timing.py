"""Complete refreshes of equal work by every executor and backend (paper section 13.3, Table 18)."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from torch import nn

from cachemend.repair_core.architecture import text_config
from cachemend.repair_core.forward import input_device
from cachemend.repair_core.intervals import Positions, causal_pairs, token_layers
from cachemend.tasks.bench.floor import calibrate
from cachemend.tasks.bench.sampling import interleaved
from cachemend.tasks.execution.floors import copy_column, floor_columns, refresh_bound
from cachemend.tasks.execution.lines import Line, how
from cachemend.tasks.execution.protocol import Protocol, sample_columns
from cachemend.tasks.execution.supports import matched_supports
from cachemend.tasks.execution.trial import Trial
from cachemend.tasks.execution.trying import OK

TIMED_STAGES = (
    "refresh: checks of the call, copy of the whole cache into an output of its own, plan and mask with their upload, "
    "all layers, write of the fresh rows; device synchronised at both ends",
    "not in it: prefill, selection, shift, query, decoding, the first call of a line with its compilation",
    "floor: FLOPs over peak or bytes over bandwidth, the larger, of one traversal that ends with the last layer's K/V: "
    "weights and visible K/V read once, without the copy; beside it the floor with the copy. The ratio is over the "
    "floor without the copy, though the time includes it",
    "output: fresh K/V may differ from the interval-wise executor's by a relative L2 of 1e-4 in float32 and 2e-2 in "
    "half precision (the paper's differ by at most 1.9 %)",
)
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
    trial = Trial.of(model, length, seed)
    checks = {(n, line): trial.check(line, support) for n, support in supports.items() for line in setup.lines}
    functions: dict[_Key, Callable[[], object]] = {
        (n, line): partial(trial.run, line, supports[n]) for (n, line), found in checks.items() if found.attempt == OK
    }
    dtype, device = next(model.parameters()).dtype, input_device(model)
    machine = calibrate(dtype=dtype, device=device)
    times = interleaved(functions, setup.protocol.repeats, setup.protocol.warmups, seed)
    unchanged = trial.unchanged()
    rows = []
    for cell, ((n, line), found) in zip(setup.cells(), checks.items(), strict=True):
        support = supports[n]
        bound = refresh_bound(model, support, machine, length)
        rows.append(
            {
                **cell,
                **_work(model, support, len(trial.deletion.suffix_ids)),
                **sample_columns(times.get((n, line))),
                **floor_columns(bound, machine),
                **copy_column(bound),
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
