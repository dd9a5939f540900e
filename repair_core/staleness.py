"""A limit on how many edits a cache may live through; beyond it the context is prefilled anew."""

from dataclasses import dataclass
from operator import index

import torch

from cachemend.repair_core.caches import RepairedCache
from cachemend.repair_core.errors import InputError
from cachemend.repair_core.intervals import Positions


@dataclass(frozen=True)
class StalenessLimit:
    """How stale the stalest row may be after a repair.

    Most rows are never recomputed: a policy leaves the context's last token alone and takes few of the others, an
    allocator spends a small budget. The stalest row has therefore missed every edit before it since the last prefill,
    and the limit says how many edits a cache may live through. It says nothing of how far the rows that a query reads
    are from a clean prefill.

    Attributes:
        limit: the most edits of earlier text that a row may have missed since it was computed. 0: none. Every repair by
            a policy is then a prefill, unless nothing is retained behind the edit; one by an allocator is kept where
            its budget covers everything behind the edit.
    """

    limit: int

    def __post_init__(self) -> None:
        try:
            value = index(self.limit)
        except TypeError as error:
            raise InputError(f"staleness limit {self.limit!r} is no whole number; give 0 or more edits") from error
        if value < 0 or isinstance(self.limit, bool):
            raise InputError(f"staleness limit {self.limit!r} is no number of edits; give 0 or more")
        object.__setattr__(self, "limit", value)

    def passed_by(self, shifted: RepairedCache, positions: Positions) -> int | None:
        """The most edits that a row will have missed once `positions` are recomputed, if beyond the limit; else None.

        Args:
            shifted: the cache of the edited context before its repair.
            positions: int64 [B], sorted, everything that the repair recomputes.
        """
        batch = shifted.row_states.shape[0]
        planned = shifted.ledger.refreshed(torch.from_numpy(positions).expand(batch, -1))
        worst = int(planned.edits_missed.max())
        return worst if worst > self.limit else None
