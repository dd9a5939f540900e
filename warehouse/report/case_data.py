"""One case as the viewer of the page reads it: its text, and every arm's positions and answer, packed."""

import base64
import json
import re
import zlib
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from typing import Any

from cachemend.warehouse.report.rows import Row
from cachemend.warehouse.report.texts import CaseText

_DIGITS = 4


def case_data(rows: Sequence[Row], text: CaseText, methods: Mapping[str, int]) -> dict[str, Any]:
    """Describe a case for the page's script.

    Args:
        rows: the rows of the case, in the order shown.
        text: its texts, as far as known.
        methods: the number of each method on the page.

    Returns:
        JSON values. `stops` holds the length in characters of each token, `marks` the character ranges of the gold
        values in the text and `goldTokens` the same in tokens; `runs` lists start and length of each run of
        recomputed positions in turn.
    """
    first = rows[0]
    gold = first.gold or []
    marks = _occurrences(text.context, gold)
    fitting = text.context is not None and text.stops is not None and len(text.stops) == first.n_tokens
    stops = list(text.stops or ()) if fitting else None
    return {
        "id": first.case_id,
        "tokens": first.n_tokens,
        "prefix": first.prefix_length,
        "deletedTokens": first.deleted_length,
        "gold": gold,
        "text": text.context,
        "deleted": text.deleted,
        "query": text.query,
        "widths": steps(stops) if stops is not None else None,
        "marks": marks,
        "goldTokens": [_tokens(stops, mark) for mark in marks] if stops is not None else [],
        "arms": [_arm(row, methods) for row in rows],
    }


def packed(data: Mapping[str, Any]) -> str:
    """Return JSON values deflated (zlib) and in base64, which no markup can be made of."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return base64.b64encode(zlib.compress(text.encode(), 9)).decode("ascii")


def _arm(row: Row, methods: Mapping[str, int]) -> dict[str, Any]:
    return {
        "method": methods[row.arm.allocator],
        "budget": row.budget,
        "outcome": row.outcome,
        "em": row.em,
        "nll": rounded(row.gold_nll),
        "tv": rounded(row.tv_to_clean),
        "leakage": rounded(row.leakage),
        "intervals": row.n_intervals if row.budget is not None else None,
        "answer": row.answer if row.ok else row.error,
        "runs": _runs(row),
    }


def _runs(row: Row) -> list[int]:
    """Recomputed positions; Replay and Re-prefill, whose positions are not listed, recompute all after a point."""
    if row.ok and row.allocator == "replay":
        return [row.prefix_length, row.n_tokens - row.prefix_length]
    if row.ok and row.allocator == "re-prefill":
        return [0, row.n_tokens]
    found: list[int] = json.loads(row.runs or "[]")
    return found


def _occurrences(text: str | None, values: Sequence[str]) -> list[tuple[int, int]]:
    """Return where values stand in a text, in its order."""
    wanted = "|".join(re.escape(value) for value in sorted(values, key=len, reverse=True) if value)
    return [match.span() for match in re.finditer(wanted, text or "")] if wanted else []


def _tokens(stops: Sequence[int], mark: tuple[int, int]) -> tuple[int, int]:
    """Return the half-open range of tokens that cover some character of a range."""
    return bisect_right(stops, mark[0]), bisect_left(stops, mark[1]) + 1


def steps(stops: Sequence[int]) -> list[int]:
    """Return the length of each token, characters, from where they end."""
    return [stop - before for before, stop in zip([0, *stops], stops, strict=False)]


def rounded(value: float | None) -> float | None:
    """Return a number with the decimals the page carries."""
    return None if value is None else round(value, _DIGITS)
