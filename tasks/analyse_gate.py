"""Repairing always, never, or when a predictor says so: what each comes to, by kind of edit.

Edit paper, "Repair Should Be Unconditional". Everything is at distance 0, where all kinds of edit are measured.
"""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from cachemend.calibration.failure_predictor import FailurePredictor, fit_failure_predictor
from cachemend.calibration.gate import Costs, Edits, gate_value
from cachemend.calibration.intervals import SEED, wilson_interval
from cachemend.datasets.edit_features import observable_features
from cachemend.tasks.edit_observations import Observed
from cachemend.tasks.trigger_row import RELEVANT, references, trigger_row

SHARES = (0.1, 0.25, 0.5, 0.75, 1.0)
IRRELEVANT = "irrelevant"


class _Edit(NamedTuple):
    """An edit whose clean answer is right.

    Attributes:
        clean, stale: its records.
        repaired: that of edit-local at the primary K; None where that gave no answer.
        tried: whether edit-local was run at all.
    """

    clean: dict[str, Any]
    stale: dict[str, Any]
    repaired: dict[str, Any] | None
    tried: bool


def failure_predictor(dev: Observed) -> FailurePredictor | None:
    """Fit the predictor of stale failures to a development cohort; None where it holds too little.

    It learns from every edit at distance 0, irrelevant ones too, whose clean answer is right, retained or not. A
    failure is a stale answer that is wrong.
    """
    edits = [edit for found in _edits(dev, None).values() for edit in found]
    if not edits:
        return None
    features, names = _features(dev, edits)
    fails, items = [not edit.stale["flip"] for edit in edits], [edit.clean["item_id"] for edit in edits]
    return fit_failure_predictor(features, names, fails, items, SEED)


def gate_rows(observed: Observed, primary_k: int, predictor: FailurePredictor | None) -> list[dict[str, Any]]:
    """Rows of kind "gate" and "predictor".

    An edit counts where the clean answer is right and stale and repaired cache gave an answer, whether it was
    retained or not; repair is edit-local at the primary K. Direct and derived edits are weighed apart, each against
    the irrelevant ones. A kind on which edit-local was not run throughout has no rows: where it ran on retained items
    alone, these are no sample of all edits. Seconds are medians of the measured refreshes and prefills.

    Args:
        observed: the records.
        primary_k: K of the repair.
        predictor: fitted on a development cohort; not asked about one, which would be judged by what it has seen.
    """
    used = predictor if observed.split == "held-out" else None
    by_condition = _edits(observed, primary_k)
    told = [
        row for condition, edits in by_condition.items() for row in _quality(observed, condition, edits, used) if edits
    ]
    return told + [row for condition in RELEVANT for row in _gate(observed, by_condition, condition, used)]


def _edits(observed: Observed, primary_k: int | None) -> dict[str, list[_Edit]]:
    """The edits whose clean answer is right, by condition; without `primary_k`, whatever became of their repair."""
    stale, clean = references(observed, "stale"), references(observed, "clean")
    tried = {
        row["case_digest"]: row
        for row in observed.rows
        if row["policy"] == "edit-local" and row["k"] == primary_k and row["operator"] == "recompute"
    }
    found: dict[str, list[_Edit]] = {condition: [] for condition in (*RELEVANT, IRRELEVANT)}
    for digest in sorted(stale.keys() & clean.keys()):
        if clean[digest]["flip"]:
            row = tried.get(digest)
            answered = row if row is not None and row["outcome"] == "ok" else None
            found[clean[digest]["condition"]].append(_Edit(clean[digest], stale[digest], answered, row is not None))
    return found


def _quality(
    observed: Observed, condition: str, edits: Sequence[_Edit], predictor: FailurePredictor | None
) -> list[dict[str, Any]]:
    """How many of the failures and of all edits of a kind the predictor sends to repair."""
    if predictor is None:
        return []
    sent = _sent(observed, edits, predictor)
    among = {"edits sent": sent, "failures sent": [s for s, e in zip(sent, edits, strict=True) if not e.stale["flip"]]}
    return [
        trigger_row("predictor", subject, condition=condition, n=rate.n, rate=rate.point, low=rate.low, high=rate.high)
        for subject, told in among.items()
        if told
        for rate in (wilson_interval(sum(told), len(told)),)
    ]


def _gate(
    observed: Observed, by_condition: dict[str, list[_Edit]], condition: str, predictor: FailurePredictor | None
) -> list[dict[str, Any]]:
    kinds = [by_condition[condition], by_condition[IRRELEVANT]]
    if not all(edit.tried for kind in kinds for edit in kind):
        return []
    relevant, irrelevant = ([(edit, edit.repaired) for edit in kind if edit.repaired is not None] for kind in kinds)
    if not relevant or not irrelevant:
        return []
    both = [*relevant, *irrelevant]
    measured = [
        Edits(
            stale=[not edit.stale["flip"] for edit, _ in kind],
            repaired=[not repaired["flip"] for _, repaired in kind],
            sent=None if predictor is None else _sent(observed, [edit for edit, _ in kind], predictor),
        )
        for kind in (relevant, irrelevant)
    ]
    costs = Costs(
        repair=float(np.median([repaired["t_refresh"] for _, repaired in both])),
        re_prefill=float(np.median([edit.clean["t_refresh"] for edit, _ in both])),
    )
    return [
        trigger_row(
            "gate",
            value.rule,
            condition=condition,
            share=value.share,
            n=len(both),
            failures=value.failures,
            seconds=value.cost,
        )
        for value in gate_value(measured[0], measured[1], costs, SHARES)
    ]


def _sent(observed: Observed, edits: Sequence[_Edit], predictor: FailurePredictor) -> list[bool]:
    found: list[bool] = predictor.sends(*_features(observed, edits)).tolist()
    return found


def _features(observed: Observed, edits: Sequence[_Edit]) -> tuple[list[list[float]], list[str]]:
    """What a trigger sees of each edit, by name: text, position, edit and embeddings; not its type, nor an answer."""
    named = [
        observable_features(observed.cases[edit.stale["case_digest"]]) | json.loads(edit.stale["embedding_features"])
        for edit in edits
    ]
    names = list(named[0])
    return [[each[name] for name in names] for each in named], names
