"""What only a diagnostic may know: the clean cache, the answers and where the answer stands."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from transformers.cache_utils import Cache

from cachemend.repair_core.edits import token_ids
from cachemend.repair_core.errors import InputError
from cachemend.repair_core.intervals import Interval


@dataclass(frozen=True, kw_only=True, eq=False)
class Truth:
    """The truth about one edited context.

    Attributes:
        clean: the cache of a fresh prefill of the edited context, batch 1.
        query_ids: what follows the context up to where the answer begins, closing and generation tokens included.
        old_ids: the answer before the edit, as tokens.
        new_ids: the answer after it.
        carrier: the tokens of the edited context that hold the answer.
        margins: what was measured so far, by the positions that were clean; filled by `clean_row_margins`.
    """

    clean: Cache
    query_ids: Sequence[int]
    old_ids: Sequence[int]
    new_ids: Sequence[int]
    carrier: Interval
    margins: dict[tuple[int, ...], float] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        for name in ("query_ids", "old_ids", "new_ids"):
            object.__setattr__(self, name, token_ids(name, getattr(self, name)))
            if not getattr(self, name):
                raise InputError(f"{name} is empty; give at least one token")
        object.__setattr__(self, "carrier", Interval(*self.carrier))
        if not 0 <= self.carrier.start < self.carrier.stop:
            raise InputError(f"carrier {self.carrier.start}..{self.carrier.stop} is no span; give 0 <= start < stop")
