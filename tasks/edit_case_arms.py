"""The arms of one edited item: stale and clean cache, signals and refreshed rows are made once and shared."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from transformers.cache_utils import Cache

from cachemend.datasets.edit_case import EditCase
from cachemend.repair_core import Answer, LoadedModel, prefill, refresh
from cachemend.repair_core.caches import Rows, clone_rows, plain_cache, read_rows
from cachemend.repair_core.context import StaleContext
from cachemend.repair_core.deltas import Delta, apply_delta, delta_of, restore
from cachemend.repair_core.intervals import Interval, Positions, causal_pairs, maximal_intervals, token_layers
from cachemend.repair_core.invariants import caches_equal, changed_rows
from cachemend.repair_core.policies import Choice, Truth
from cachemend.repair_core.timing import timed
from cachemend.repair_core.transplant import transplant
from cachemend.tasks.answer_arms import Built, ask_caches
from cachemend.tasks.edit_arms import EditArm, own_length
from cachemend.tasks.edit_choosing import Chooser

TIMED_STAGES = (
    "t_signal: attention, states, scores and causal effects, once per item, charged to every arm that uses them",
    "t_choose: choice of positions from the scores",
    "t_refresh: recomputation of span and positions in place, once per distinct set; the whole prefill for clean",
)
_NONE: Positions = np.empty(0, dtype=np.int64)


class ReplayMismatch(RuntimeError):
    """A policy chose other positions than in the run that is replayed."""


def margin(said: Answer) -> float:
    """m: mean log-probability of the new answer minus that of the old one, nats per token."""
    new, old = said.logprobs
    return new - old


@dataclass(kw_only=True)
class EditCaseArms:
    """State shared by the arms of one item.

    Attributes:
        loaded, case, executor, attention: what runs, on what, how.
        context: stale cache and signals, each computed on first use; it knows neither clean cache nor answers.
        scratch: the stale rows; every arm refreshes them in place and puts them back.
        timings: seconds of the clean prefill.
    """

    loaded: LoadedModel
    case: EditCase
    executor: str
    attention: str
    context: StaleContext = field(init=False)
    scratch: list[Rows] = field(init=False)
    timings: dict[str, float] = field(default_factory=dict)
    _refreshed: dict[tuple[str, bytes], tuple[Delta, dict[str, Any]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        case = self.case
        vocabulary = self.loaded.model.get_input_embeddings().weight.shape[0]  # type: ignore[operator]
        largest = max(*case.original_ids, *case.edited_ids, *case.query_ids, *case.old_ids, *case.new_ids)
        if largest >= vocabulary:
            raise ValueError(f"case {case.case_id} holds token id {largest}; the model knows {vocabulary} tokens")
        self.context = StaleContext(
            self.loaded.model,
            self.loaded.tokenizer,
            case.replacement,
            case.query_text,
            case_id=case.case_id,
            query_ids=case.relevance_ids,
        )
        self.scratch = clone_rows(self.base)

    @cached_property
    def base(self) -> list[Rows]:
        """The rows of the context before the edit, which every arm starts from."""
        return read_rows(self.context.dirty)

    @cached_property
    def clean(self) -> Cache:
        """The cache of a prefill of the edited context."""
        with timed(self.timings, "clean", self.loaded.model):
            return prefill(self.loaded.model, self.case.edited_ids)

    @cached_property
    def chooser(self) -> Chooser:
        """What chooses positions, deployable rules and diagnostics."""
        case = self.case
        truth = Truth(
            clean=self.clean,
            query_ids=case.query_ids,
            old_ids=case.old_ids,
            new_ids=case.new_ids,
            carrier=Interval(*case.carrier),
        )
        return Chooser(context=self.context, truth=truth, block_stop=case.block_stop)

    @property
    def span(self) -> Positions:
        """The positions of the edit, which every repair recomputes."""
        return np.arange(*self.case.span, dtype=np.int64)

    def ask(self, caches: Sequence[Cache | Delta], max_new_tokens: int) -> list[Answer]:
        """What each cache says, with the log-probabilities of the new and of the old answer."""
        case = self.case
        continuations = (case.new_ids, case.old_ids)
        return ask_caches(self.loaded.model, self.base, caches, case.query_ids, max_new_tokens, continuations)

    def forget(self) -> None:
        """Drop the rows of refreshed arms; an arm that chooses the same positions later is refreshed again."""
        self._refreshed.clear()

    def build(self, arm: EditArm) -> Built:
        """Choose and refresh, or make the reference's cache."""
        if arm.policy == "stale":
            return Built(arm.name, self.context.dirty, self._work(_NONE, _NONE))
        if arm.policy == "clean":
            clean, whole = self.clean, np.arange(len(self.case.edited_ids), dtype=np.int64)
            return Built(arm.name, clean, self._work(whole, _NONE) | {"t_refresh": self.timings["clean"]})
        if arm.policy == "span":
            return self._repaired(arm, _NONE, {})
        choice, told = self.chooser.choose(arm.policy, arm.k)
        if arm.recorded is not None and tuple(choice.positions.tolist()) != arm.recorded:
            raise ReplayMismatch(f"replayed positions of {arm.name} differ from the recorded ones")
        return self._repaired(arm, choice.positions, told | self._exact(arm, choice))

    def _repaired(self, arm: EditArm, positions: Positions, told: dict[str, Any]) -> Built:
        repair = self._transplanted if arm.operator == "transplant" else self._recomputed
        key = (arm.operator, positions.tobytes())
        if key not in self._refreshed:
            self._refreshed[key] = repair(positions)
        delta, measured = self._refreshed[key]
        row = self._work(np.union1d(self.span, positions), positions) | told | measured
        # Two conditions under one name: what was refreshed, and that the rule chose what it should.
        row["positions_exact"] = measured["positions_exact"] and told.get("positions_exact", True)
        return Built("/".join((arm.operator, positions.tobytes().hex())), delta, row)

    def _recomputed(self, positions: Positions) -> tuple[Delta, dict[str, Any]]:
        """Span and positions recomputed on the stale rows, their time and the invariants."""
        where = np.union1d(self.span, positions)
        measured: dict[str, Any] = {}
        model = self.loaded.model
        try:
            with timed(measured, "t_refresh", model):
                cache = plain_cache(self.scratch)
                refresh(model, cache, self.case.edited_ids, where, self.executor, self.attention, in_place=True)
            return self._taken(where, measured)
        finally:
            self._put_back(where, measured)

    def _transplanted(self, positions: Positions) -> tuple[Delta, dict[str, Any]]:
        """The span recomputed on the stale rows, and the rows at `positions` taken from the clean cache."""
        where = np.union1d(self.span, positions)
        measured: dict[str, Any] = {}
        model = self.loaded.model
        try:
            cache = plain_cache(self.scratch)
            refresh(model, cache, self.case.edited_ids, self.span, self.executor, self.attention, in_place=True)
            apply_delta(self.scratch, transplant(read_rows(self.clean), positions), 0)
            return self._taken(where, measured)
        finally:
            self._put_back(where, measured)

    def _taken(self, where: Positions, measured: dict[str, Any]) -> tuple[Delta, dict[str, Any]]:
        changed = changed_rows(self.base, self.scratch)
        measured |= {
            "positions_exact": bool(len(np.unique(where)) == len(where) and where[-1] < len(self.case.edited_ids)),
            "unselected_bit_identical": bool(np.isin(changed, where).all()),
            "upstream_bit_identical": bool((changed >= self.case.span[0]).all()),
        }
        return delta_of(self.scratch, where), measured

    def _put_back(self, where: Positions, measured: dict[str, Any]) -> None:
        restore(self.scratch, self.base, where)
        # The next arm starts from these bits; a row that was not put back would be charged to it.
        measured["input_unchanged"] = caches_equal(self.base, self.scratch)
        if not measured["input_unchanged"]:
            self.scratch = clone_rows(self.base)

    def _exact(self, arm: EditArm, choice: Choice) -> dict[str, Any]:
        inside = bool(np.isin(choice.positions, self.context.pool).all())
        distinct = len(np.unique(choice.positions)) == len(choice.positions)
        wanted = len(choice.positions) if own_length(arm.policy) else arm.k
        return {"positions_exact": inside and distinct and len(choice.positions) == wanted}

    def _work(self, recomputed: Positions, chosen: Positions) -> dict[str, Any]:
        """Counts of what was recomputed, span included, and the positions chosen besides it."""
        runs = maximal_intervals(chosen)
        return {
            "pool_size": len(self.context.pool),
            "positions": chosen.tolist(),
            "intervals": [{"start": run.start, "stop": run.stop} for run in runs],
            "n_positions": len(chosen),
            "n_intervals": len(runs),
            "token_layers": token_layers(recomputed, len(self.base)),
            "causal_pairs": causal_pairs(recomputed),
        }
