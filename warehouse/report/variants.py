"""The page's section on the paper's open questions: variants of SUR, pooled over wordings, models kept apart."""

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from math import isfinite
from pathlib import Path
from statistics import median
from typing import NamedTuple

from cachemend.calibration import Interval, bootstrap_mean
from cachemend.repair_core.described_variants import DESCRIBED, read_frozen
from cachemend.warehouse import store
from cachemend.warehouse.report.rows import Identity, Row
from cachemend.warehouse.variant_tests import CHOICE_BUDGETS, Said, Scores, VariantContrast, chosen, contrast, contrasts

ROSTERS = "questions-"
DEV = "questions-dev-"
_WORDED = "window"
"""The question whose variants are also shown by wording."""


class Locality(NamedTuple):
    """The search for the fewest positions that are enough.

    Attributes:
        n: cases searched.
        n_reached: cases in which something was enough.
        median: median share of the suffix over all of them, percent; None for infinity.
    """

    n: int
    n_reached: int
    median: float | None


class BudgetTable(NamedTuple):
    """Every variant at one budget."""

    budget: float
    lines: list[VariantContrast]


class WordingLine(NamedTuple):
    """One variant of the partial window in one wording, at the budgets of the choice."""

    wording: str
    found: VariantContrast


class VariantsView(NamedTuple):
    """What one model made of the rosters of one stage.

    Attributes:
        title, dev: the model, and whether its cases are those of the choice.
        identities: the groups of rows behind it, one per wording.
        sur: exact match of SUR at each budget, percent.
        pooled: every variant over the budgets of the choice.
        tables: every variant at each budget.
        worded: the variants of the partial window by wording.
        chosen: what the rule chooses from these cases; None for reported ones.
        frozen: what was chosen before; None while nothing was.
        locality: the search, where it ran.
    """

    title: str
    dev: bool
    identities: list[Identity]
    sur: list[tuple[float, Interval]]
    pooled: list[VariantContrast]
    tables: list[BudgetTable]
    worded: list[WordingLine]
    chosen: tuple[str, ...] | None
    frozen: tuple[str, ...] | None
    locality: Locality | None


def variant_views(
    groups: Mapping[Identity, Sequence[Row]], cohorts: Mapping[str, str], results: Path
) -> list[VariantsView]:
    """Return one view per model, settings and stage; none where no roster of the open questions was run."""
    stages: dict[tuple[bool, Identity, int], dict[str, Identity]] = {}
    for identity in groups:
        name = cohorts.get(identity.cohort_digest, "")
        if not name.startswith(ROSTERS) or not identity.repairs:
            continue
        dev = name.startswith(DEV)
        wording = name.removeprefix(DEV if dev else ROSTERS)
        same = (dev, replace(identity, cohort_digest=""))
        # Another seed or length makes another cohort of the same name: those are not pooled.
        earlier = sum(wording in worded for (*key, _), worded in stages.items() if tuple(key) == same)
        stages.setdefault((*same, earlier), {})[wording] = identity
    return [
        _view(dev, worded, groups, results) for (dev, *_), worded in sorted(stages.items(), key=lambda item: item[0])
    ]


def scores_of(rows: Sequence[Row]) -> dict[tuple[str, float], dict[str, Said]]:
    """What was said, by arm and case, of rows that were answered."""
    arms: dict[tuple[str, float], dict[str, Said]] = {}
    for row in rows:
        if row.ok and row.em is not None and row.gold_nll is not None and row.budget is not None:
            arms.setdefault((row.allocator, row.budget), {})[row.case_digest] = Said(row.em, row.gold_nll, row.runs)
    return arms


def _view(
    dev: bool, worded: Mapping[str, Identity], groups: Mapping[Identity, Sequence[Row]], results: Path
) -> VariantsView:
    scores = {wording: scores_of(groups[identity]) for wording, identity in worded.items()}
    budgets = sorted({budget for arms in scores.values() for name, budget in arms if name == "sur"})
    frozen = read_frozen().names
    # On reported cases only what was chosen before is tested; the others are shown with their intervals.
    family = () if dev else frozen or ()
    pooled = contrasts(scores, family=family)
    identity = next(iter(worded.values()))
    return VariantsView(
        title=f"{identity.model}, {identity.dtype}, {'development' if dev else 'reported'} cases",
        dev=dev,
        identities=list(worded.values()),
        sur=[(budget, _mean(scores, budget)) for budget in budgets],
        pooled=pooled,
        tables=[BudgetTable(budget, contrasts(scores, (budget,), family)) for budget in budgets],
        worded=[
            WordingLine(wording, found)
            for described in DESCRIBED
            if described.question == _WORDED
            for wording in scores
            if (found := contrast({wording: scores[wording]}, described, CHOICE_BUDGETS)) is not None
        ],
        chosen=chosen(pooled) if dev else None,
        frozen=frozen,
        locality=_locality(results, list(worded.values())),
    )


def _mean(scores: Scores, budget: float) -> Interval:
    return bootstrap_mean(
        [100 * said.em for arms in scores.values() for said in arms.get(("sur", budget), {}).values()]
    )


def _locality(results: Path, identities: Sequence[Identity]) -> Locality | None:
    names = [field.name for field in fields(Identity)]
    sql = f"SELECT {', '.join(names)}, reached, rho_upper_bound FROM repair_locality"
    found = store.ask(results, sql).table.to_pylist()
    mine = [row for row in found if Identity(**{name: row[name] for name in names}) in identities]
    if not mine:
        return None
    # Between the two middle cases of an even number, and infinite where either is.
    middle = median(row["rho_upper_bound"] for row in mine)
    return Locality(len(mine), sum(row["reached"] for row in mine), 100 * middle if isfinite(middle) else None)
