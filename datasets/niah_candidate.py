"""Building one candidate case, or saying why it is not usable."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from cachemend.datasets.alignment import boundary
from cachemend.datasets.niah_case import STRATA, NiahCase
from cachemend.datasets.niah_facts import draw_facts
from cachemend.datasets.niah_filler import filler_sentences
from cachemend.datasets.niah_prompt import Frame, Prompt, find_frame, make_prompt
from cachemend.datasets.niah_spec import NiahRoster
from cachemend.datasets.niah_text import compose
from cachemend.datasets.rendering import encode, render_chat
from cachemend.datasets.seeded import uniform
from cachemend.datasets.seeking import largest_fitting

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

SMALLEST_FILLER = 6
_TOKENS_PER_SENTENCE = 17


class Unusable(Exception):
    """This candidate cannot be a case; the message is the reason the manifest counts."""


@dataclass(frozen=True)
class Slot:
    """A place in the roster that some candidate must fill: the `index`-th of its stratum and length."""

    stratum: str
    length: int
    index: int


class Split(NamedTuple):
    """Token ids of a prompt: before the span, the span, the rest of the context, the query."""

    prefix: tuple[int, ...]
    deleted: tuple[int, ...]
    suffix: tuple[int, ...]
    query: tuple[int, ...]


def case_id(roster: NiahRoster, slot: Slot, seed: int) -> str:
    """Return the name of a candidate: the same for every tokenizer."""
    return f"{roster.name}-{slot.stratum.split('-')[0]}-{slot.length}-s{seed}"


def build_candidate(tokenizer: "PreTrainedTokenizerBase", roster: NiahRoster, slot: Slot, seed: int) -> NiahCase:
    """Build the case of one seed.

    Raises:
        Unusable: the texts do not tokenize as a deletion needs, or the case is outside the roster's bounds.
    """
    facts = draw_facts(seed, slot.length, roster.value_digits)
    frame = find_frame(tokenizer, roster.prompt, facts.name)
    deleted = STRATA.index(slot.stratum)
    plan = roster.depths
    depths = (
        uniform(*plan.first, seed, slot.length, "depth", 0),
        uniform(*plan.second, seed, slot.length, "depth", 1),
    )
    sentences = tuple(
        template.format(key=facts.name, value=value)
        for template, value in zip(roster.prompt.facts, facts.values, strict=True)
    )

    def prompt_of(count: int) -> Prompt:
        document = compose(filler_sentences(seed, count), (sentences[0], sentences[1]), depths, seed)
        return make_prompt(frame, roster.prompt, document, deleted, facts.name)

    def edited_length(count: int) -> int:
        parts = _split(tokenizer, frame, prompt_of(count).edited)
        return len(parts.prefix) + len(parts.suffix)

    guess = slot.length // _TOKENS_PER_SENTENCE
    count = largest_fitting(edited_length, slot.length, SMALLEST_FILLER, guess)
    if count is None:
        raise Unusable(f"the prompt with {SMALLEST_FILLER} filler sentences exceeds the length")
    original = prompt_of(count)
    edited = original.edited
    _check_rendering(tokenizer, frame, original, edited)
    parts = _split(tokenizer, frame, original)
    kept = _split(tokenizer, frame, edited)
    if kept.prefix + kept.suffix + kept.query != parts.prefix + parts.suffix + parts.query:
        raise Unusable("the edited text does not tokenize to prefix + suffix + query")
    gold = tuple(value for index, value in enumerate(facts.values) if index != deleted)
    return NiahCase(
        case_id=case_id(roster, slot, seed),
        stratum=slot.stratum,
        length=slot.length,
        seed=seed,
        prefix_ids=parts.prefix,
        deleted_ids=parts.deleted,
        suffix_ids=parts.suffix,
        query_ids=parts.query,
        relevance_ids=encode(tokenizer, original.question).ids,
        context_text=edited.text[: edited.context_stop],
        deleted_text=original.body[slice(*original.span)],
        query_text=original.question,
        gold=gold,
        gold_ids=_answer_ids(tokenizer, edited, roster.prompt.separator.join(gold)),
        deleted_value_ids=_answer_ids(tokenizer, edited, facts.values[deleted]),
    )


def _split(tokenizer: "PreTrainedTokenizerBase", frame: Frame, prompt: Prompt) -> Split:
    encoded = encode(tokenizer, prompt.text)
    start, stop, end = (boundary(encoded.offsets, at) for at in (*prompt.text_span, prompt.context_stop))
    if end is None:
        raise Unusable("a token spans the boundary of context and query")
    if start is None or stop is None:
        raise Unusable("a token spans an end of the deleted text")
    ids = encoded.ids
    return Split(frame.leading_ids + ids[:start], ids[start:stop], ids[stop:end], ids[end:])


def _check_rendering(tokenizer: "PreTrainedTokenizerBase", frame: Frame, original: Prompt, edited: Prompt) -> None:
    """The frame was read off another message: a template that reacts to its content would differ here."""
    for prompt in (original, edited):
        if frame.is_chat and not prompt.text.startswith(render_chat(tokenizer, prompt.message)):
            raise Unusable("the chat template renders the message differently")


def _answer_ids(tokenizer: "PreTrainedTokenizerBase", prompt: Prompt, answer: str) -> tuple[int, ...]:
    """Return the tokens an answer adds to the prompt, behind a blank where it goes on from a word."""
    last = prompt.closing[-1:]
    blank = " " if last.isalnum() or (last and last in ":;,.!?") else ""
    tail = prompt.question + prompt.closing
    before = encode(tokenizer, tail).ids
    after = encode(tokenizer, tail + blank + answer).ids
    if after[: len(before)] != before or len(after) == len(before):
        raise Unusable("the answer merges with the tokens before it")
    return after[len(before) :]
