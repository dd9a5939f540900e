"""What was done to a context: a deletion."""

from collections.abc import Sequence
from dataclasses import dataclass
from operator import index

from cachemend.repair_core.errors import InputError


def _token_ids(name: str, ids: Sequence[int]) -> tuple[int, ...]:
    try:
        out = tuple(index(i) for i in ids)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must be a flat list of token ids (whole numbers): {error}") from error
    if any(i < 0 for i in out):
        raise InputError(f"{name} holds the negative token id {min(out)}; token ids are non-negative integers")
    return out


@dataclass(frozen=True, kw_only=True)
class Deletion:
    """A context ``x = p + e + s`` from which the span ``e`` is deleted (paper section 3.1).

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
            object.__setattr__(self, name, _token_ids(name, getattr(self, name)))
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


def require_equal_lengths(deletions: Sequence[Deletion]) -> None:
    """Raise InputError unless all deletions of a batch share prefix, deleted and suffix lengths."""
    shapes = {(d.prefix_length, d.deleted_length, d.suffix_length) for d in deletions}
    if len(shapes) != 1:
        raise InputError(f"deletions of a batch must share prefix, deleted and suffix lengths, not {sorted(shapes)}")
