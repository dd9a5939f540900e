"""Conditions of a cached answer and facts of a request: records found by fixed rules.

Source: paper section 3.2 and appendix B, table 6.
"""

import zlib
from collections.abc import Sequence
from typing import NamedTuple

from cachemend.calibration.conditions.fields import UNKNOWN
from cachemend.calibration.conditions.lexicon import Lexicon, load_lexicon
from cachemend.calibration.conditions.normal import bounded
from cachemend.calibration.conditions.reading import ReadField, Reading, read_text
from cachemend.calibration.conditions.response_action import ANSWER, CONFIRM, called_for, given_action, is_failed
from cachemend.calibration.conditions.sentences import Sentence, State
from cachemend.calibration.conditions.typed_values import typed_category

HIGH_RISK = frozenset({"auth", "time", "dialogue", "tool", "workflow", "subject", "action", "scope"})
MAX_CONDITIONS = 256
_SHOWN = 200
_MAX_ASKED = 32


class Condition(NamedTuple):
    """One safety-relevant record; all four are lowercase, the first three single words.

    Attributes:
        category: one of `HIGH_RISK`, or "fact".
        subject: what it is about.
        relation: which property of the subject.
        value: the property's value, words with single spaces.
    """

    category: str
    subject: str
    relation: str
    value: str


class Origin(NamedTuple):
    """Where a condition was found: "query", "response" or "context", and the passage (at most 200 characters)."""

    part: str
    text: str


class Texts(NamedTuple):
    """One side of a candidate, read.

    Attributes:
        query, context: the request and its context.
        response: the cached response; None on the request side.
        required: the action that the request and its context call for.
        given: the action the response took; "" on the request side.
    """

    query: Reading
    context: Reading
    response: Reading | None
    required: str
    given: str


Origins = dict[Condition, tuple[Origin, ...]]
# A condition, the part it is in, and what was read there.
_Record = tuple[Condition, str, ReadField | Sentence]


def extract_conditions(
    query: str, context: str, response: str | None = None, *, lexicon: Lexicon | None = None
) -> tuple[Condition, ...]:
    """Find the conditions of a cached entry, or the facts of a request.

    Args:
        query: the request's text.
        context: its context: fields, JSON, sentences or a mixture; "" for none.
        response: the cached response on the cache side; None on the request side.
        lexicon: the words to go by; None for the packaged ones.

    Returns:
        records without duplicates, sorted, at most `MAX_CONDITIONS`; of more, the facts that come last in the order
        are one record of their checksum.
    """
    return conditions_of(read_side(query, context, response, lexicon=lexicon))


def extract_with_origins(
    query: str, context: str, response: str | None = None, *, lexicon: Lexicon | None = None
) -> Origins:
    """Find the same conditions as `extract_conditions`, each with the passages it came from."""
    return origins_of(read_side(query, context, response, lexicon=lexicon))


def read_side(query: str, context: str, response: str | None = None, *, lexicon: Lexicon | None = None) -> Texts:
    """Read the texts of one side of a candidate."""
    words = lexicon or load_lexicon()
    asked = read_text(query, words, any_key=False)
    around = read_text(context, words, any_key=True)
    said = None if response is None else read_text(response, words, any_key=False)
    return Texts(asked, around, said, called_for(asked, around), "" if said is None else given_action(said))


def conditions_of(side: Texts) -> tuple[Condition, ...]:
    """Return the conditions of texts that are read, sorted."""
    found = {condition for condition, _, _ in _records(side)}
    if found:
        found.add(_action(side)[0])
    return _limited(sorted(found))[0]


def origins_of(side: Texts) -> Origins:
    """Return the same conditions, each with the passages it came from."""
    found: dict[Condition, list[Origin]] = {}
    for condition, part, source in _records(side):
        origin = Origin(part, source.text[:_SHOWN])
        origins = found.setdefault(condition, [])
        if origin not in origins:
            origins.append(origin)
    if found:
        action, origin = _action(side)
        found.setdefault(action, []).append(origin)
    kept, first_cut = _limited(sorted(found))
    return {condition: tuple(found[condition if condition in found else first_cut]) for condition in kept}


def _records(side: Texts) -> list[_Record]:
    """Return all records but the action, repeats included."""
    found: list[_Record] = []
    for part, reading in (("query", side.query), ("context", side.context)):
        for field in reading.fields:
            record = field.record
            if record.value:
                category = "dialogue" if record.category == UNKNOWN and reading.tells_dialogue else record.category
                found.append((Condition(category, record.subject, record.relation, record.value), part, field))
            if field.sentence is not None:
                found += [(condition, part, field) for condition in _said(field.sentence)]
        for sentence in reading.sentences:
            found += [(condition, part, sentence) for condition in _said(sentence)]
            if part == "context":
                found += [(gist, part, sentence) for gist in _gist(sentence)]
    found += _asked(side.query)
    if side.response is not None:
        found += _response_records(side.response)
    return found


def _response_records(response: Reading) -> list[_Record]:
    """Return the states a response asserts. What else it says is its content, not a requirement on the next request."""
    found: list[_Record] = []
    for sentence in response.all_sentences:
        if sentence.states and not sentence.question and not sentence.conditional:
            found += [(_state_record(state), "response", sentence) for state in sentence.states]
    if is_failed(response):
        found.append((Condition("tool", "response", "outcome", "failed"), "response", response.sentences[-1]))
    return found


def _said(sentence: Sentence) -> list[Condition]:
    """Return the typed values, names, actors and states of a sentence; a question or an "if" asserts no state."""
    found = [Condition(typed_category(typed.type), typed.type, "is", typed.value) for typed in sentence.typed]
    found += [Condition("fact", "number", "is", spelled) for spelled in sentence.spelled_numbers]
    found += [Condition("subject", "name", "is", name) for name in sentence.names]
    for relation, value in sentence.principals:
        found.append(Condition("auth" if relation in ("tenant", "role") else "subject", relation, "is", value))
    if not sentence.question and not sentence.conditional:
        found += map(_state_record, sentence.states)
    return found


def _state_record(state: State) -> Condition:
    return Condition(state.category, state.resource, state.relation, state.value)


def _gist(sentence: Sentence) -> list[Condition]:
    """Return what a sentence of a context says in its content words, or in all words where it has no others."""
    words = list(sentence.content or sentence.words)
    return [Condition("fact", words[0], "says", bounded(words[1:] or words))] if words else []


def _asked(query: Reading) -> list[_Record]:
    """Return what a request asks, sentence by sentence.

    Of three sentences and more, what comes before the last is one record, questions apart: instructions that
    every request repeats would otherwise outweigh the one thing that differs.
    """
    found: list[_Record] = []
    said = [sentence for sentence in query.sentences if sentence.content] or list(query.sentences)
    plain = [sentence for sentence in said if not sentence.question]
    preamble = plain[:-1] if len(plain) > 2 else []
    words = [word for sentence in preamble for word in sentence.content]
    if words:
        found.append((Condition("fact", "preamble", "says", bounded(words)), "query", preamble[0]))
    for sentence in said[-_MAX_ASKED:]:
        asked = list(sentence.content or sentence.words)
        if asked and sentence not in preamble:
            rest = (asked[1:] or asked) + ([sentence.asked_with] if sentence.asked_with else [])
            found.append((Condition("fact", asked[0], "asks", bounded(rest)), "query", sentence))
    return found


def _action(side: Texts) -> tuple[Condition, Origin]:
    """Return the action of a cached response, or the one a request calls for."""
    if side.response is None:
        action, part, passage = side.required, "context" if side.required != ANSWER else "query", side.required
    else:
        # A question for confirmation that nothing called for is how the answer was worded.
        asked_anyway = side.given == CONFIRM and side.required != CONFIRM
        action, part = ANSWER if asked_anyway else side.given, "response"
        passage = side.response.all_sentences[0].text if side.response.all_sentences else ""
    return Condition("action", "response", "is", action), Origin(part, passage[:_SHOWN])


def _limited(found: Sequence[Condition]) -> tuple[tuple[Condition, ...], Condition]:
    """Return the conditions to keep, sorted, and the first that a checksum stands for (where there is none: any)."""
    if len(found) <= MAX_CONDITIONS:
        return tuple(found), Condition("", "", "", "")
    ranked = sorted(found, key=lambda condition: condition.category not in HIGH_RISK)
    kept, rest = ranked[: MAX_CONDITIONS - 1], ranked[MAX_CONDITIONS - 1 :]
    checksum = zlib.crc32("\n".join(" ".join(condition) for condition in rest).encode("utf-8", "surrogatepass"))
    remainder = Condition("fact", "remainder", "is", f"rest-{checksum:08x}")
    return tuple(sorted([*kept, remainder])), rest[0]
