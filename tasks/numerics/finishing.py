"""When a measurement is no result: numbers that are not finite, and faults found elsewhere."""

import math
from collections.abc import Mapping
from typing import Any


def finished(row: Mapping[str, Any], fault: str | None = None) -> dict[str, Any]:
    """Return the row as it is, or as a failure that says why.

    Args:
        row: a measurement; a float of it that is not finite is a fault, and is left out.
        fault: another reason that it is no result.
    """
    odd = [name for name, value in row.items() if isinstance(value, float) and not math.isfinite(value)]
    faults = [*([fault] if fault else []), *(f"{name} is not finite" for name in odd)]
    if not faults:
        return dict(row)
    return {**row, **dict.fromkeys(odd), "outcome": "case_error", "error": "; ".join(faults)}
