"""When to repair: how often the stale cache fails, and whether anything foretells it."""

from collections.abc import Sequence
from typing import NamedTuple

from cachemend.warehouse.report.edits.analysis import Decision, Trigger
from cachemend.warehouse.report.formats import number, p_clause, percent, plural

_REGRESSORS = {"ridge": "ridge regression", "random-forest": "a random forest"}


class Triggers(NamedTuple):
    """The paragraph, and the gates by the share of edits that touch an answer."""

    sentences: list[str]
    gates: list[Trigger]


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
    gates = sorted((row for row in rows if row.kind == "gate"), key=lambda row: (row.share or 0.0, row.subject))
    return Triggers(sentences, gates)


def decided(rows: Sequence[Decision], stage: str) -> list[Decision]:
    """Return the decision table's rows of a stage, chosen arms first within each cell."""
    return sorted((r for r in rows if r.stage == stage), key=lambda r: (r.cell, not r.chosen, r.arm.order))


def _rate(row: Trigger) -> str:
    assert row.rate is not None, "the caller has looked"
    n = f" of {plural(row.n, 'item')}" if row.n is not None else ""
    band = f" (95 % interval {number(100 * (row.low or 0), 1)} to {number(100 * (row.high or 0), 1)})"
    edits = f"{row.condition or 'any'} edits"
    return f"After {edits} the stale cache fails on {percent(100 * row.rate)}{n}{band}, {row.split}."
