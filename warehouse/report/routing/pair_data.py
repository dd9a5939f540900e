"""One pair as the pair viewer reads it: texts, signals, explanation, and what was decided about it."""

import json
from collections.abc import Sequence
from typing import Any

from cachemend.warehouse.report.formats import number
from cachemend.warehouse.report.routing.analysis import Decision
from cachemend.warehouse.report.routing.names import arm_label, arm_order
from cachemend.warehouse.report.routing.rows import PairRow

_PARTS = ("category", "subject", "relation", "value")


def pair_data(row: PairRow, decisions: Sequence[Decision]) -> dict[str, Any]:
    """Describe a pair for the page's script.

    Args:
        row: its record.
        decisions: what the router's settings decided about it.

    Returns:
        JSON values. `texts` and `explanation` are None where they were not stored; `explanation` holds conditions as
        ``[condition, [[part, passage], ...]]``, matches as ``[condition, best or None, m1, m2]`` and fired rules as
        ``[level, rule, cached value, requested value]``.
    """
    texts = (row.q_cache, row.r_cache, row.context_cache, row.q_probe, row.context_probe)
    return {
        "facts": _facts(row),
        "valid": row.valid,
        "texts": None if any(text is None for text in texts) else texts,
        "signals": _signals(row),
        "explanation": _explanation(row.explanation),
        "decisions": [
            [arm_label(each.arm), each.n, each.reuse, each.verify, each.regenerate, each.accepted]
            for each in sorted(decisions, key=lambda each: arm_order(each.arm))
        ],
    }


def _facts(row: PairRow) -> str:
    kind = ", ".join(part for part in (row.source, row.family) if part)
    label = "valid" if row.valid else "invalid"
    failed = "" if row.outcome == "ok" else f" {row.outcome}: {row.error}."
    return f"{row.case_id} ({kind}; {row.cluster}): by construction reuse is {label} ({row.rule}).{failed}"


def _signals(row: PairRow) -> list[tuple[str, str]]:
    fired = ", ".join(row.fired or ())
    named = (
        ("Verdict", row.verdict or "not asked"),
        ("Similarity S", number(row.similarity, 3)),
        ("Mismatch D_match", number(row.d_match, 3)),
        ("Uncertainty U_match", number(row.u_match, 3)),
        ("Conflict H", _yes(row.h)),
        ("Further guards H_own", _yes(row.h_own)),
        ("Rules fired", fired or "none"),
        ("Conditions", f"{_count(row.n_cache)} cached, {_count(row.n_request)} requested"),
        ("Same request text", _yes(row.same_query)),
        ("Query filter", row.query_filter),
        ("Likelihood, nats per token", _known(row.likelihood)),
        ("Dialogue similarity", _known(row.dialogue_similarity)),
        ("Versions compatible", None if row.same_version is None else _yes(row.same_version)),
        ("Evidence overlap", _known(row.evidence_overlap)),
        ("Response support", _known(row.response_support)),
    )
    return [(name, value) for name, value in named if value is not None]


def _explanation(text: str | None) -> dict[str, Any] | None:
    """Return a stored explanation, shortened to what the page shows; None where there is none of the known form."""
    if text is None:
        return None
    told = json.loads(text)
    try:
        return {
            "cache": [_found(each) for each in told["cache"]],
            "request": [_found(each) for each in told["request"]],
            "matches": [_matched(each) for each in told["matching"]["pairs"]],
            "fired": [
                [str(each[name]) for name in ("level", "rule", "cache_value", "request_value")]
                for each in told["conflicts"]["fired"]
            ],
        }
    except (KeyError, TypeError):
        return None  # of another version: the page says that the explanation is not there


def _found(each: dict[str, Any]) -> list[Any]:
    return [_condition(each["condition"]), [[str(origin["part"]), str(origin["text"])] for origin in each["origins"]]]


def _matched(each: dict[str, Any]) -> list[Any]:
    best = None if each["best"] is None else _condition(each["best"])
    return [_condition(each["condition"]), best, number(float(each["m1"]), 3), number(float(each["m2"]), 3)]


def _condition(each: dict[str, Any]) -> str:
    return " · ".join(str(each[name]) for name in _PARTS)


def _yes(flag: bool | None) -> str:
    return {True: "yes", False: "no", None: "not measured"}[flag]


def _known(value: float | None) -> str | None:
    return None if value is None else number(value, 3)


def _count(value: int | None) -> str:
    return "–" if value is None else str(value)
