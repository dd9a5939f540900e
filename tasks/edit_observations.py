"""The stored records of one cohort, as the analyses take them: rows by arm and cell, and features of the cases."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from transformers import PreTrainedTokenizerBase

from cachemend.datasets.cohort import read_cohort
from cachemend.datasets.edit_case import EditCase
from cachemend.repair_core.context import StaleContext
from cachemend.repair_core.features import EditFeatures, edit_features
from cachemend.tasks.edit_retained import edit_rows
from cachemend.tasks.edit_work import EditIdentity

_COLUMNS = (
    *("case_digest", "item_id", "split", "condition", "distance", "family", "policy", "k", "operator", "arm"),
    *("n_tokens", "span_start", "span_stop", "n_positions", "margin", "margin_stale", "margin_clean"),
    *("margin_recovery", "flip", "retained", "kl_recovery", "t_refresh", "outcome"),
    "embedding_features",
)
Cell = tuple[str, int, str | None]


@dataclass(frozen=True, kw_only=True)
class Observed:
    """The latest records of one cohort under one identity.

    Attributes:
        identity: what they share.
        split: of the cohort.
        rows: columns of `edit_records`; one row per case and arm.
        cases: the cohort's cases by digest.
    """

    identity: EditIdentity
    split: str
    rows: tuple[dict[str, Any], ...]
    cases: dict[str, EditCase]

    @classmethod
    def read(cls, results: Path, cohort_file: Path, identity: EditIdentity) -> "Observed":
        """Read what is stored of a cohort."""
        cases = read_cohort(cohort_file, EditCase).cases
        rows = tuple(edit_rows(results, identity, _COLUMNS))
        return cls(identity=identity, split=cases[0].split, rows=rows, cases={case.digest: case for case in cases})

    @cached_property
    def ok(self) -> list[dict[str, Any]]:
        """The rows that gave an answer."""
        return [row for row in self.rows if row["outcome"] == "ok"]

    def cells(self) -> list[Cell]:
        """(condition, distance, family) of every cell, with family None for all wordings, in a fixed order."""
        found = {(row["condition"], row["distance"], row["family"]) for row in self.rows}
        both = found | {(condition, distance, None) for condition, distance, _ in found}
        return sorted(both, key=lambda cell: (cell[0], cell[1], cell[2] or ""))

    def inside(self, cell: Cell, rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
        """Those of `rows` that belong to a cell."""
        condition, distance, family = cell
        return [
            row
            for row in rows
            if row["condition"] == condition and row["distance"] == distance and family in (None, row["family"])
        ]

    def retained(self, cell: Cell) -> list[dict[str, Any]]:
        """The rows of a cell's retained items with a margin recovery; irrelevant edits have nothing to recover."""
        if cell[0] == "irrelevant":
            return []
        return [r for r in self.inside(cell, self.ok) if r["retained"] and r["margin_recovery"] is not None]


def by_arm(rows: Sequence[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Rows by arm, in an order of their own."""
    out: dict[str, list[dict[str, Any]]] = {}
    for row in sorted(rows, key=_place):
        out.setdefault(row["arm"], []).append(row)
    return out


def _place(row: dict[str, Any]) -> tuple[bool, str, int, str]:
    """Where a row stands: cases in one order, too, or a mean of them would differ in its last digit."""
    return row["operator"] == "transplant", row["policy"], row["k"] or 0, row["case_digest"]


def features_of(tokenizer: PreTrainedTokenizerBase, model: Any, case: EditCase) -> EditFeatures:
    """What is known of a case before its repair; reads texts only, `model` is not run."""
    context = StaleContext(
        model, tokenizer, case.replacement, case.query_text, case_id=case.case_id, query_ids=case.relevance_ids
    )
    return edit_features(context)
