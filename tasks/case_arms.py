"""The arms of one case: what they share is computed once, and each leaves only the rows it changed."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from transformers.cache_utils import Cache

from cachemend.datasets.niah_case import NiahCase
from cachemend.repair_core import Arm, LoadedModel, RepairContext, refresh, replay
from cachemend.repair_core.caches import Rows, clone_rows, plain_cache, read_rows
from cachemend.repair_core.deltas import Delta, delta_of, restore
from cachemend.repair_core.intervals import Positions, causal_pairs, maximal_intervals, token_layers
from cachemend.repair_core.invariants import caches_equal, changed_rows
from cachemend.repair_core.repairing import signal_seconds
from cachemend.repair_core.timing import timed
from cachemend.repair_core.variants import spend
from cachemend.tasks.answer_arms import Built

TIMED_STAGES = (
    "t_prefill: prefill of p + e + s (dirty) or of p + s (re-prefill)",
    "t_signal: units, scores, attention and states, once per case, charged to every arm that uses them",
    "t_allocate: choice of positions from the scores",
    "t_shift: cut and rotation of the suffix, once per case",
    "t_refresh: recomputation in place, once per distinct support; the suffix forward and prefix copy for replay",
    "t_query, t_decode: only where an arm is answered alone",
)


@dataclass(kw_only=True)
class CaseArms:
    """State shared by the arms of one case.

    Attributes:
        loaded, case, executor, attention: what runs, on what, how.
        auxiliary: the model SpecCache scores with; None for the model itself.
        context: caches, units and scores, each computed on first use.
        scratch: the shifted rows; every sparse arm refreshes them in place and puts them back.
    """

    loaded: LoadedModel
    case: NiahCase
    executor: str
    attention: str
    auxiliary: LoadedModel | None = None
    context: RepairContext = field(init=False)
    scratch: list[Rows] = field(init=False)
    _refreshed: dict[bytes, tuple[Delta, dict[str, Any]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        case = self.case
        vocabulary = self.loaded.model.get_input_embeddings().weight.shape[0]  # type: ignore[operator]
        largest = max(max(case.deletion.original_ids), max(case.query_ids))
        if largest >= vocabulary:
            raise ValueError(f"case {case.case_id} holds token id {largest}; the model knows {vocabulary} tokens")
        self.context = RepairContext(
            self.loaded.model,
            self.loaded.tokenizer,
            case.deletion,
            case.query_text,
            case_id=case.case_id,
            query_ids=case.relevance_ids,
            auxiliary=self.auxiliary,
        )
        self.scratch = clone_rows(self.base)

    @property
    def base(self) -> list[Rows]:
        """The shifted rows every sparse arm starts from."""
        return read_rows(self.context.shifted)

    def forget(self) -> None:
        """Drop the rows of refreshed arms; an arm that chooses the same positions later is refreshed again."""
        self._refreshed.clear()

    def build(self, arm: Arm) -> Built:
        """Choose and refresh, or make the reference's cache."""
        if arm.budget is None:
            return self._reference(arm)
        context = self.context
        timings: dict[str, float] = {}
        before = signal_seconds(context, arm.allocator)
        with timed(timings, "allocate", context.model):
            positions, allowance = spend(arm.allocator, context, arm.budget)
        signal = signal_seconds(context, arm.allocator)
        # The first arm to need a signal computes it inside `allocate`.
        return self.sparse(positions, allowance, signal, max(0.0, timings["allocate"] - (signal - before)))

    def sparse(self, positions: Positions, allowance: int, signal: float, allocate: float) -> Built:
        """The rows refreshed at `positions`, of which there should be `allowance`, and what choosing them took."""
        cache, measured = self.refreshed(positions)
        row = self._work(positions) | {
            "positions_budget": allowance,
            "t_signal": signal,
            "t_allocate": allocate,
            "t_shift": self.context.timings["shift"],
            **measured,
        }
        row["positions_exact"] = row["positions_exact"] and len(positions) == row["positions_budget"]
        return Built(positions.tobytes(), cache, row)

    def refreshed(self, positions: Positions) -> tuple[Delta, dict[str, Any]]:
        """The rows refreshed at `positions`, their time and the invariants."""
        key = positions.tobytes()
        if key not in self._refreshed:
            measured: dict[str, Any] = {}
            ids, model = self.case.deletion.edited_ids, self.context.model
            cache = plain_cache(self.scratch)
            try:
                with timed(measured, "t_refresh", model):
                    refresh(model, cache, ids, positions, self.executor, self.attention, in_place=True)
                delta = delta_of(self.scratch, positions)
                measured |= self._invariants(positions)
            finally:
                restore(self.scratch, self.base, positions)
            # The next arm starts from these bits; a row that was not put back would be charged to it.
            measured["input_unchanged"] = caches_equal(self.base, self.scratch)
            if not measured["input_unchanged"]:
                self.scratch = clone_rows(self.base)
            self._refreshed[key] = delta, measured
        return self._refreshed[key]

    def _invariants(self, positions: Positions) -> dict[str, bool]:
        edit = self.case.deletion
        inside = bool(((positions >= edit.prefix_length) & (positions < len(edit.edited_ids))).all())
        distinct = len(np.unique(positions)) == len(positions)
        return {
            "positions_exact": inside and distinct,
            "unselected_bit_identical": bool(np.isin(changed_rows(self.base, self.scratch), positions).all()),
        }

    def _reference(self, arm: Arm) -> Built:
        context, edit = self.context, self.case.deletion
        timings: dict[str, float] = {}
        recomputed: Positions = np.empty(0, dtype=np.int64)
        if arm.allocator == "dirty":
            row = self._work(recomputed) | {"t_prefill": context.timings["prefill"]}
            return Built(arm.name, context.dirty, row)
        if arm.allocator == "shift":
            row = self._work(recomputed) | {"positions_budget": 0, "t_shift": context.timings["shift"]}
            return Built(arm.name, delta_of(self.base, recomputed), row)
        if arm.allocator == "replay":
            with timed(timings, "t_refresh", context.model):
                cache: Cache = replay(context.model, context.dirty, edit)
            # Its prefix rows are copies of the shifted cache's.
            recomputed = edit.suffix_positions
        else:
            cache = context.clean
            timings["t_prefill"] = context.timings["clean-cache"]
            recomputed = np.arange(len(edit.edited_ids))
        row = self._work(recomputed) | timings | {"positions": [], "intervals": [], "n_intervals": 0}
        return Built(arm.name, delta_of(read_rows(cache), recomputed), row)

    def _work(self, positions: Positions) -> dict[str, Any]:
        runs = maximal_intervals(positions)
        return {
            "positions": positions.tolist(),
            "intervals": [{"start": run.start, "stop": run.stop} for run in runs],
            "n_intervals": len(runs),
            "token_layers": token_layers(positions, len(self.base)),
            "causal_pairs": causal_pairs(positions),
        }
