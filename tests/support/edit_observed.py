"""Records of edited items made by hand, as the analyses read them."""

from collections.abc import Iterable
from dataclasses import fields
from functools import cache
from typing import Any

from cachemend.datasets.edit_case import EditCase
from cachemend.tasks.edit_observations import Observed
from cachemend.tasks.edit_work import EditIdentity

from support.edit_rows import ArmName, EditSetup, ItemCase, edit_record

SETUP = EditSetup()
STALE, SPAN, CLEAN = ArmName("stale", None, "none"), ArmName("span", None), ArmName("clean", None, "none")
Row = dict[str, Any]


def record(
    item: int, arm: ArmName, recovery: float, *, condition: str = "derived", distance: int = 0, **changes: Any
) -> Row:
    """A record that recovered exactly `recovery` of its item's gap; retained, unless `changes` say otherwise."""
    row = edit_record(SETUP, ItemCase(item, condition, distance), SPAN)
    row |= {"policy": arm.policy, "k": arm.k, "operator": arm.operator, "arm": arm.name, "n_positions": arm.k or 0}
    stale, clean = changes.get("margin_stale", row["margin_stale"]), changes.get("margin_clean", row["margin_clean"])
    margin = stale + recovery * (clean - stale)
    told: Row = {"margin": margin, "margin_recovery": recovery, "flip": recovery > 0.5, "retained": True}
    told |= {"embedding_features": "{}" if arm == STALE else None, "t_refresh": 0.1}
    return {**row, **told, **changes}


def observed(rows: Iterable[Row], split: str = "held-out", n_tokens: int = 2100) -> Observed:
    """The records as they are read back, with a case of `n_tokens` for each digest."""
    every = tuple(rows)
    identity = EditIdentity(**{field.name: every[0][field.name] for field in fields(EditIdentity)})
    cases = {row["case_digest"]: case_of(row["condition"], n_tokens) for row in every}
    return Observed(identity=identity, split=split, rows=every, cases=cases)


@cache
def case_of(condition: str, n_tokens: int, **changes: Any) -> EditCase:
    """A case of that length whose words say nothing."""
    ids = tuple(range(n_tokens))
    told = {
        "case_id": "c", "item_id": "i", "split": "held-out", "condition": condition, "distance": 0,
        "actual_distance": 3, "family": "f", "seed": 1, "original_ids": ids, "edited_ids": (*ids[:20], 9, *ids[21:]),
        "span": (20, 21), "carrier": (24, 26), "block_stop": 30, "query_ids": (1, 2), "relevance_ids": (1, 2),
        "query_text": "Who?", "context_text": "Here.", "old_span_text": "old", "new_span_text": "new",
        "old_answer": "x", "new_answer": "y", "old_ids": (1,), "new_ids": (2,),
    }  # fmt: skip
    return EditCase(**{**told, **changes})  # type: ignore[arg-type]
