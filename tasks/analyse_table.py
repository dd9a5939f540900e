"""The decision table: derived from the dev items, written as JSON, and tested on held-out ones."""

from collections.abc import Mapping, Sequence
from typing import Any

from cachemend.calibration.policy_table import (
    RE_PREFILL,
    ArmResult,
    CellChoice,
    Observations,
    TableEvaluation,
    derive_table,
    evaluate_table,
)
from cachemend.repair_core.decision_rules import Action, Evidence, Rule, When
from cachemend.repair_core.decision_table import DecisionTable, Derivation
from cachemend.repair_core.features import EditFeatures
from cachemend.tasks.edit_arms import deployable
from cachemend.tasks.edit_observations import Observed

# Items that a choice must rest on; below it the cell is re-prefilled.
LEAST_ITEMS = 10
TABLE, EVERYWHERE = "table", "all"


def observations(observed: Observed, features: Mapping[str, EditFeatures], primary_k: int) -> Observations | None:
    """The deployable arms of the retained items; None where nothing is retained.

    Cases on which the severity study alone was run, beside others with more arms, are left out: an arm must have been
    run on every case of a cell to be chosen there.

    Args:
        observed: the records.
        features: what is known of each case before its repair, by digest.
        primary_k: K of the one repair that the severity study runs.
    """
    rows = [row for cell in observed.cells() if cell[2] is None for row in observed.retained(cell) if _counts(row)]
    more = {row["case_digest"] for row in rows if _arm(row) not in (RE_PREFILL, f"edit-local@{primary_k}")}
    rows = [row for row in rows if row["case_digest"] in more or not more]
    if not rows:
        return None
    return Observations(
        cases=[row["case_digest"] for row in rows],
        items=[row["item_id"] for row in rows],
        cells=[features[row["case_digest"]] for row in rows],
        arms=[_arm(row) for row in rows],
        tokens=[_tokens(row) for row in rows],
        recovery=[row["margin_recovery"] for row in rows],
    )


def _comparable(observed: Observed, found: Observations, choices: Sequence[CellChoice]) -> Observations | None:
    """The cases on which all arms that were run on every case gave an answer, and so did what the table chooses.

    An arm that failed on a case takes that case from all others too: they are compared on equal cases. None where
    the table's choice was never run on some case, or no case is left.
    """
    run = {(row["case_digest"], _arm(row)) for row in observed.rows if _counts(row)}
    members = dict(zip(found.cases, found.cells, strict=True))
    complete = [arm for arm in set(found.arms) if all((case, arm) in run for case in members)]
    chosen = {choice.cell: choice.arm for choice in choices}
    follow = {case: chosen.get(cell, RE_PREFILL) for case, cell in members.items()} if choices else {}
    if any((case, arm) not in run for case, arm in follow.items()):
        return None
    answered = found.entries.keys()
    common = {
        case
        for case in members
        if all((case, arm) in answered for arm in (*complete, *([follow[case]] if follow else [])))
    }
    return _picked(found, [i for i, case in enumerate(found.cases) if case in common]) if complete and common else None


def _counts(row: Mapping[str, Any]) -> bool:
    known = row["policy"] not in ("stale", "span") and deployable(row["policy"])
    return known and row["operator"] != "transplant"


def _arm(row: Mapping[str, Any]) -> str:
    return RE_PREFILL if row["policy"] == "clean" else str(row["arm"])


def _tokens(row: Mapping[str, Any]) -> int:
    if row["policy"] == "clean":
        return int(row["n_tokens"])
    return int(row["n_positions"] + row["span_stop"] - row["span_start"])


def derived(dev: Observations) -> tuple[CellChoice, ...]:
    """Choose an arm for every cell of the dev items."""
    return derive_table(dev, minimum=LEAST_ITEMS)


def decision_table(choices: Sequence[CellChoice], dev: Observed, n_items: int) -> DecisionTable:
    """The choices as the table that `repair` takes; a cell without a choice of its own is re-prefilled."""
    rules = []
    for choice in choices:
        features = choice.cell
        assert isinstance(features, EditFeatures)
        rules.append(
            Rule(
                when=When(**features._asdict()),
                do=Action.of_arm(choice.arm),
                evidence=Evidence(n=choice.n, mean=choice.mean, low=choice.low),
            )
        )
    identity = dev.identity
    return DecisionTable(
        model=identity.model,
        fingerprint=identity.model_fingerprint,
        derived_from=Derivation(cohort_digest=identity.cohort_digest, n_items=n_items),
        rules=tuple(rules),
        otherwise=Action(policy=RE_PREFILL),
    )


def derived_rows(choices: Sequence[CellChoice], observed: Observed, dev: Observations) -> list[dict[str, Any]]:
    """Columns of `edit_table_rows`, without identity: in every cell of the dev items, the arms run on all its cases.

    The arms of a cell are compared on the cases that all of them answered.
    """
    rows = []
    for choice in choices:
        inside = _picked(dev, [i for i, cell in enumerate(dev.cells) if cell == choice.cell])
        compared = _comparable(observed, inside, ())
        for result in () if compared is None else _everywhere(evaluate_table((), compared)):
            rows.append(_row("derived", _text(choice.cell), result, chosen=result.arm == choice.arm))
    return rows


def evaluated_rows(choices: Sequence[CellChoice], observed: Observed, held_out: Observations) -> list[dict[str, Any]]:
    """The same for the table and for every arm that was run on all held-out items; the table in each cell, too.

    All are on the cases that all of them answered. None where what the table chooses was not run on these items.
    """
    compared = _comparable(observed, held_out, choices)
    if compared is None:
        return []
    found = evaluate_table(choices, compared)
    rows = [_row("evaluated", EVERYWHERE, found.table, chosen=True)]
    rows += [_row("evaluated", EVERYWHERE, result, chosen=False) for result in _everywhere(found)]
    return rows + [_row("evaluated", _text(cell), result, chosen=True) for cell, result in found.by_cell]


def _everywhere(found: TableEvaluation) -> list[ArmResult]:
    return [result for result in found.fixed if not result.missing]


def _picked(observations: Observations, at: Sequence[int]) -> Observations:
    picked = {name: [values[i] for i in at] for name, values in vars(observations).items() if name in _FIELDS}
    return Observations(**picked)


_FIELDS = ("cases", "items", "cells", "arms", "tokens", "recovery")


def _text(cell: object) -> str:
    assert isinstance(cell, EditFeatures)
    return f"named={cell.named} reach={cell.reach} query_overlap={str(cell.query_overlap).lower()}"


def _row(stage: str, cell: str, result: ArmResult, *, chosen: bool) -> dict[str, Any]:
    fixed = result.arm in (TABLE, RE_PREFILL)
    policy, _, k = (result.arm, "", "") if fixed else result.arm.partition("@")
    return {
        "stage": stage,
        "cell": cell,
        "policy": policy,
        "k": int(k) if k else None,
        "arm": result.arm,
        "chosen": chosen,
        "n": result.n,
        "mean": result.mean,
        "low": result.low,
        "high": result.high,
        "mean_tokens": result.tokens,
        "share_re_prefilled": result.re_prefilled,
    }
