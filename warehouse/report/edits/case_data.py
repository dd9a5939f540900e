"""One edited item as the viewer of the page reads it: its text, and every arm's positions, answer and recovery."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from cachemend.warehouse.report.case_data import rounded, steps
from cachemend.warehouse.report.edits.rows import EditRow
from cachemend.warehouse.report.formats import plural
from cachemend.warehouse.report.texts import CaseText

_WORDS = ("new answer", "no flip")
_LEGEND = (
    "Grey text: before the edit, valid as it is",
    "Struck through: replaced; shaded: what stands there now, always recomputed",
    "Bold: text that holds the answer",
)


def edit_case_data(rows: Sequence[EditRow], text: CaseText, methods: Mapping[str, int]) -> dict[str, Any]:
    """Describe an item for the page's script, in the shape of the deletion study's cases.

    Args:
        rows: the rows of the item, in the order shown.
        text: its texts, as far as known; what counts as deleted is what the edit replaced.
        methods: the number of each policy on the page.

    Returns:
        JSON values. The prefix ends where the edit span begins; `span` and `goldTokens` (the text with the answer)
        are ranges of tokens, `marks` is the latter in characters.
    """
    first = rows[0]
    fitting = text.context is not None and text.stops is not None and len(text.stops) == first.n_tokens
    stops = list(text.stops or ()) if fitting else None
    carrier = (first.carrier_start, first.carrier_stop)
    return {
        "id": first.case_id,
        "tokens": first.n_tokens,
        "prefix": first.span_start,
        "span": (first.span_start, first.span_stop),
        "text": text.context,
        "deleted": text.deleted,
        "widths": steps(stops) if stops is not None else None,
        "marks": [_characters(stops, *carrier)] if stops is not None else [],
        "goldTokens": [carrier],
        "words": _WORDS,
        "legend": _LEGEND,
        "facts": _facts(first, text),
        "arms": [_arm(row, methods) for row in rows],
    }


def _facts(row: EditRow, text: CaseText) -> str:
    asked = "" if text.query is None else f"Question: {text.query} "
    kept = {True: "Retained.", False: "Not retained.", None: "Retention not recorded."}[row.retained]
    return (
        f"{row.case_id}: {asked}Answer before the edit: {row.old_answer}; after it: {row.new_answer}. "
        f"{plural(row.n_tokens, 'token')}, edit at {row.span_start}–{row.span_stop}, answer's text at "
        f"{row.carrier_start}–{row.carrier_stop}. {kept}"
    )


def _arm(row: EditRow, methods: Mapping[str, int]) -> dict[str, Any]:
    flipped = None if row.flip is None else float(row.flip)
    return {
        "method": methods[row.policy],
        "budget": row.k,
        "outcome": row.outcome,
        "em": flipped,
        "measures": [rounded(row.margin_recovery), rounded(row.margin), rounded(row.tv_to_clean)],
        "intervals": None if row.arm.is_reference else row.n_intervals,
        "answer": row.answer if row.ok else row.error,
        "runs": [0, row.n_tokens] if row.ok and row.policy == "clean" else json.loads(row.runs or "[]"),
    }


def _characters(stops: Sequence[int], start: int, stop: int) -> tuple[int, int]:
    return (stops[start - 1] if start else 0), (stops[stop - 1] if stop else 0)
