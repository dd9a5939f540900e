"""Executors against each other on one support, and against FP32 arithmetic (paper section 13.5)."""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch

from cachemend.datasets.niah_case import NiahCase
from cachemend.repair_core import LoadedModel, RepairContext, allocate, refresh, repair_budget
from cachemend.repair_core.batches import JoinedBatch
from cachemend.repair_core.caches import Rows, clone_rows, plain_cache, read_rows
from cachemend.repair_core.intervals import Positions, maximal_intervals
from cachemend.repair_core.invariants import caches_equal, changed_rows
from cachemend.repair_core.numeric_errors import NumericError, check_budget, numeric_error, row_errors
from cachemend.repair_core.prefilling import as_batch
from cachemend.repair_core.promoting import full_fp32, is_low_precision, promoted, promoted_rows
from cachemend.tasks.failures import outcome_of
from cachemend.tasks.numerics.arms import NATIVE, PathArm
from cachemend.tasks.numerics.building import fresh_context
from cachemend.tasks.numerics.finishing import finished
from cachemend.tasks.work import Measured

REFERENCE = "interval"
_LOGITS = "query logits"


class _Refreshed(NamedTuple):
    """A refreshed cache and what the query says after it, FP32 [query tokens, vocabulary]."""

    rows: list[Rows]
    logits: torch.Tensor

    def errors(self, truth: "_Refreshed", positions: Positions) -> dict[str, NumericError]:
        """The differences of the recomputed rows per layer and of the query's logits."""
        return row_errors(self.rows, truth.rows, positions) | {_LOGITS: numeric_error(self.logits, truth.logits)}


def probe_case(loaded: LoadedModel, case: NiahCase, arms: Sequence[PathArm], attention: str) -> list[Measured]:
    """Refresh the same positions by every arm's executor and compare; one measurement per arm, failures included."""
    probes = _Probes(loaded=loaded, case=case, attention=attention)
    rows = []
    for arm in arms:
        try:
            row = probes.row(arm)
        except Exception as error:  # noqa: BLE001  (one arm's failure is that arm's record)
            outcome, reason = outcome_of(error)
            row = {"outcome": outcome, "error": reason}
        rows.append(Measured(arm, row))
    return rows


@dataclass(kw_only=True)
class _Probes:
    """One case: the shifted cache, and every refresh of it, done once."""

    loaded: LoadedModel
    case: NiahCase
    attention: str
    context: RepairContext = field(init=False)
    _done: dict[tuple[float, str, bool], _Refreshed] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.context = fresh_context(self.loaded, self.case)

    def row(self, arm: PathArm) -> dict[str, Any]:
        """The measurement of an arm."""
        edit, base = self.case.deletion, read_rows(self.context.shifted)
        budget = arm.budget if arm.budget is not None else 0.0
        before = clone_rows(base)
        positions = allocate(arm.path, self.context, budget)
        mine = self._refreshed(arm.executor, budget, positions)
        row: dict[str, Any] = {
            "n_positions": len(positions),
            "n_intervals": len(maximal_intervals(positions)),
            "input_unchanged": caches_equal(before, base),
            "unselected_bit_identical": set(changed_rows(base, mine.rows)) <= set(positions.tolist()),
            "positions_exact": len(positions) == repair_budget(edit.suffix_length, budget),
            "outcome": "ok",
        }
        if arm.executor != REFERENCE:
            row |= _against_reference(mine, self._refreshed(REFERENCE, budget, positions), positions)
        if is_low_precision(self.loaded.model):
            truth = self._refreshed(REFERENCE, budget, positions, in_fp32=True)
            native = self._refreshed(NATIVE, budget, positions).errors(truth, positions)
            row |= _against_fp32(mine.errors(truth, positions), native)
        broken = [n for n in ("input_unchanged", "positions_exact", "unselected_bit_identical") if not row[n]]
        return finished(row, f"broken invariant: {', '.join(broken)}" if broken else None)

    def _refreshed(self, executor: str, budget: float, positions: Positions, in_fp32: bool = False) -> _Refreshed:
        key = (budget, executor, in_fp32)
        if key not in self._done:
            with full_fp32() if in_fp32 else nullcontext():
                model = promoted(self.loaded.model) if in_fp32 else self.loaded.model
                base = read_rows(self.context.shifted)
                start = plain_cache(promoted_rows(base) if in_fp32 else base)
                rows = read_rows(
                    refresh(model, start, self.case.deletion.edited_ids, positions, executor, self.attention)
                )
                ids = as_batch(model, self.case.query_ids, rows[0].keys.device)
                logits = JoinedBatch(model, [rows], ids.shape[1]).forward(ids, rows[0].keys.shape[-2])
            if not all(tensor.isfinite().all() for tensor in (logits, *(part for layer in rows for part in layer))):
                arithmetic = " in FP32" if in_fp32 else ""
                raise FloatingPointError(
                    f"{executor} refresh{arithmetic}: its rows or the query's logits are not finite"
                )
            self._done[key] = _Refreshed(rows, logits[0])
        return self._done[key]


def _against_reference(mine: _Refreshed, reference: _Refreshed, positions: Positions) -> dict[str, Any]:
    errors = mine.errors(reference, positions)
    logits = errors.pop(_LOGITS)
    same = mine.logits.argmax(-1) == reference.logits.argmax(-1)
    worst = max(errors, key=lambda name: errors[name].relative)
    return {
        "argmax_agreement": float(same.double().mean()),
        "first_argmax_same": bool(same[-1]),
        "logits_relative_l2": logits.relative,
        "logits_max_abs": logits.maximum,
        "kv_relative_l2": errors[worst].relative,
        "kv_relative_l2_where": worst,
        "kv_max_abs": max(error.maximum for error in errors.values()),
    }


def _against_fp32(errors: dict[str, NumericError], native: dict[str, NumericError]) -> dict[str, Any]:
    check = check_budget(errors, native)
    return {
        "fp32_logits_relative_l2": errors[_LOGITS].relative,
        "fp32_kv_relative_l2": max(error.relative for name, error in errors.items() if name != _LOGITS),
        "budget_n": check.n,
        "budget_n_over": check.n_over,
        "budget_largest_ratio": check.largest_ratio,
        "budget_where": check.where,
    }
