"""Every backend on small cases against FP64, before anything is timed (paper section 13.5)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from cachemend.repair_core.architecture import Window
from cachemend.repair_core.executors.plan import AttentionPlan
from cachemend.repair_core.intervals import maximal_intervals
from cachemend.tasks.execution.backends import Operands, planned
from cachemend.tasks.execution.oracle import Tolerance, absolute_causal
from cachemend.tasks.execution.supports import symmetric_intervals
from cachemend.tasks.execution.trying import OK, attempt

_BEFORE, _BEHIND = 5, 2
"""Rows of the buffer around sliced keys and values."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """What every backend attends to once.

    Attributes:
        heads: query heads, K/V heads and their width.
        rows, length: B and N.
        intervals: R, runs symmetric about the middle; None for single rows over all of the context, the last one at
            its end, every further sequence one position to the left.
        batch: sequences.
        window: keys that a row sees back from its own position; None for all.
        sliced: keys and values are views of a larger buffer in which a head is not contiguous.
        spread: standard deviation of the values. Few visible keys do not average them, and the rounding of
            probabilities, which tolerances have to allow, grows with them.
    """

    heads: tuple[int, int, int]
    rows: int
    length: int
    intervals: int | None = None
    batch: int = 1
    window: int | None = None
    sliced: bool = False
    spread: float = 1.0

    def positions(self) -> torch.Tensor:
        """Int64 [batch, B]."""
        if self.intervals is not None:
            return torch.from_numpy(symmetric_intervals(self.length, self.rows, self.intervals)).expand(self.batch, -1)
        spread = self.length - 1 - (torch.arange(self.rows) * self.length // self.rows).flip(0)
        return spread - torch.arange(self.batch)[:, None]

    def operands(self, dtype: torch.dtype, device: torch.device, seed: int) -> Operands:
        """Random operands."""
        made = Operands.random(self.heads, self.rows, self.length, dtype, device, seed, self.batch)
        made = made._replace(value=made.value * self.spread)
        return made._replace(key=_sliced(made.key), value=_sliced(made.value)) if self.sliced else made

    def told(self) -> dict[str, Any]:
        """What it is, as columns."""
        query, kv, width = self.heads
        shape = {"query_heads": query, "kv_heads": kv, "head_dim": width, "rows": self.rows, "length": self.length}
        return {
            **shape,
            "n_intervals": len(maximal_intervals(self.positions()[0].numpy())),
            "batch": self.batch,
            "window": self.window,
            "sliced": self.sliced,
        }


def check_backends(
    backends: Sequence[str], cases: Sequence[Case], dtypes: Sequence[torch.dtype], device: torch.device
) -> list[dict[str, Any]]:
    """One row per backend, case and precision: outcome, reason, and the largest share of the tolerance used.

    A backend also writes fresh keys and values, which must leave the bits that `index_copy_` leaves.
    """
    rows = []
    for dtype in dtypes:
        for seed, case in enumerate(cases):
            operands, positions = case.operands(dtype, device, seed), case.positions()
            window = None if case.window is None else Window(case.window)
            truth = absolute_causal(*operands, positions, window)
            told = {"dtype": str(dtype).removeprefix("torch."), **case.told()}
            rows += [
                {"attention": backend, **told, **check(backend, operands, positions, window, truth)}
                for backend in backends
            ]
    return rows


def check(
    backend: str, operands: Operands, positions: torch.Tensor, window: Window | None, truth: torch.Tensor
) -> dict[str, Any]:
    """Outcome, reason and share of the tolerance of one output, and whether the fresh rows were written right."""
    outputs: list[torch.Tensor] = []
    written: list[bool] = []

    def run() -> None:
        plan = planned(backend, operands, positions, window)
        outputs.append(plan.attend(*operands, 0, operands.query.shape[-1] ** -0.5))
        written.append(writes_as_index_copy(plan, operands, positions))

    tried = attempt(backend, run)
    if tried != OK:
        return {**tried._asdict(), "tolerance_used": None}
    found = verdict(Tolerance.of(operands.key.dtype).used(outputs[0], truth))
    if found["error"] is None and not written[0]:
        error = "keys and values are not written as index_copy_ writes them"
        return {**found, "outcome": "case_error", "error": error}
    return found


def writes_as_index_copy(plan: AttentionPlan, operands: Operands, positions: torch.Tensor) -> bool:
    """Whether `plan.write_both` leaves the same bits in copies of keys and values, with their strides."""
    like = _sliced if not operands.key.is_contiguous() else torch.clone
    given = (operands.key, operands.value)
    generator = torch.Generator().manual_seed(1)
    shape = (*operands.key.shape[:2], positions.shape[1], operands.key.shape[3])
    fresh = [torch.randn(shape, generator=generator).to(operands.key) for _ in given]
    # The model's projections come in this order, one head beside the other.
    strided = [_heads_inside(rows) for rows in fresh]
    found, wanted = [like(t) for t in given], [t.clone() for t in given]
    plan.write_both(*found, *strided)
    for target, rows in zip(wanted, fresh, strict=True):
        for sequence, where in enumerate(positions.to(target.device)):
            target[sequence].index_copy_(1, where, rows[sequence])
    return all(torch.equal(a, b) for a, b in zip(found, wanted, strict=True))


def verdict(used: float) -> dict[str, Any]:
    """Outcome and reason of outputs that used at most that share of their tolerance; infinite where they hold NaN."""
    error = None if used <= 1 else f"an output is off by {used:.3g} times the tolerance against FP64"
    outcome = "ok" if error is None else "case_error"
    return {"outcome": outcome, "error": error, "tolerance_used": used if used < float("inf") else None}


def _sliced(given: torch.Tensor) -> torch.Tensor:
    """The same [batch, heads, N, d] as a view: rows amid others, the heads of a row beside each other."""
    batch, heads, length, width = given.shape
    buffer = given.new_full((batch, _BEFORE + length + _BEHIND, heads, width), 7.0)
    view = buffer.transpose(1, 2)[:, :, _BEFORE : _BEFORE + length]
    return view.copy_(given)


def _heads_inside(given: torch.Tensor) -> torch.Tensor:
    return given.transpose(1, 2).contiguous().transpose(1, 2)
