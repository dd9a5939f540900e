"""How an exception becomes an outcome, and what a failed arm records."""

from collections.abc import Sequence
from typing import Any

import torch

from cachemend.repair_core import InputError


def outcome_of(error: BaseException) -> tuple[str, str]:
    """Return (outcome, one-line reason) for an exception raised while a case ran."""
    lines = str(error).strip().splitlines()
    reason = f"{type(error).__name__}: {lines[0] if lines else 'no message'}"
    if isinstance(error, InputError):
        return "refused", reason
    if isinstance(error, (MemoryError, torch.OutOfMemoryError)) or "can't allocate memory" in str(error):
        return "out_of_memory", reason
    return "case_error", reason


def failed_measurement(gold: Sequence[str], outcome: str, error: str) -> dict[str, Any]:
    """The measurement columns of an arm that gave no answer."""
    return {"gold": list(gold), "outcome": outcome, "error": error}
