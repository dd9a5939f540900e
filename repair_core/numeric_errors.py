"""How far one computation of the same rows or logits is from another (paper section 13.5)."""

from collections.abc import Sequence
from typing import NamedTuple

import torch

from cachemend.repair_core.caches import Rows
from cachemend.repair_core.intervals import Positions

BUDGET = 2.0
"""Times the native low-precision error that another path may have: the paper's, fixed before its checkpoint runs."""


class NumericError(NamedTuple):
    """The difference of two tensors.

    Attributes:
        maximum: largest |difference|.
        rms: its root mean square.
        relative: |difference|_2 / |truth|_2; 0 where both are 0.
    """

    maximum: float
    rms: float
    relative: float


class BudgetCheck(NamedTuple):
    """Which errors stay within `BUDGET` times their native counterparts.

    Attributes:
        n: statistics compared.
        n_over: of them, those beyond the budget.
        largest_ratio: largest error / native error, over those whose native error is above 0; None without any.
        where: the statistic with that ratio, e.g. "layer 18 values maximum".
    """

    n: int
    n_over: int
    largest_ratio: float | None
    where: str | None


def numeric_error(ours: torch.Tensor, truth: torch.Tensor) -> NumericError:
    """Compare two tensors of equal shape in FP64."""
    right = truth.double()
    difference = ours.to(truth.device).double() - right
    size = float(right.norm())
    apart = float(difference.norm())
    relative = apart / size if size else (0.0 if apart == 0 else float("inf"))
    return NumericError(float(difference.abs().max()), float(difference.square().mean().sqrt()), relative)


def row_errors(ours: Sequence[Rows], truth: Sequence[Rows], positions: Positions) -> dict[str, NumericError]:
    """Compare the rows at `positions` layer by layer; by "layer 0 keys", "layer 0 values", ..."""
    where = torch.as_tensor(positions, dtype=torch.int64)
    found = {}
    for layer, (mine, theirs) in enumerate(zip(ours, truth, strict=True)):
        for name, a, b in zip(Rows._fields, mine, theirs, strict=True):
            chosen = (each.index_select(2, where.to(each.device)) for each in (a, b))
            found[f"layer {layer} {name}"] = numeric_error(*chosen)
    return found


def check_budget(errors: dict[str, NumericError], native: dict[str, NumericError]) -> BudgetCheck:
    """Compare maximum and RMS of every entry with `BUDGET` times the native one."""
    ratios: dict[str, float] = {}
    n = n_over = 0
    for name, error in errors.items():
        for what in ("maximum", "rms"):
            mine, limit = getattr(error, what), getattr(native[name], what)
            n += 1
            n_over += not mine <= BUDGET * limit
            if limit > 0:
                ratios[f"{name} {what}"] = mine / limit
    where = max(ratios, key=ratios.__getitem__) if ratios else None
    return BudgetCheck(n, n_over, ratios[where] if where else None, where)
