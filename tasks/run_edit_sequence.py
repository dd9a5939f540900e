"""Several edits of one context: repaired at once, or one after another on a cache that is already repaired."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from transformers.cache_utils import Cache

from cachemend.calibration.recovery import margin_recovery
from cachemend.datasets.edit_score import flips
from cachemend.datasets.edit_sequence_case import EditSequenceCase, Probe
from cachemend.repair_core import Answer, LoadedModel, Tokens, answer, prefill, refresh, repair, shift
from cachemend.repair_core.caches import RepairedCache
from cachemend.repair_core.context import StaleContext
from cachemend.repair_core.diagnostics import total_variation
from cachemend.repair_core.edits import Edit
from cachemend.repair_core.intervals import Positions
from cachemend.repair_core.policies import choose
from cachemend.repair_core.replacement import Replacement
from cachemend.tasks.edit_case_arms import margin
from cachemend.tasks.edit_sequence_arms import AT_ONCE, SequenceArm
from cachemend.tasks.ending import answer_text
from cachemend.tasks.failures import outcome_of
from cachemend.tasks.work import Measured

TIMED_STAGES: tuple[str, ...] = ()


class Asked(NamedTuple):
    """Edits made so far (from 1), and the edit a probe asks about (from 0)."""

    step: int
    probe: int


def cells_of(case: EditSequenceCase, arm: SequenceArm) -> tuple[Asked, ...]:
    """The rows of an arm: every probe after all edits, or after each edit those of the edits made so far."""
    n = len(case.changes)
    if arm.mode == AT_ONCE:
        return tuple(Asked(n, probe) for probe in range(n))
    return tuple(Asked(step, probe) for step in range(1, n + 1) for probe in range(step))


def run_edit_sequence(
    loaded: LoadedModel,
    case: EditSequenceCase,
    arms: Sequence[SequenceArm],
    *,
    executor: str = "packed",
    attention: str = "sdpa",
    max_new_tokens: int = 16,
) -> list[Measured]:
    """Return the rows of every arm; a failure becomes the rows of the arm that failed, from the step where it did."""
    run = _Sequence(loaded, case, executor, attention, max_new_tokens)
    rows: list[Measured] = []
    for arm in arms:
        done: list[Measured] = []
        try:
            done.extend(Measured(arm, row) for row in run.rows(arm))
        except Exception as error:  # noqa: BLE001  (one arm's failure is that arm's records)
            left = cells_of(case, arm)[len(done) :]
            done += failed_rows(case, arm, *outcome_of(error), cells=left)
        rows += done
    return rows


def failed_rows(
    case: EditSequenceCase, arm: SequenceArm, outcome: str, error: str, cells: Sequence[Asked] | None = None
) -> list[Measured]:
    """The rows of an arm that gave no answers, or not those of `cells`."""
    return [
        Measured(arm, {**_asked(case, cell), "outcome": outcome, "error": error})
        for cell in (cells_of(case, arm) if cells is None else cells)
    ]


def _asked(case: EditSequenceCase, cell: Asked) -> dict[str, Any]:
    probe = case.probes[cell.probe]
    return {
        "n_edits": len(case.changes),
        "step": cell.step,
        "probe": cell.probe,
        "old_answer": probe.old_answer,
        "new_answer": probe.new_answer,
    }


class _Reached(NamedTuple):
    """A repaired cache after some edits, the rows refreshed so far, and whether the last edit forced a re-prefill."""

    step: int
    cache: RepairedCache
    refreshed: int
    re_prefilled: bool


@dataclass
class _Sequence:
    """What the arms of one case share: the stale and the clean caches, and what they say."""

    loaded: LoadedModel
    case: EditSequenceCase
    executor: str
    attention: str
    max_new_tokens: int

    def __post_init__(self) -> None:
        self._stale: Cache | None = None
        self._said: dict[tuple[int, int], Answer] = {}

    @property
    def stale(self) -> Cache:
        """The cache of the context before any edit."""
        if self._stale is None:
            self._stale = prefill(self.loaded.model, self.case.original_ids)
        return self._stale

    def rows(self, arm: SequenceArm) -> Iterator[dict[str, Any]]:
        reached = self._at_once(arm) if arm.mode == AT_ONCE else self._one_after_another(arm)
        for state in reached:
            self._know_clean(state.step)
            for cell in cells_of(self.case, arm):
                if cell.step == state.step:
                    yield self._row(cell, state)

    def _at_once(self, arm: SequenceArm) -> Iterator[_Reached]:
        """All edits in one repair; each chooses its positions as if the others had been made before."""
        model, case = self.loaded.model, self.case
        shifted = shift(model, self.stale, case.edits)
        where = [case.edits.inserted_positions, *(self._chosen(arm, number) for number in range(len(case.changes)))]
        positions = np.unique(np.concatenate(where))
        cache = refresh(model, shifted, case.edited_ids, positions, self.executor, self.attention, in_place=True)
        yield _Reached(len(case.changes), cache, len(positions), re_prefilled=False)

    def _chosen(self, arm: SequenceArm, number: int) -> Positions:
        if arm.policy == "span":
            return np.empty(0, dtype=np.int64)
        case, probe = self.case, self.case.probes[number]
        start, stop, new = case.changes[number]
        before = (*case.edited_ids[:start], *case.original_ids[start:stop], *case.edited_ids[stop:])
        edit = Replacement(original_ids=before, start=start, stop=stop, replacement_ids=new)
        context = StaleContext(
            self.loaded.model,
            self.loaded.tokenizer,
            edit,
            probe.query_text,
            dirty=self.stale,
            case_id=f"{case.case_id}/{number}",
            query_ids=probe.relevance_ids,
        )
        return choose(arm.policy, context, arm.k).positions

    def _one_after_another(self, arm: SequenceArm) -> Iterator[_Reached]:
        cache: Cache = self.stale
        refreshed = 0
        for number, edit in enumerate(self.case.replacements):
            done = repair(
                self.loaded.model,
                self.loaded.tokenizer,
                edit,
                self.case.probes[number].query_text,
                # K = 0 of any policy is the span alone.
                Tokens(arm.k or 0),
                cache=cache,
                policy="edit-local" if arm.policy == "span" else arm.policy,
                staleness_limit=arm.staleness_limit,
                executor=self.executor,
                attention=self.attention,
                case_id=f"{self.case.case_id}/{number}",
            )
            cache = done.cache
            refreshed += len(done.positions) + len(done.inserted)
            yield _Reached(number + 1, done.cache, refreshed, done.decision.startswith("re-prefill"))

    def _know_clean(self, step: int) -> None:
        """Ask a clean prefill of the context after `step` edits, and the stale cache, every probe of those edits."""
        probes = range(step)
        if all((step, probe) in self._said for probe in probes):
            return
        clean = prefill(self.loaded.model, self._ids(step))
        for probe in probes:
            self._said[step, probe] = self._ask(clean, self.case.probes[probe], self.max_new_tokens)
            if (0, probe) not in self._said:
                self._said[0, probe] = self._ask(self.stale, self.case.probes[probe], 0)

    def _ids(self, step: int) -> tuple[int, ...]:
        edit: Edit = self.case.replacements[step - 1]
        return edit.edited_ids

    def _ask(self, cache: Cache, probe: Probe, max_new_tokens: int) -> Answer:
        said = (probe.new_ids, probe.old_ids)
        return answer(self.loaded.model, cache, probe.query_ids, max_new_tokens, continuations=said)

    def _row(self, cell: Asked, state: _Reached) -> dict[str, Any]:
        probe = self.case.probes[cell.probe]
        said = self._ask(state.cache, probe, self.max_new_tokens)
        stale, clean = self._said[0, cell.probe], self._said[cell.step, cell.probe]
        share = float(margin_recovery(margin(said), margin(stale), margin(clean)))
        text, counts = answer_text(self.loaded, said.ids), state.cache.counts()
        return {
            **_asked(self.case, cell),
            "answer": text,
            "margin": margin(said),
            "margin_stale": margin(stale),
            "margin_clean": margin(clean),
            "margin_recovery": share if np.isfinite(share) else None,
            "flip": flips(text, probe.new_answer, probe.old_answer),
            "tv_to_clean": total_variation(said.first, clean.first),
            "worst_staleness": state.cache.worst_staleness(),
            "n_stale_rows": counts["stale"],
            "n_refreshed_rows": state.refreshed,
            "re_prefilled": state.re_prefilled,
            "outcome": "ok",
        }
