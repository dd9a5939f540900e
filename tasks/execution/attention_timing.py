"""Attention of packed rows alone, on resident operands (paper section 13.3, Table 19)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import torch

from cachemend.repair_core.intervals import causal_pairs
from cachemend.tasks.bench.floor import calibrate
from cachemend.tasks.bench.sampling import Sample, interleaved
from cachemend.tasks.execution.backends import Attend, Operands, prepared
from cachemend.tasks.execution.correctness import verdict
from cachemend.tasks.execution.floors import attention_bound, floor_columns
from cachemend.tasks.execution.lines import OWN_EXECUTOR, how
from cachemend.tasks.execution.oracle import Tolerance, absolute_causal
from cachemend.tasks.execution.protocol import Protocol, sample_columns
from cachemend.tasks.execution.supports import matched_supports
from cachemend.tasks.execution.trying import OK, Attempt, attempt

TIMED_STAGES = (
    "attention: the call from Python, allocation of the output and its conversion to contiguous [rows, heads, width]; "
    "device synchronised at the end",
    "not in it: plan and mask with their upload, compilation, copies of the cache, projections, write of rows",
    "floor: FLOPs of the causal pairs over peak or bytes of Q, K, V and output over bandwidth, the larger; operands "
    "that a cache holds can be read faster",
)
_Key = tuple[int, str]


@dataclass(frozen=True, kw_only=True)
class AttentionSetup:
    """What attends at a length, all in one go.

    Attributes:
        intervals: numbers of intervals R.
        lines: the controls and backends.
        protocol: how often each is timed.
    """

    intervals: tuple[int, ...]
    lines: tuple[str, ...]
    protocol: Protocol

    @property
    def name(self) -> str:
        return f"attention of {'/'.join(map(str, self.intervals))} intervals"

    def cells(self) -> list[dict[str, Any]]:
        """The key columns of every row, in order."""
        told = {"executor": OWN_EXECUTOR, **self.protocol.columns()}
        return [{"n_intervals": n, "attention": line, **told} for n in self.intervals for line in self.lines]


class Checked(NamedTuple):
    """Samples, and the largest share of the tolerance that any output of a line used, timed or not."""

    samples: dict[_Key, Sample]
    used: dict[_Key, float]


def time_attention(operands: Operands, setup: AttentionSetup) -> list[dict[str, Any]]:
    """Time every line at every number of intervals in turn and check every output; one row each.

    A line that cannot run here, or gives a wrong output, has a row that says so.

    Raises:
        InputError: supports that do not fit the length.
    """
    dtype, device = operands.key.dtype, operands.key.device
    supports = matched_supports(operands.key.shape[2], operands.query.shape[2], setup.intervals)
    functions: dict[_Key, Attend] = {}
    attempts: dict[_Key, Attempt] = {}

    def prepare(key: _Key) -> None:
        functions[key] = partial(_synchronised, prepared(key[1], operands, torch.from_numpy(supports[key[0]])), device)
        functions[key]()

    for key in [(n, line) for n in supports for line in setup.lines]:
        attempts[key] = attempt(key[1], partial(prepare, key))
    truths = {n: absolute_causal(*operands, torch.from_numpy(support)) for n, support in supports.items()}
    able = {key: function for key, function in functions.items() if attempts[key] == OK}
    machine = calibrate(dtype=dtype, device=device)
    found = checked_samples(able, setup.protocol, {key: truths[key[0]] for key in able}, Tolerance.of(dtype))
    rows = []
    for cell, ((n, line), tried) in zip(setup.cells(), attempts.items(), strict=True):
        bound = attention_bound(operands.query, operands.key, supports[n], machine)
        rows.append(
            {
                **cell,
                **operands.heads(),
                "how": how(line, device, dtype),
                "causal_pairs": causal_pairs(supports[n]),
                **sample_columns(found.samples.get((n, line))),
                **floor_columns(bound, machine),
                **(verdict(found.used[n, line]) if tried == OK else {**tried._asdict(), "tolerance_used": None}),
            }
        )
    return rows


def checked_samples(
    functions: Mapping[_Key, Attend], protocol: Protocol, truths: Mapping[_Key, torch.Tensor], tolerance: Tolerance
) -> Checked:
    """Time functions in turn, and compare every single output with its truth while no clock runs."""
    used = dict.fromkeys(functions, 0.0)

    def inspect(key: _Key, output: torch.Tensor, _: float | None) -> None:
        used[key] = max(used[key], tolerance.used(output, truths[key]))

    return Checked(interleaved(functions, protocol.repeats, protocol.warmups, inspect=inspect), used)


def _synchronised(function: Callable[[], torch.Tensor], device: torch.device) -> torch.Tensor:
    output = function()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return output
