"""What one sentence says: its words, typed values, names, states and cues, found in one pass."""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from cachemend.calibration.conditions.cues import Cue, Hit, find_cues
from cachemend.calibration.conditions.lexicon import Lexicon
from cachemend.calibration.conditions.normal import stem, words_of
from cachemend.calibration.conditions.typed_values import QUANTITY_TYPES, Typed, find_typed

_REACH = 3  # words a negation reaches: back from a state, and content words forward from the negation
_MOST_CUES = 256  # of one sentence: each looks at all others
_REMEMBERED = 8192
_LONGEST_REMEMBERED = 512
_NOT_NAMES = frozenset({"i", "i'm", "i'd", "i've", "i'll", "ok", "okay", "am", "pm", "mr", "mrs", "ms", "dr"})
_NO_CUES = frozenset({"state", "negation", "void", "resource", "principal"})
_ARTICLES = frozenset({"a", "an", "the", "my", "our", "your"})


class State(NamedTuple):
    """A state that a sentence or field reports.

    Attributes:
        kind: its kind in the lexicon.
        category, relation: what the kind's records are filed under.
        resource: what it is the state of; "any" for nothing named.
        value: the value, in the lexicon's word.
    """

    kind: str
    category: str
    relation: str
    resource: str
    value: str


class Sentence(NamedTuple):
    """One sentence, read.

    Attributes:
        text: the sentence as it stands in the cleaned text.
        words: its words in lowercase, typed values in their one form, spelled numbers as digits.
        content: the words that are no stopwords.
        bag: the same, sorted.
        typed: its typed values.
        names: runs of capitalised words, in lowercase.
        states: the states it reports.
        cues: what its other phrases stand for.
        negated: stems of the content words that a negation reaches.
        plain: stems of the other content words.
        principals: ``(relation, value)`` of who acts.
        asked_with: its question word ("who"), "" for none.
        spelled_numbers: numbers written as words, as digits, sorted.
        quantities: all numbers, amounts and percentages.
        question: whether it asks.
        conditional: whether it only says what would be ("if ...").
    """

    text: str
    words: tuple[str, ...]
    content: tuple[str, ...]
    bag: tuple[str, ...]
    typed: tuple[Typed, ...]
    names: tuple[str, ...]
    states: tuple[State, ...]
    cues: frozenset[Cue]
    negated: frozenset[str]
    plain: frozenset[str]
    principals: tuple[tuple[str, str], ...]
    spelled_numbers: tuple[str, ...]
    quantities: frozenset[str]
    asked_with: str
    question: bool
    conditional: bool


def read_sentence(text: str, lexicon: Lexicon) -> Sentence:
    """Read one sentence of a cleaned text; the last few thousand short ones are remembered."""
    if len(text) > _LONGEST_REMEMBERED:
        return _read(text, lexicon)
    return _remembered(text, lexicon)


@lru_cache(maxsize=_REMEMBERED)
def _remembered(text: str, lexicon: Lexicon) -> Sentence:
    return _read(text, lexicon)


def _read(text: str, lexicon: Lexicon) -> Sentence:
    typed = find_typed(text, lexicon)
    raw = words_of(_with_canonical(text, typed))
    words = _lowered(raw, lexicon)
    hits = find_cues(words, lexicon.cues)
    stopwords = lexicon.words["stopwords"]
    negated_at, negation_at = _negated(words, hits, stopwords)
    opener = words[0] if words else ""
    # "Do not ..." forbids; it asks only with a question mark.
    forbids = words[1:2] == ["not"]
    question = not forbids and (
        opener in lexicon.words["question_words"] or opener in lexicon.words["question_openers"]
    )
    content = [i for i, word in enumerate(words) if word not in stopwords and i not in negation_at]
    content_words = tuple([words[i] for i in content])
    spelled = tuple(sorted({word for word in words if word.isdigit()} - {found.value for found in typed}))
    return Sentence(
        text=text,
        words=tuple(words),
        content=content_words,
        bag=tuple(sorted(content_words)),
        typed=tuple(typed),
        names=_names(raw, words, lexicon),
        states=_states(hits, lexicon),
        cues=frozenset([hit.cue for hit in hits if hit.cue.kind not in _NO_CUES]),
        negated=frozenset([stem(words[i]) for i in negated_at]),
        plain=frozenset([stem(words[i]) for i in content if i not in negated_at]),
        principals=_principals(words, hits, lexicon),
        spelled_numbers=spelled,
        quantities=frozenset((*spelled, *(found.value for found in typed if found.type in QUANTITY_TYPES))),
        asked_with=next((word for word in words[:3] if word in lexicon.words["question_words"]), ""),
        question=question or text.rstrip().endswith("?"),
        conditional=bool(words) and words[0] in lexicon.words["conditionals"],
    )


def _with_canonical(text: str, typed: Sequence[Typed]) -> str:
    """Put every typed value in its one form, so that words compare equal however it was written."""
    if not typed:
        return text
    parts, end = [], 0
    for found in typed:
        parts += [text[end : found.start], f" {found.value} "]
        end = found.stop
    return "".join((*parts, text[end:]))


def _lowered(raw: Sequence[str], lexicon: Lexicon) -> list[str]:
    """Lowercase words, spelled numbers as digits ("one" only before a noun: "find one in ..." counts nothing)."""
    words = [word.lower() for word in raw]
    numbers, stopwords = lexicon.number_words, lexicon.words["stopwords"]
    for i, word in enumerate(words):
        if word in numbers:
            words[i] = numbers[word]
        elif word == "one":
            before, after = words[i - 1] if i else "", words[i + 1] if i + 1 < len(words) else ""
            if after and after not in stopwords and before != "the":
                words[i] = "1"
    return words


def _negated(words: Sequence[str], hits: Sequence[Hit], stopwords: frozenset[str]) -> tuple[set[int], set[int]]:
    """Return the places of negated content words, and of the negations themselves."""
    reached: set[int] = set()
    negations: set[int] = set()
    void = {place for hit in hits if hit.cue.kind == "void" for place in range(hit.start, hit.start + hit.length)}
    for hit in hits:
        # "No, I would like ..." answers; it negates nothing that follows.
        if hit.cue.kind != "negation" or hit.start in void or (hit.start == 0 and hit.cue.name == "no"):
            continue
        stop = hit.start + hit.length
        negations.update(range(hit.start, stop))
        content = [i for i in range(stop, min(stop + 3 * _REACH, len(words))) if words[i] not in stopwords]
        reached.update(content[:_REACH])
    return reached - negations, negations


def _states(hits: Sequence[Hit], lexicon: Lexicon) -> tuple[State, ...]:
    """Return the states reported; a negated one is its opposite, or nothing where it has none."""
    hits = hits[:_MOST_CUES]
    if not any(hit.cue.kind == "state" for hit in hits):
        return ()
    resources = [hit for hit in hits if hit.cue.kind == "resource"]
    negations = [hit for hit in hits if hit.cue.kind == "negation"]
    covered: set[int] = set()
    states = []
    for hit in hits:
        if hit.cue.kind != "state" or hit.start in covered:
            continue
        span = range(hit.start, hit.start + hit.length)
        covered.update(span)
        kind, value = lexicon.states[hit.cue.name], hit.cue.value
        if any(hit.start - _REACH <= no.start + no.length - 1 < hit.start for no in negations):
            if value not in kind.opposites:
                continue
            value = kind.opposites[value]
        resource = _nearest(resources, span)
        states.append(State(kind.name, kind.category, kind.relation, resource, value))
    return tuple(states)


def _nearest(resources: Sequence[Hit], span: range) -> str:
    """Name the resource inside the span, else closest before it, else closest after it, else "any"."""
    inside = [hit for hit in resources if hit.start in span]
    before = [hit for hit in resources if hit.start + hit.length <= span.start]
    after = [hit for hit in resources if hit.start >= span.stop]
    nearest = inside or before[-1:] or after
    return nearest[0].cue.name if nearest else "any"


def _names(raw: Sequence[str], words: Sequence[str], lexicon: Lexicon) -> tuple[str, ...]:
    """Return runs of capitalised words; the first word of a sentence is capitalised anyway and does not count."""
    capital = [word[:1].isupper() and lower not in _NOT_NAMES for word, lower in zip(raw, words, strict=True)]
    if True not in capital[1:] or (sum(capital) > 0.6 * len(raw) and len(raw) > 2):
        return ()
    names, run = [], []
    stopwords = lexicon.words["stopwords"]
    for i in range(1, len(words) + 1):
        if i < len(words) and capital[i] and words[i] not in stopwords:
            run.append(words[i].removesuffix("'s"))
        elif run:
            names.append(" ".join(run))
            run = []
    return tuple(names)


def _principals(words: Sequence[str], hits: Sequence[Hit], lexicon: Lexicon) -> tuple[tuple[str, str], ...]:
    """Return who acts: the words after a phrase such as "on behalf of"; after "as a" only a known role."""
    found = []
    for hit in hits:
        if hit.cue.kind != "principal":
            continue
        rest = [word for word in words[hit.start + hit.length :][:3] if word not in _ARTICLES]
        if hit.cue.name == "role":
            if rest and rest[0] in lexicon.words["person_roles"]:
                found.append(("role", rest[0]))
        elif rest:
            found.append((hit.cue.name, " ".join(rest[:2]) if hit.cue.name == "name" else rest[0]))
    return tuple(found)
