"""A span of tokens replaced by others, and what may be recomputed behind it (edit paper, "The repair interface")."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from transformers import PreTrainedTokenizerBase

from cachemend.repair_core.edits import Edit, position_range, token_ids
from cachemend.repair_core.errors import InputError, Refused
from cachemend.repair_core.intervals import Interval, Positions
from cachemend.repair_core.text import require_text, special_ids
from cachemend.repair_core.whole import whole


@dataclass(frozen=True, kw_only=True)
class Replacement:
    """A context one span of which is replaced, by as many tokens or by another number. An `Edit`.

    Token ids are taken as they are: special and chat-template tokens are allowed. Only `replacement_from_texts` refuses
    an edit that touches them.

    Attributes:
        original_ids: the context before the edit.
        start: first token that is replaced.
        stop: one past the last token that is replaced.
        replacement_ids: what stands there instead, at least one token.
    """

    original_ids: tuple[int, ...]
    start: int
    stop: int
    replacement_ids: Sequence[int]

    def __post_init__(self) -> None:
        for name in ("original_ids", "replacement_ids"):
            object.__setattr__(self, name, token_ids(name, getattr(self, name)))
        for name in ("start", "stop"):
            try:
                object.__setattr__(self, name, whole(getattr(self, name)))
            except TypeError as error:
                raise InputError(f"{name} of the span must be a token position (a whole number): {error}") from error
        where, length = f"span {self.start}..{self.stop}", len(self.original_ids)
        if not 0 <= self.start < self.stop:
            raise InputError(f"{where} is no span of tokens to replace; give 0 <= start < stop")
        if self.stop > length:
            raise InputError(f"{where} ends behind the context; original_ids holds {length} tokens")
        if not self.replacement_ids:
            raise InputError(f"replacement_ids of {where} is empty; use Deletion to remove tokens")
        if self.original_ids[self.start : self.stop] == self.replacement_ids:
            raise InputError(f"{where} is replaced by itself ({list(self.replacement_ids)}); nothing changes")

    @property
    def in_place(self) -> bool:
        """Whether the replacement has the length of what it replaces, so that no later token moves."""
        return len(self.replacement_ids) == self.stop - self.start

    @property
    def span(self) -> Interval:
        """The replacement in the edited context; always recomputed."""
        return Interval(self.start, self.start + len(self.replacement_ids))

    @cached_property
    def pool(self) -> Positions:
        """D = [span.stop, n - 1): retained positions behind the span, without the context's last token."""
        return downstream_pool(self)

    @cached_property
    def edited_ids(self) -> tuple[int, ...]:
        """The context after the edit."""
        return (*self.original_ids[: self.start], *self.replacement_ids, *self.suffix_ids)

    @property
    def prefix_length(self) -> int:
        return self.start

    @cached_property
    def suffix_ids(self) -> Sequence[int]:
        """The tokens behind the span."""
        return self.original_ids[self.stop :]

    @property
    def suffix_length(self) -> int:
        return len(self.original_ids) - self.stop

    @cached_property
    def suffix_positions(self) -> Positions:
        """span.stop .. n - 1."""
        return position_range(self.span.stop, len(self.edited_ids))

    @cached_property
    def suffix_original_positions(self) -> Positions:
        """stop .. to the end of the original context."""
        return position_range(self.stop, len(self.original_ids))

    @cached_property
    def deleted_positions(self) -> Positions:
        """start .. stop - 1."""
        return position_range(self.start, self.stop)

    @cached_property
    def inserted_positions(self) -> Positions:
        """The span."""
        return position_range(*self.span)


def is_in_place(edit: Edit) -> bool:
    """Whether no retained token moves and the context keeps its length."""
    same = len(edit.original_ids) == len(edit.edited_ids)
    return same and np.array_equal(edit.suffix_positions, edit.suffix_original_positions)


def downstream_pool(edit: Edit) -> Positions:
    """The retained positions behind the first change, ascending, without the last token of the edited context.

    That token is the neighbour of the query, which is computed afresh in any case.
    """
    pool = edit.suffix_positions[edit.suffix_positions < len(edit.edited_ids) - 1]
    pool.setflags(write=False)
    return pool


def changed_span(edit: Edit) -> Interval:
    """Where the new tokens of an edit of one place stand in the edited context; empty after a deletion.

    Raises:
        InputError: the edit changes several places.
    """
    start, before, after = edit.prefix_length, len(edit.original_ids), len(edit.edited_ids)
    stop = start + edit.inserted_positions.size
    retained = edit.suffix_length
    one = stop + retained == after and np.array_equal(edit.suffix_positions, np.arange(stop, after))
    if not one or not np.array_equal(edit.suffix_original_positions, np.arange(before - retained, before)):
        raise InputError("the edit changes several places; this needs one changed span, so choose for each on its own")
    return Interval(start, stop)


def replacement_from_texts(tokenizer: PreTrainedTokenizerBase, before: str, after: str) -> Replacement:
    """Return the replacement of one span of tokens that turns the text `before` into `after`.

    Both texts are tokenized whole, no special tokens added. Where the tokens only grow or shrink, one unchanged
    neighbour counts as replaced too. An edit of special or chat-template tokens is refused; `Replacement` itself does
    not look for them.

    Args:
        tokenizer: of the model that reads the context.
        before: the context as it was cached, rendered.
        after: the edited context, rendered.

    Raises:
        InputError: no tokenizer, no texts, equal ones, or texts that the tokenizer reads alike.
        Refused: the changed tokens hold a special token or one that the chat template writes; it is named.
    """
    if not isinstance(tokenizer, PreTrainedTokenizerBase):
        raise InputError(f"tokenizer is a {type(tokenizer).__name__}; give that of the model")
    require_text("before", before, "the context before the edit")
    require_text("after", after, "the context after the edit")
    if before == after:
        raise InputError("the texts before and after the edit are equal; an edit changes the text")
    old, new = (tuple(tokenizer(text, add_special_tokens=False)["input_ids"]) for text in (before, after))
    if old == new:
        raise InputError("the texts before and after the edit differ, but the tokenizer reads them as the same tokens")
    start = _common(old, new)
    end = _common(old[start:][::-1], new[start:][::-1])
    protected = _template_ids(tokenizer)
    if start + end == min(len(old), len(new)):
        if start and (old[start - 1] not in protected or not end):
            start -= 1
        elif end:
            end -= 1
        else:
            raise InputError("one of the texts before and after the edit has no tokens; give two contexts")
    span, replacement = old[start : len(old) - end], new[start : len(new) - end]
    for token in (*span, *replacement):
        if token in protected:
            raise Refused(
                f"the edit touches the special or chat-template token {tokenizer.convert_ids_to_tokens(token)!r}; "
                "edit the text between such tokens"
            )
    return Replacement(original_ids=old, start=start, stop=len(old) - end, replacement_ids=replacement)


def _common(a: Sequence[int], b: Sequence[int]) -> int:
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def _template_ids(tokenizer: PreTrainedTokenizerBase) -> set[int]:
    template = str(tokenizer.chat_template or "")
    written = {i for i, token in tokenizer.added_tokens_decoder.items() if token.content in template}
    return special_ids(tokenizer) | written
