"""One context with several records, each with its edit and a question about it."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from cachemend.datasets.edit_background import SPLITS
from cachemend.datasets.edit_case import check_range, digest_of
from cachemend.repair_core.edits import Change, Edits
from cachemend.repair_core.errors import InputError
from cachemend.repair_core.intervals import Interval
from cachemend.repair_core.replacement import Replacement


class SpanChange(NamedTuple):
    """A rewritten span of tokens; the replacement has its length."""

    start: int
    stop: int
    replacement_ids: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Probe:
    """A question about one record; fields as in `EditCase`."""

    condition: str
    family: str
    query_ids: tuple[int, ...]
    relevance_ids: tuple[int, ...]
    query_text: str
    old_answer: str
    new_answer: str
    old_ids: tuple[int, ...]
    new_ids: tuple[int, ...]
    carrier: Interval
    block_stop: int

    def __post_init__(self) -> None:
        for name in ("query_ids", "relevance_ids", "old_ids", "new_ids"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
            if not getattr(self, name):
                raise InputError(f"probe {self.query_text!r}: {name} must not be empty")
        object.__setattr__(self, "carrier", Interval(*self.carrier))


@dataclass(frozen=True, kw_only=True)
class EditSequenceCase:
    """Several length-preserving edits of one context, to be made at once or one after another.

    Attributes:
        case_id: unique in its cohort; names roster, number of records and seed.
        split: "dev" or "held-out".
        seed: the case's seed.
        original_ids: the context before any edit; template opening included.
        context_text: the context as rendered after all edits.
        changes: one per record, in the order of the text; made one after another, in this order.
        probes: the question about the record of each change; its answer does not depend on the other changes.
    """

    case_id: str
    split: str
    seed: int
    original_ids: tuple[int, ...]
    context_text: str
    changes: tuple[SpanChange, ...]
    probes: tuple[Probe, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "original_ids", tuple(self.original_ids))
        changes = tuple(SpanChange(start, stop, tuple(ids)) for start, stop, ids in self.changes)
        object.__setattr__(self, "changes", changes)
        object.__setattr__(self, "probes", tuple(_probe(probe) for probe in self.probes))
        if self.split not in SPLITS:
            raise InputError(f"case {self.case_id}: split {self.split!r} is none of {', '.join(SPLITS)}")
        if not changes or len(changes) != len(self.probes):
            raise InputError(f"case {self.case_id}: {len(changes)} changes and {len(self.probes)} probes must pair")
        for number, (change, probe) in enumerate(zip(changes, self.probes, strict=True)):
            check_range(self.case_id, f"changes[{number}]", Interval(*change[:2]), self.n_tokens)
            check_range(self.case_id, f"carrier of probes[{number}]", probe.carrier, self.n_tokens)
            if len(change.replacement_ids) != change.stop - change.start:
                raise InputError(f"case {self.case_id}: changes[{number}] does not keep its length")
        if len(self.edits.edited_ids) != self.n_tokens:
            raise InputError(f"case {self.case_id}: its changes do not keep the context's length")

    @property
    def n_tokens(self) -> int:
        """Length of the context in tokens, the same after any of the changes."""
        return len(self.original_ids)

    @property
    def edits(self) -> Edits:
        """All changes at once."""
        return Edits(
            original_ids=self.original_ids,
            changes=[Change(start=a, stop=b, replacement_ids=ids) for a, b, ids in self.changes],
        )

    @property
    def edited_ids(self) -> tuple[int, ...]:
        """The context after all changes."""
        return self.edits.edited_ids

    @property
    def replacements(self) -> tuple[Replacement, ...]:
        """The changes one after another: each edits the context that those before it left."""
        out: list[Replacement] = []
        ids = self.original_ids
        for start, stop, replacement_ids in self.changes:
            out.append(Replacement(original_ids=ids, start=start, stop=stop, replacement_ids=replacement_ids))
            ids = out[-1].edited_ids
        return tuple(out)

    @cached_property
    def digest(self) -> str:
        """SHA-256 hex digest over all fields."""
        return digest_of(self)


def _probe(value: Any) -> Probe:
    """A probe, also from the fields that a file holds."""
    return value if isinstance(value, Probe) else Probe(**value)
