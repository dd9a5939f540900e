"""The opening of a group: what was measured and what came out, in sentences made from the rows alone."""

from collections.abc import Sequence
from typing import NamedTuple

from cachemend.warehouse.report.formats import day, p_clause, percent, plural, signed
from cachemend.warehouse.report.labels import SUBJECT, ArmKey, allocator_label, budget_label, budget_list
from cachemend.warehouse.report.paired import compare
from cachemend.warehouse.report.rows import Identity, Row
from cachemend.warehouse.report.strata import PREFERRED_BUDGET, Stratum
from cachemend.warehouse.report.summaries import ArmSummary
from cachemend.warehouse.report.sweep import Cell, cell_of

CONTRAST = "dense-tokens"
"""The allocator with SUR's own scores but no units: what grouping alone changes."""

_TASKS = {
    "erasing-niah": (
        "A long context holds two facts under one key; after the context was cached, one fact is deleted, and "
        "the model is asked for what remains."
    )
}
_NOTES = {
    "re-prefill": "clean cache, everything recomputed",
    "shift": "positions corrected, nothing recomputed",
    SUBJECT: "whole units by relevance",
    CONTRAST: "same scores, single tokens",
}
_NO_REPAIR = "Not a repair: the rows that this executor recomputes see tokens after their own."
_SHIFT = "Shift, which corrects positions and recomputes nothing,"


class Tile(NamedTuple):
    """A key number: an arm's exact match, or that it was not run (`summary` None)."""

    label: str
    note: str
    summary: ArmSummary | None


def statement(identity: Identity, cohort: str | None, strata: Sequence[Stratum]) -> str:
    """Return what was measured, in plain words."""
    task = _TASKS.get(identity.experiment, f"Experiment {identity.experiment}.")
    rows = [row for stratum in strata for row in stratum.rows]
    named = f"cohort “{cohort}”" if cohort else f"the cohort {identity.cohort_digest[:12]}"
    counted = " and ".join(stratum.counted for stratum in strata)
    return (
        f"{task} {identity.model} in {identity.dtype} answered {counted} of {named} under {_arms(strata)}. "
        f"Refresh ran on the {identity.executor} executor with {identity.attention} attention; answers are "
        f"scored by {identity.score_rule}. Engine version {identity.engine_version}, {_dates(rows)}."
    )


def finding(stratum: Stratum, repairs: bool) -> str:
    """Return the key result of a stratum; an arm that was not run is named as such.

    Args:
        stratum: the rows.
        repairs: whether their executor repairs; if not, the text begins by saying so and compares no two allocators.
    """
    budget = stratum.headline_budget
    anchors = [(ArmKey("re-prefill", None), "Re-prefill, the clean cache,"), (ArmKey("shift", None), _SHIFT)]
    sentences = [] if repairs else [_NO_REPAIR]
    sentences.append(_answers(stratum, anchors))
    if budget is None:
        return " ".join([*sentences, "No allocator was run."])
    if budget != PREFERRED_BUDGET:
        sentences.append(f"No allocator was run at {budget_label(PREFERRED_BUDGET)}.")
    subject, contrast = ArmKey(SUBJECT, budget), ArmKey(CONTRAST, budget)
    sparse = [(subject, f"{subject.label} of the retained suffix"), (contrast, contrast.label)]
    sentences.append(("" if repairs else "With such rows, ") + _answers(stratum, sparse))
    if repairs and subject in stratum.arms and contrast in stratum.arms:
        sentences.append(_contrast(stratum, subject, contrast))
    return " ".join(sentences)


def tiles(stratum: Stratum, summaries: Sequence[ArmSummary]) -> list[Tile]:
    """Return the key numbers: the two anchors, then SUR and its contrast at the headline budget."""
    found = {summary.arm: summary for summary in summaries}
    budget = stratum.headline_budget
    keys = [ArmKey("re-prefill", None), ArmKey("shift", None)]
    if budget is not None:
        keys += [ArmKey(SUBJECT, budget), ArmKey(CONTRAST, budget)]
    return [Tile(key.label, _NOTES[key.allocator], found.get(key)) for key in keys]


def _arms(strata: Sequence[Stratum]) -> str:
    arms = {arm for stratum in strata for arm in stratum.arms}
    names = {arm.allocator for arm in arms if not arm.is_reference}
    budgets = sorted({arm.budget for arm in arms if arm.budget is not None})
    references = sum(arm.is_reference for arm in arms)
    parts = [plural(len(arms), "arm")]
    if references:
        parts.append(plural(references, "reference"))
    if names:
        parts.append(f"{plural(len(names), 'allocator')} at {budget_list(budgets)} of the retained suffix")
    return f"{parts[0]} ({', '.join(parts[1:])})"


def _dates(rows: Sequence[Row]) -> str:
    first, last = min(row.recorded_at for row in rows), max(row.recorded_at for row in rows)
    return f"recorded {day(first)}" if day(first) == day(last) else f"recorded {day(first)} to {day(last)}"


def _answers(stratum: Stratum, arms: Sequence[tuple[ArmKey, str]]) -> str:
    parts = []
    for key, name in arms:
        cell = cell_of(stratum.of(*key), stratum.n_of)
        parts.append(f"{key.label} was not run" if cell is None else f"{name} answers {_score(cell)}")
    return "; ".join(parts) + "."


def _score(cell: Cell) -> str:
    notes = [f"{percent(cell.percent)}"]
    if not cell.complete:
        notes.append(f"{cell.n} of {cell.n_of} cases recorded")
    if cell.n_failed:
        notes.append(f"{cell.n_failed} failed and counted as wrong")
    return f"{cell.k} of {cell.n} exactly ({'; '.join(notes)})"


def _contrast(stratum: Stratum, subject: ArmKey, other: ArmKey) -> str:
    found = compare(stratum, subject, other)
    if found.difference is None or found.p is None:
        return "The two have no common case without a failure, so they are not compared."
    low, high = signed(found.difference.low), signed(found.difference.high)
    return (
        f"On their {plural(found.n, 'common case')}, {allocator_label(subject.allocator)} alone is right in "
        f"{_cases(found.repaired)} and {allocator_label(other.allocator)} alone in {_cases(found.regressed)}: "
        f"{signed(found.difference.point)} points "
        f"(95 % interval {low} to {high}; exact McNemar {p_clause(found.p)})."
    )


def _cases(count: int | None) -> str:
    return plural(count, "case") if count else "none"
