"""What was done to a context: one deletion, or several edits at once."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from cachemend.repair_core.errors import InputError
from cachemend.repair_core.intervals import Positions
from cachemend.repair_core.whole import whole


class Edit(Protocol):
    """What shift, allocation, refresh and replay need to know of an edit; position arrays are read-only."""

    @property
    def original_ids(self) -> tuple[int, ...]:
        """The context before the edit."""

    @property
    def edited_ids(self) -> tuple[int, ...]:
        """The context after it."""

    @property
    def prefix_length(self) -> int:
        """P, the tokens before the first change."""

    @property
    def suffix_ids(self) -> Sequence[int]:
        """The retained tokens after the first change; inserted tokens are not among them."""

    @property
    def suffix_length(self) -> int:
        """S, the number of `suffix_ids`."""

    @property
    def suffix_positions(self) -> Positions:
        """Int64 [S], where the retained suffix stands in the edited context, ascending."""

    @property
    def suffix_original_positions(self) -> Positions:
        """Int64 [S], where the same tokens stood in the original context, ascending."""

    @property
    def deleted_positions(self) -> Positions:
        """Int64, positions in the original context of the tokens that vanish, ascending."""

    @property
    def inserted_positions(self) -> Positions:
        """Int64, positions in the edited context of new tokens, ascending; they have no cached row."""


def token_ids(name: str, ids: Sequence[int]) -> tuple[int, ...]:
    """Return `ids` as a tuple; `name` is what an InputError calls them."""
    try:
        out = tuple(whole(i) for i in ids)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must be a flat list of token ids (whole numbers): {error}") from error
    if any(i < 0 for i in out):
        raise InputError(f"{name} holds the negative token id {min(out)}; token ids are non-negative integers")
    return out


def _fixed(positions: Positions) -> Positions:
    """The same array, read-only: an edit hands it out many times."""
    positions.setflags(write=False)
    return positions


def position_range(start: int, stop: int) -> Positions:
    """Int64 start .. stop - 1, read-only."""
    return _fixed(np.arange(start, stop, dtype=np.int64))


@dataclass(frozen=True, kw_only=True)
class Deletion:
    """A context ``x = p + e + s`` from which the span ``e`` is deleted (paper section 3.1). An `Edit`.

    Attributes:
        prefix_ids: p, the retained prefix as token ids; its cache stays valid.
        deleted_ids: e, at least one token id.
        suffix_ids: s, the retained suffix whose cache is stale; may be empty.
    """

    prefix_ids: Sequence[int]
    deleted_ids: Sequence[int]
    suffix_ids: Sequence[int]

    def __post_init__(self) -> None:
        for name in ("prefix_ids", "deleted_ids", "suffix_ids"):
            object.__setattr__(self, name, token_ids(name, getattr(self, name)))
        if not self.deleted_ids:
            raise InputError("deleted_ids is empty; a deletion removes at least one token")
        if not self.prefix_ids and not self.suffix_ids:
            raise InputError("nothing is left after this deletion; prefix_ids or suffix_ids must hold a token")

    @property
    def prefix_length(self) -> int:
        return len(self.prefix_ids)

    @property
    def deleted_length(self) -> int:
        return len(self.deleted_ids)

    @property
    def suffix_length(self) -> int:
        return len(self.suffix_ids)

    @property
    def edited_ids(self) -> tuple[int, ...]:
        """x^- = p + s."""
        return (*self.prefix_ids, *self.suffix_ids)

    @property
    def original_ids(self) -> tuple[int, ...]:
        """x = p + e + s."""
        return (*self.prefix_ids, *self.deleted_ids, *self.suffix_ids)

    @cached_property
    def suffix_positions(self) -> Positions:
        """P .. P + S - 1."""
        return position_range(self.prefix_length, self.prefix_length + self.suffix_length)

    @cached_property
    def suffix_original_positions(self) -> Positions:
        """P + d .. P + d + S - 1."""
        start = self.prefix_length + self.deleted_length
        return position_range(start, start + self.suffix_length)

    @cached_property
    def deleted_positions(self) -> Positions:
        """P .. P + d - 1."""
        return position_range(self.prefix_length, self.prefix_length + self.deleted_length)

    @cached_property
    def inserted_positions(self) -> Positions:
        """None."""
        return position_range(0, 0)


@dataclass(frozen=True, kw_only=True)
class Change:
    """One place where a context changes: a deletion, an insertion (``start == stop``) or a replacement.

    Attributes:
        start: first token that vanishes, or the token before which the insertion goes; position in the original.
        stop: one past the last token that vanishes.
        replacement_ids: what stands there instead; empty for a deletion.
    """

    start: int
    stop: int
    replacement_ids: Sequence[int] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "replacement_ids", token_ids("replacement_ids", self.replacement_ids))
        for name in ("start", "stop"):
            try:
                object.__setattr__(self, name, whole(getattr(self, name)))
            except TypeError as error:
                raise InputError(f"{name} of a change must be a token position (a whole number): {error}") from error
        if not 0 <= self.start <= self.stop:
            raise InputError(f"change {self.start}..{self.stop} is no span; give 0 <= start <= stop")


@dataclass(frozen=True, kw_only=True)
class Edits:
    """Several changes made to a context at once. An `Edit`.

    The suffix is what is retained after the first change, inserted tokens excluded: those have no cached row, are
    always computed, and cost no budget.

    Attributes:
        original_ids: the context before the edit, at least one token id.
        changes: at least one, in order. A retained token stands between two of them: what touches is one change.
    """

    original_ids: tuple[int, ...]
    changes: Sequence[Change]

    def __post_init__(self) -> None:
        object.__setattr__(self, "original_ids", token_ids("original_ids", self.original_ids))
        object.__setattr__(self, "changes", tuple(self.changes))
        if not self.changes:
            raise InputError("changes is empty; an edit makes at least one change")
        length, previous = len(self.original_ids), -1
        if not length:
            raise InputError("original_ids is empty; an edit needs a context of at least one token")
        for number, change in enumerate(self.changes):
            if not isinstance(change, Change):
                raise InputError(f"changes[{number}] is a {type(change).__name__}; give a Change")
            where = f"changes[{number}] ({change.start}..{change.stop})"
            if change.stop > length:
                raise InputError(f"{where} ends behind the context; original_ids holds {length} tokens")
            if change.start <= previous:
                raise InputError(
                    f"{where} starts before, in or right at the end of the one before it; "
                    "give changes in order and write those that touch as one"
                )
            if self.original_ids[change.start : change.stop] == change.replacement_ids:
                raise InputError(f"{where} replaces tokens by themselves; leave it out")
            previous = change.stop
        if not self.edited_ids:
            raise InputError("nothing is left after this edit; retain or insert at least one token")

    @cached_property
    def edited_ids(self) -> tuple[int, ...]:
        """The original with every change made."""
        out: list[int] = []
        done = 0
        for change in self.changes:
            out += self.original_ids[done : change.start]
            out += change.replacement_ids
            done = change.stop
        return (*out, *self.original_ids[done:])

    @property
    def prefix_length(self) -> int:
        return self.changes[0].start

    @cached_property
    def suffix_ids(self) -> tuple[int, ...]:
        """The retained tokens after the first change."""
        return tuple(self.original_ids[i] for i in self.suffix_original_positions)

    @property
    def suffix_length(self) -> int:
        return self.suffix_original_positions.size

    @cached_property
    def suffix_positions(self) -> Positions:
        """Every retained token moves by what the changes before it insert and delete."""
        grown = np.zeros(len(self.original_ids) + 1, dtype=np.int64)
        for change in self.changes:
            grown[change.stop] = len(change.replacement_ids) - (change.stop - change.start)
        kept = self.suffix_original_positions
        return _fixed(kept + grown.cumsum()[kept])

    @cached_property
    def suffix_original_positions(self) -> Positions:
        """Everything after the prefix that is not deleted."""
        after = np.arange(self.prefix_length, len(self.original_ids), dtype=np.int64)
        return _fixed(np.setdiff1d(after, self.deleted_positions, assume_unique=True))

    @cached_property
    def deleted_positions(self) -> Positions:
        """The spans of the changes."""
        spans = [np.arange(change.start, change.stop, dtype=np.int64) for change in self.changes]
        return _fixed(np.concatenate(spans))

    @cached_property
    def inserted_positions(self) -> Positions:
        """Everything after the prefix that has no counterpart in the original."""
        after = np.arange(self.prefix_length, len(self.edited_ids), dtype=np.int64)
        return _fixed(np.setdiff1d(after, self.suffix_positions, assume_unique=True))


def require_edit(name: str, edit: object) -> None:
    """Raise InputError unless `edit` is one; `name` is what it is called."""
    if not hasattr(edit, "edited_ids"):
        raise InputError(f"{name} is a {type(edit).__name__}; give a Deletion, a Replacement or Edits")


def require_equal_lengths(edits: Sequence[Edit]) -> None:
    """Raise InputError unless there are edits, which change the same positions of equally long contexts."""
    if not isinstance(edits, Sequence) or not edits:
        raise InputError(f"edits is {edits!r}; give a list of one edit per sequence")
    for number, edit in enumerate(edits):
        require_edit(f"edits[{number}]", edit)
    first = edits[0]
    for edit in edits[1:]:
        same = len(edit.original_ids) == len(first.original_ids) and edit.prefix_length == first.prefix_length
        for name in ("deleted_positions", "inserted_positions"):
            same = same and np.array_equal(getattr(edit, name), getattr(first, name))
        if not same:
            raise InputError(
                "edits of a batch must share prefix, deleted and suffix lengths and the positions they change, "
                f"not {_shape(first)} and {_shape(edit)} tokens before, deleted and after"
            )


def _shape(edit: Edit) -> tuple[int, int, int]:
    return edit.prefix_length, edit.deleted_positions.size, edit.suffix_length
