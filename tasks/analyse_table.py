"""The decision table: derived from the dev items, written as JSON, and tested on held-out ones."""

from collections.abc import Mapping, Sequence
from typing import Any

from cachemend.calibration.policy_table import (
    RE_PREFILL,
    ArmResult,
    CellChoice,
    Observations,
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


def observations(observed: Observed, features: Mapping[str, EditFeatures]) -> Observations | None:
    """The deployable arms of the retained items; None where nothing is retained.

    Args:
        observed: the records.
        features: what is known of each case before its repair, by digest.
    """
    rows = [row for cell in observed.cells() if cell[2] is None for row in observed.retained(cell) if _counts(row)]
    if not rows:
        return None
    return Observations(
        cases=[row["case_digest"] for row in rows],
        items=[row["item_id"] for row in rows],
        cells=[features[row["case_digest"]] for row in rows],
        arms=[RE_PREFILL if row["policy"] == "clean" else row["arm"] for row in rows],
        tokens=[_tokens(row) for row in rows],
        recovery=[row["margin_recovery"] for row in rows],
    )


def _counts(row: Mapping[str, Any]) -> bool:
    known = row["policy"] not in ("stale", "span") and deployable(row["policy"])
    return known and row["operator"] != "transplant"


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


def derived_rows(choices: Sequence[CellChoice], dev: Observations) -> list[dict[str, Any]]:
    """Columns of `edit_table_rows`, without identity: every arm in every cell of the dev items."""
    rows = []
    for choice in choices:
        inside = _inside(dev, choice.cell)
        for result in evaluate_table((), inside).fixed:
            rows.append(_row("derived", _text(choice.cell), result, chosen=result.arm == choice.arm))
    return rows


def evaluated_rows(choices: Sequence[CellChoice], held_out: Observations) -> list[dict[str, Any]]:
    """The same for the table and for every fixed arm on held-out items; the table in each cell, too."""
    found = evaluate_table(choices, held_out)
    rows = [_row("evaluated", EVERYWHERE, found.table, chosen=True)]
    rows += [_row("evaluated", EVERYWHERE, result, chosen=False) for result in found.fixed]
    return rows + [_row("evaluated", _text(cell), result, chosen=True) for cell, result in found.by_cell]


def _inside(observations: Observations, cell: object) -> Observations:
    at = [i for i, found in enumerate(observations.cells) if found == cell]
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
