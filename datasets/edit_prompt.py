"""From documents and records to the whole prompt of an edit case, and from that to tokens."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from cachemend.datasets.alignment import boundary
from cachemend.datasets.edit_family import Family
from cachemend.datasets.edit_text import DOCUMENT_BREAK, Chars, Inserted, Placed, compose
from cachemend.datasets.niah_candidate import Unusable
from cachemend.datasets.niah_prompt import Frame
from cachemend.datasets.rendering import Encoded, encode, has_chat_template, leading_special_ids, render_chat
from cachemend.repair_core.intervals import Interval

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

STYLES = ("plain", "chat")
_PROBE = "[the message stands here]"


def edit_frame(tokenizer: "PreTrainedTokenizerBase", style: str) -> Frame:
    """Read off what a style puts around a message: the chat template's text, or in plain style special ids only.

    A tokenizer without a chat template renders plainly under either style.
    """
    if style == "chat" and has_chat_template(tokenizer):
        header, _, closing = render_chat(tokenizer, _PROBE).partition(_PROBE)
        return Frame((), header, closing, True)
    return Frame(leading_special_ids(tokenizer), "", "", False)


class Ask(NamedTuple):
    """A question as text: what leads to it, the bare question, and what follows up to the answer."""

    lead_in: str
    question: str
    closing: str

    @property
    def text(self) -> str:
        return self.lead_in + self.question + self.closing


def ask(frame: Frame, family: Family, subject: str) -> Ask:
    """Return the question about a subject; the template's closing tokens are part of it."""
    closing = family.chat_closing if frame.is_chat else family.closing
    return Ask(
        family.lead_in.format(subject=subject),
        family.question.format(subject=subject),
        frame.closing + closing.format(subject=subject),
    )


class Context(NamedTuple):
    """The text that is cached, up to where the question begins, and where the parts of its records stand in it."""

    header: str
    body: str
    placed: tuple[Placed, ...]

    @property
    def text(self) -> str:
        return self.header + self.body


def make_context(frame: Frame, instruction: str, documents: Sequence[str], records: Sequence[Inserted]) -> Context:
    """Put template header, instruction, documents and records together; the blank line at the end belongs to it."""
    before = frame.header + (f"{instruction}{DOCUMENT_BREAK}" if instruction else "")
    text, placed = compose(documents, records)
    moved = tuple(Placed(*(span.moved(len(before)) for span in parts)) for parts in placed)
    return Context(frame.header, f"{before[len(frame.header) :]}{text}{DOCUMENT_BREAK}", moved)


class PlacedTokens(NamedTuple):
    """Where the parts of a record stand among the context's tokens: every token with a character of the part."""

    field: Interval
    carrier: Interval
    block_stop: int


class Tokens(NamedTuple):
    """Token ids of context and query, and where the records stand."""

    context: tuple[int, ...]
    query: tuple[int, ...]
    placed: tuple[PlacedTokens, ...]


def covering(encoded: Encoded, span: Chars) -> Interval:
    """Return the tokens that hold a character of `span`."""
    start = bisect_right(encoded.offsets, span.start, key=lambda offsets: offsets[1])
    stop = bisect_left(encoded.offsets, span.stop, key=lambda offsets: offsets[0])
    return Interval(start, stop)


def placed_tokens(encoded: Encoded, placed: Placed, leading: int = 0) -> PlacedTokens:
    """Map the parts of a record to tokens, behind `leading` tokens that stand for no text."""
    field, carrier, block = (covering(encoded, span) for span in placed)
    return PlacedTokens(
        Interval(field.start + leading, field.stop + leading),
        Interval(carrier.start + leading, carrier.stop + leading),
        block.stop + leading,
    )


def tokenize(tokenizer: "PreTrainedTokenizerBase", frame: Frame, context: Context, question: Ask) -> Tokens:
    """Tokenize a whole prompt once and part it where the question begins.

    Raises:
        Unusable: a token spans that place or the template's end, special tokens stand in the text, or the template
            does not wrap the message as it wraps others.
    """
    if frame.is_chat:
        message = context.body + question.lead_in + question.question
        if not (context.text + question.text).startswith(render_chat(tokenizer, message)):
            raise Unusable("the chat template renders the message differently")
    encoded = encode(tokenizer, context.text + question.text)
    end = boundary(encoded.offsets, len(context.text))
    if end is None:
        raise Unusable("a token spans the boundary of context and query")
    first = boundary(encoded.offsets, len(context.header))
    if first is None:
        raise Unusable("a token spans the boundary of chat template and text")
    if not set(encoded.ids[first:end]).isdisjoint(tokenizer.all_special_ids):
        raise Unusable("a special token of the tokenizer stands in the text")
    lead = len(frame.leading_ids)
    ids = frame.leading_ids + encoded.ids
    return Tokens(
        ids[: lead + end], ids[lead + end :], tuple(placed_tokens(encoded, parts, lead) for parts in context.placed)
    )


def answer_ids(tokenizer: "PreTrainedTokenizerBase", question: Ask, answer: str) -> tuple[int, ...]:
    """Return the tokens an answer adds behind the question's closing, after a blank where it goes on from a word.

    Raises:
        Unusable: the answer would merge with the tokens before it.
    """
    last = question.text[-1:]
    blank = " " if last.isalnum() or last in ":;,.!?" else ""
    before = encode(tokenizer, question.text).ids
    after = encode(tokenizer, question.text + blank + answer).ids
    if after[: len(before)] != before or len(after) == len(before):
        raise Unusable("the answer merges with the tokens before it")
    return after[len(before) :]
