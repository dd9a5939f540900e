"""Every backend on small cases against FP64, before anything is timed (paper section 13.5)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from cachemend.tasks.execution.backends import Operands, prepared
from cachemend.tasks.execution.oracle import Tolerance, absolute_causal
from cachemend.tasks.execution.supports import symmetric_intervals
from cachemend.tasks.execution.trying import OK, attempt


@dataclass(frozen=True, kw_only=True)
class Case:
    """Query heads, K/V heads and width; rows B in a number of intervals; keys N."""

    heads: tuple[int, int, int]
    rows: int
    length: int
    intervals: int


def check_backends(
    backends: Sequence[str], cases: Sequence[Case], dtypes: Sequence[torch.dtype], device: torch.device
) -> list[dict[str, Any]]:
    """One row per backend, case and precision: outcome, reason, and the largest share of the tolerance used."""
    rows = []
    for dtype in dtypes:
        for seed, case in enumerate(cases):
            operands = Operands.random(case.heads, case.rows, case.length, dtype, device, seed)
            positions = torch.from_numpy(symmetric_intervals(case.length, case.rows, case.intervals))
            truth = absolute_causal(*operands, positions)
            told = {**operands.heads(), "rows": case.rows, "length": case.length, "n_intervals": case.intervals}
            rows += [
                {
                    "attention": backend,
                    "dtype": str(dtype).removeprefix("torch."),
                    **told,
                    **check(backend, operands, positions, truth),
                }
                for backend in backends
            ]
    return rows


def check(backend: str, operands: Operands, positions: torch.Tensor, truth: torch.Tensor) -> dict[str, Any]:
    """Outcome, reason and share of the tolerance of one output."""
    made: list[torch.Tensor] = []
    tried = attempt(backend, lambda: made.append(prepared(backend, operands, positions)()))
    if tried != OK:
        return {**tried._asdict(), "tolerance_used": None}
    return verdict(Tolerance.of(operands.key.dtype).used(made[0], truth))


def verdict(used: float) -> dict[str, Any]:
    """Outcome and reason of outputs that used at most that share of their tolerance; infinite where they hold NaN."""
    error = None if used <= 1 else f"an output is off by {used:.3g} times the tolerance against FP64"
    outcome = "ok" if error is None else "case_error"
    return {"outcome": outcome, "error": error, "tolerance_used": used if used < float("inf") else None}
