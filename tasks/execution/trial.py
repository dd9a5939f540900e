"""One refresh of random tokens by a line, and whether its rows are right (paper sections 13.3 and 13.5)."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

import torch
from torch import nn

from cachemend.repair_core import Deletion, RepairedCache, prefill, refresh, shift
from cachemend.repair_core.architecture import text_config
from cachemend.repair_core.caches import Rows, clone_rows, read_rows
from cachemend.repair_core.forward import input_device
from cachemend.repair_core.intervals import Positions
from cachemend.repair_core.invariants import caches_equal, changed_rows
from cachemend.repair_core.timing import synchronize
from cachemend.tasks.execution.lines import OWN_ATTENTION, Line
from cachemend.tasks.execution.supports import random_deletion
from cachemend.tasks.execution.trying import OK, Attempt, attempt

REFERENCE = "interval"
_HALF_LIMIT = 2e-2
LIMITS = {torch.float32: 1e-4, torch.bfloat16: _HALF_LIMIT, torch.float16: _HALF_LIMIT}
"""Largest relative L2 difference of fresh rows to those of the interval-wise executor, by precision."""


@dataclass(frozen=True, kw_only=True)
class Checked:
    """What an untimed call of a line showed.

    Attributes:
        attempt: how it ended.
        difference: of its fresh rows to those of the interval-wise executor, relative L2; NaN where they hold NaN.
        limit: the largest difference that is right.
        kept_bits: whether all other rows kept theirs.
    """

    attempt: Attempt
    difference: float | None = None
    limit: float = 0.0
    kept_bits: bool | None = None

    def columns(self, unchanged: bool) -> dict[str, Any]:
        """As columns; `unchanged` says whether the input was intact after all calls."""
        outcome, error = self.attempt
        if outcome == "ok" and not (self.kept_bits and unchanged):
            outcome, error = "case_error", "the refresh changed its input or rows that were not selected"
        elif self.difference is not None and not self.difference <= self.limit:
            off = f"differ from the interval-wise executor's by {self.difference:.3g} in relative L2"
            outcome, error = "case_error", f"the fresh rows {off}, more than {self.limit:g}"
        finite = self.difference is not None and isfinite(self.difference)
        return {
            "relative_l2": self.difference if finite else None,
            "input_unchanged": unchanged if self.attempt == OK else None,
            "unselected_bit_identical": self.kept_bits,
            "outcome": outcome,
            "error": error,
        }


class Trial:
    """The shifted cache of a context of random tokens, and refreshes of it."""

    def __init__(self, model: nn.Module, deletion: Deletion, shifted: RepairedCache) -> None:
        self.model, self.deletion, self.shifted = model, deletion, shifted
        self.kept = clone_rows(read_rows(shifted))
        self._references: dict[bytes, torch.Tensor] = {}

    @classmethod
    def of(cls, model: nn.Module, length: int, seed: int = 0) -> "Trial":
        """One of `length` edited tokens."""
        deletion = random_deletion(length, text_config(model).vocab_size, seed)
        return cls(model, deletion, shift(model, prefill(model, deletion.original_ids), deletion))

    def unchanged(self) -> bool:
        """Whether the input is what it was."""
        return caches_equal(self.kept, read_rows(self.shifted))

    def run(self, line: Line, support: Positions) -> RepairedCache:
        attention = line.backend(input_device(self.model), next(self.model.parameters()).dtype)
        out = refresh(self.model, self.shifted, self.deletion.edited_ids, support, line.executor, attention)
        synchronize(self.model)
        return out

    def check(self, line: Line, support: Positions) -> Checked:
        """Run a line once; compare its rows with the interval-wise executor's, and the others with their old bits."""
        references: list[torch.Tensor] = []
        tried = attempt(f"{REFERENCE}, the reference", lambda: references.append(self._reference(support)))
        if tried != OK:
            return Checked(attempt=tried)
        out: list[Rows] = []
        tried = attempt(f"{line.executor}/{line.attention}", lambda: out.extend(read_rows(self.run(line, support))))
        if tried != OK:
            return Checked(attempt=tried)
        (reference,) = references
        kept_bits = set(changed_rows(self.kept, out)) <= set(support)
        difference = float((_selected(out, support) - reference).norm() / reference.norm())
        limit = LIMITS[next(self.model.parameters()).dtype]
        return Checked(attempt=tried, difference=difference, limit=limit, kept_bits=kept_bits)

    def _reference(self, support: Positions) -> torch.Tensor:
        key = support.tobytes()
        if key not in self._references:
            rows = read_rows(self.run(Line(REFERENCE, OWN_ATTENTION), support))
            self._references[key] = _selected(rows, support)
        return self._references[key]


def _selected(rows: Sequence[Rows], support: Positions) -> torch.Tensor:
    where = torch.from_numpy(support)
    return torch.stack([t.index_select(2, where.to(t.device)).double().cpu() for layer in rows for t in layer])
