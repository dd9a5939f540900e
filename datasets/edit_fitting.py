"""What an item needs of its tokenizers: background of the right length, and an edit that all of them see alike."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Self

from cachemend.datasets.edit_background import Paragraph, draw_paragraph, load_background
from cachemend.datasets.edit_prompt import Ask, Context, PlacedTokens, Tokens, edit_frame, placed_tokens, tokenize
from cachemend.datasets.edit_spec import LONGEST_SPAN, EditRoster, EditSequenceRoster
from cachemend.datasets.edit_text import DOCUMENT_BREAK, Placed
from cachemend.datasets.niah_candidate import Unusable
from cachemend.datasets.niah_prompt import Frame
from cachemend.datasets.rendering import encode
from cachemend.datasets.tokenizer_identity import tokenizer_identity
from cachemend.repair_core.errors import InputError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_UNEQUAL = "old and new text differ in length under tokenizer {!r}"


class Gathered(NamedTuple):
    """Background documents of an item, and how many tokens stand before each (and at the end) without records."""

    documents: tuple[str, ...]
    starts: tuple[int, ...]

    def nearest_break(self, depth: float) -> int:
        """Return the document before which a record stands nearest to a relative depth."""
        target = depth * self.starts[-1]
        return min(range(len(self.starts)), key=lambda index: (abs(self.starts[index] - target), index))


@dataclass(frozen=True, kw_only=True)
class Fitting:
    """A tokenizer, the others that must see every edit alike, and the paragraphs a roster may use.

    Attributes:
        tokenizer: the model's.
        others: name and tokenizer of each other one.
        name: the name of `tokenizer` in reasons.
        frame: what the roster's style puts around a message.
        pool: the paragraphs of the roster's split.
        source: the background's name, for messages.
    """

    tokenizer: "PreTrainedTokenizerBase"
    others: tuple[tuple[str, "PreTrainedTokenizerBase"], ...]
    name: str
    frame: Frame
    pool: tuple[Paragraph, ...]
    source: str
    _counts: dict[str, int] = field(default_factory=dict, repr=False)

    @classmethod
    def of(
        cls,
        tokenizer: "PreTrainedTokenizerBase",
        others: Sequence["PreTrainedTokenizerBase"],
        roster: EditRoster | EditSequenceRoster,
    ) -> Self:
        """Read the roster's background and the tokenizer's chat template."""
        background = load_background(roster.background)
        return cls(
            tokenizer=tokenizer,
            others=tuple((tokenizer_identity(other)["name"], other) for other in others),
            name=tokenizer_identity(tokenizer)["name"],
            frame=edit_frame(tokenizer, roster.style),
            pool=background.of_split(roster.split),
            source=background.name,
        )

    def count(self, text: str) -> int:
        """Tokens of a text by itself."""
        if text not in self._counts:
            self._counts[text] = len(encode(self.tokenizer, text).ids)
        return self._counts[text]

    def gather(self, seed: int, n_tokens: int, before: str, reserved: int) -> Gathered:
        """Draw shuffled documents until they and `reserved` tokens come as near to `n_tokens` as documents allow.

        Args:
            seed: decides which documents, and their order.
            n_tokens: tokens wanted.
            before: what stands before the first document.
            reserved: tokens of the records.

        Raises:
            InputError: too few paragraphs.
            Unusable: no room for documents beside the records.
        """
        documents: list[str] = []
        starts = [len(self.frame.leading_ids) + self.count(before)]
        used: set[int] = set()
        while starts[-1] + reserved < n_tokens:
            paragraph = draw_paragraph(self.pool, used, seed, "paragraph", len(documents))
            if paragraph is None:
                raise InputError(
                    f"background {self.source!r} holds {starts[-1]} tokens for this split; contexts need {n_tokens}"
                )
            documents.append(paragraph.document)
            starts.append(starts[-1] + self.count(documents[-1] + DOCUMENT_BREAK))
        if len(starts) > 1 and starts[-1] + reserved - n_tokens > n_tokens - (starts[-2] + reserved):
            del documents[-1], starts[-1]
        if not documents:
            raise Unusable("the records leave no room for background documents")
        return Gathered(tuple(documents), tuple(starts))

    def check_lengths(self, old: str, new: str) -> None:
        """See quickly, by the record's text alone, whether an edit keeps its length.

        Raises:
            Unusable: a tokenizer by which it does not; the reason names it.
        """
        if self.count(old) != self.count(new):
            raise Unusable(_UNEQUAL.format(self.name))
        for name, other in self.others:
            if len(encode(other, old).ids) != len(encode(other, new).ids):
                raise Unusable(_UNEQUAL.format(name))

    def tokens(self, context: Context, question: Ask) -> Tokens:
        """Tokenize one prompt; raises Unusable as `edit_prompt.tokenize` does."""
        return tokenize(self.tokenizer, self.frame, context, question)

    def versions(self, contexts: tuple[Context, Context], question: Ask) -> tuple[Tokens, Tokens]:
        """Tokenize the text before and after the edits and check that every tokenizer sees them alike.

        Raises:
            Unusable: a tokenizer by which the edits change the length, spread beyond the edited fields, or make a
                field longer than the longest span; the reason names it.
        """
        before, after = (self.tokens(context, question) for context in contexts)
        if before.query != after.query:
            raise Unusable("the edit changes how the question tokenizes")
        _compare(self.name, (before.context, before.placed), (after.context, after.placed))
        return before, after

    def views(self, contexts: tuple[Context, Context]) -> list[tuple[str, int, tuple[PlacedTokens, ...]]]:
        """Check the plain text under every other tokenizer; return name, length and places under each.

        Raises:
            Unusable: as `versions`.
        """
        seen = []
        for name, other in self.others:
            before, after = (_plain(other, context) for context in contexts)
            _compare(name, before, after)
            seen.append((name, len(after[0]), after[1]))
        return seen


def _plain(tokenizer: "PreTrainedTokenizerBase", context: Context) -> tuple[tuple[int, ...], tuple[PlacedTokens, ...]]:
    encoded = encode(tokenizer, context.body)
    moved = (Placed(*(span.moved(-len(context.header)) for span in parts)) for parts in context.placed)
    return encoded.ids, tuple(placed_tokens(encoded, parts) for parts in moved)


def _compare(
    name: str,
    before: tuple[tuple[int, ...], tuple[PlacedTokens, ...]],
    after: tuple[tuple[int, ...], tuple[PlacedTokens, ...]],
) -> None:
    for old, new in zip(before[1], after[1], strict=True):
        lengths = [parts.field.stop - parts.field.start for parts in (old, new)]
        if lengths[0] != lengths[1]:
            raise Unusable(_UNEQUAL.format(name))
        if lengths[0] > LONGEST_SPAN:
            raise Unusable(f"the edit spans more than {LONGEST_SPAN} tokens under tokenizer {name!r}")
    if before[1] != after[1] or _outside(*before) != _outside(*after):
        raise Unusable(f"tokenizer {name!r} splits the text around the edit differently")
    for parts in after[1]:
        if before[0][slice(*parts.field)] == after[0][slice(*parts.field)]:
            raise Unusable(f"old and new text are the same tokens under tokenizer {name!r}")


def _outside(ids: tuple[int, ...], placed: tuple[PlacedTokens, ...]) -> list[int]:
    inside = {index for parts in placed for index in range(*parts.field)}
    return [token for index, token in enumerate(ids) if index not in inside]
