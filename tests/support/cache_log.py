"""A small cache log about orders: every request again under the same state, and some after the state has changed."""

import json
from pathlib import Path
from typing import Any

ORDERS = 120
ROWS: list[dict[str, Any]] = []
for _number in range(ORDERS):
    _order, _item = f"#W{1000 + 37 * _number}", ("lamp", "chair", "tent", "radio", "clock")[_number % 5]
    _cached = {
        "q_cache": f"Is my order {_order} for the {_item} paid?",
        "r_cache": f"Yes, order {_order} is paid.",
        "context_cache": f"order id: {_order}\npayment status: paid",
    }
    ROWS.append(
        _cached
        | {
            "q_probe": f"Is order {_order} for the {_item} paid?",
            "context_probe": f"order id: {_order}\npayment status: paid",
            "label": 1,
        }
    )
    if _number % 3 == 0:
        ROWS.append(
            _cached
            | {
                "q_probe": f"Is the order {_order} for my {_item} paid?",
                "context_probe": f"order id: {_order}\npayment status: refunded",
                "label": 0,
            }
        )


def write_log(path: Path, *, labels: bool = True, rows: list[dict[str, Any]] | None = None) -> Path:
    """Write rows as JSON Lines, with or without their labels."""
    kept = [
        {key: value for key, value in row.items() if labels or key != "label"}
        for row in (ROWS if rows is None else rows)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in kept), encoding="utf-8")
    return path
