"""What is known of every row of a cache, and how edits and refreshes change it."""

from dataclasses import dataclass
from enum import IntEnum

import torch

from cachemend.repair_core.edits import Edit
from cachemend.repair_core.errors import Refused


class RowState(IntEnum):
    """What is known of one cached row."""

    VALID = 0
    """What a clean prefill computes: neither it nor any row it read is stale."""
    STALE = 1
    """Moved to its new position, but computed before an edit of the text it reads."""
    REFRESHED = 2
    """Computed under the present context, but some row before it was not valid."""
    UNKNOWN = 3
    """From a cache that carried no marks."""
    MISSING = 4
    """Zeros in the place of an inserted token: not computed yet, and not to be read."""


@dataclass(frozen=True, kw_only=True)
class Ledger:
    """State and age of every row; never modified, each event makes a new one.

    Valid rows always form the beginning of a sequence: a row is valid only where every row before it is.

    Attributes:
        row_states: uint8 [batch, N] of `RowState`, on the CPU.
        edits_missed: int32 [batch, N], the edits of earlier text made since the row was computed. At least 1 for a
            stale row and 0 for every other: a refreshed row has seen all edits itself, though it read rows that had
            not; of an unknown row, edits are counted from its first mark on.
    """

    row_states: torch.Tensor
    edits_missed: torch.Tensor

    @classmethod
    def uniform(cls, batch: int, length: int, state: RowState) -> "Ledger":
        """Rows all in one state, none of which has missed an edit."""
        return cls(
            row_states=torch.full((batch, length), state, dtype=torch.uint8),
            edits_missed=torch.zeros((batch, length), dtype=torch.int32),
        )

    def cut(self, length: int) -> "Ledger":
        """The first `length` rows."""
        return Ledger(row_states=self.row_states[:, :length], edits_missed=self.edits_missed[:, :length])

    def take(self, sequences: torch.Tensor) -> "Ledger":
        """The sequences of these batch indices, int64 [n]."""
        index = sequences.cpu()
        return Ledger(row_states=self.row_states[index], edits_missed=self.edits_missed[index])

    def appended(self, length: int) -> "Ledger":
        """With the rows a forward appended since, up to `length`: each has read every row before it."""
        batch, known = self.row_states.shape
        fresh = Ledger.uniform(batch, length - known, RowState.MISSING)
        joined = Ledger(
            row_states=torch.cat((self.row_states, fresh.row_states), dim=1),
            edits_missed=torch.cat((self.edits_missed, fresh.edits_missed), dim=1),
        )
        return joined.refreshed(torch.arange(known, length).expand(batch, -1))

    def edited(self, edit: Edit) -> "Ledger":
        """After `edit`: the prefix as it was, retained rows behind it stale, inserted rows missing."""
        batch = self.row_states.shape[0]
        out = Ledger.uniform(batch, len(edit.edited_ids), RowState.MISSING)
        kept, prefix = edit.prefix_length, self.cut(edit.prefix_length)
        out.row_states[:, :kept], out.edits_missed[:, :kept] = prefix.row_states, prefix.edits_missed
        source, target = (torch.tensor(p) for p in (edit.suffix_original_positions, edit.suffix_positions))
        # An inserted row that was never computed has no content that could be stale.
        missing = self.row_states[:, source] == RowState.MISSING
        out.row_states[:, target] = torch.where(missing, int(RowState.MISSING), int(RowState.STALE)).to(torch.uint8)
        out.edits_missed[:, target] = self.edits_missed[:, source] + (~missing).int()
        return out

    def refreshed(self, positions: torch.Tensor) -> "Ledger":
        """After rows `positions` [batch, B] were computed: valid where every row before is, else refreshed."""
        fresh = torch.zeros_like(self.row_states, dtype=torch.bool).scatter_(1, positions, value=True)
        sound = fresh | (self.row_states == RowState.VALID)
        valid = sound.long().cumprod(dim=1).bool()
        computed = torch.where(valid, int(RowState.VALID), int(RowState.REFRESHED)).to(torch.uint8)
        return Ledger(
            row_states=torch.where(fresh, computed, self.row_states),
            edits_missed=self.edits_missed.masked_fill(fresh, 0),
        )

    def require_computed(self, what: str, but: torch.Tensor | None = None) -> None:
        """Refuse rows that were never computed, except those at positions `but` [batch, B].

        Raises:
            Refused: an inserted row is still missing; attention would read zeros.
        """
        missing = self.row_states == RowState.MISSING
        if but is not None:
            missing = missing.scatter(1, but, value=False)
        if missing.any():
            first = int(missing.any(dim=0).nonzero()[0])
            raise Refused(
                f"{what} would read rows of inserted tokens that were never computed ({int(missing.sum())}, the first "
                f"at position {first}); refresh them first, all in one call"
            )
