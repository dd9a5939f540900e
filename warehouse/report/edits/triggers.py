"""When to repair: how often the stale cache fails, and whether anything foretells it."""

from collections.abc import Sequence
from typing import NamedTuple

from cachemend.warehouse.report.edits.analysis import Decision, Trigger
from cachemend.warehouse.report.formats import number, p_clause, percent, plural

_REGRESSORS = {"ridge": "ridge regression", "random-forest": "a random forest"}


class Triggers(NamedTuple):
    """The paragraph, and the gates of each kind of edit by its share of all edits."""

    sentences: list[str]
    gates: list[tuple[str, list[Trigger]]]


def triggers(rows: Sequence[Trigger]) -> Triggers:
    """Summarise the trigger study of a group."""
    sentences = [_rate(row) for row in rows if row.kind == "base-rate" and row.rate is not None]
    models = [row for row in rows if row.kind == "severity" and row.rho is not None]
    if models:
        told = "; ".join(
            f"{_REGRESSORS.get(row.subject, row.subject)} reaches Spearman {number(row.rho, 2)}"
            f"{f' ({p_clause(row.rho_p)})' if row.rho_p is not None else ''}, R² {number(row.r2, 2)}"
            for row in models
        )
        n = models[0].n
        over = f" on {plural(n, 'item')}" if n is not None else ""
        sentences.append(f"How badly it fails, predicted out of fold from text, position and edit{over}: {told}.")
    sentences += [_quality(row) for row in rows if row.kind == "predictor" and row.rate is not None]
    gates: dict[str, list[Trigger]] = {}
    for row in sorted((row for row in rows if row.kind == "gate"), key=_place):
        gates.setdefault(row.condition or "any", []).append(row)
    return Triggers(sentences, list(gates.items()))


def decided(rows: Sequence[Decision], stage: str) -> list[Decision]:
    """Return the decision table's rows of a stage, chosen arms first within each cell."""
    return sorted((r for r in rows if r.stage == stage), key=lambda r: (r.cell, not r.chosen, r.arm.order))


def _place(row: Trigger) -> tuple[str, float, str]:
    return row.condition or "", row.share or 0.0, row.subject


def _rate(row: Trigger) -> str:
    edits = f"{row.condition or 'any'} edits"
    return f"After {edits} the stale cache fails on {_share(row, 'item')}, {row.split}."


def _quality(row: Trigger) -> str:
    noun = "failure" if row.subject == "failures sent" else "edit"
    sent = f"{_share(row, noun)} to repair after {row.condition or 'any'} edits, {row.split}."
    return f"Fitted on dev items, the predictor of failures sends {sent}"


def _share(row: Trigger, noun: str) -> str:
    assert row.rate is not None, "the caller has looked"
    n = f" of {plural(row.n, noun)}" if row.n is not None else ""
    band = f" (95 % interval {number(100 * (row.low or 0), 1)} to {number(100 * (row.high or 0), 1)})"
    return f"{percent(100 * row.rate)}{n}{band}"
