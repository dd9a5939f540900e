"""A whole text, read: its fields and sentences, and what they hold together."""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import NamedTuple

from cachemend.calibration.conditions.cues import Cue
from cachemend.calibration.conditions.fields import FieldRecord, read_field
from cachemend.calibration.conditions.lexicon import Lexicon
from cachemend.calibration.conditions.sentences import Sentence, read_sentence
from cachemend.calibration.conditions.structure import Field, split_text

_REMEMBERED = 1024
_LONGEST_REMEMBERED = 4096
_SENTENCE_WORDS = 4  # a field's value of so many words is read as a sentence too

Values = frozenset[str]


class ReadField(NamedTuple):
    """A field as it stands, its record, and its value as a sentence where it is long enough to be one."""

    field: Field
    record: FieldRecord
    sentence: Sentence | None

    @property
    def text(self) -> str:
        """The field on one line."""
        return f"{'.'.join(self.field.path)}: {self.field.value}"


class Reading(NamedTuple):
    """What a text holds.

    Attributes:
        text: the text.
        fields: its fields, in order.
        sentences: its sentences, in order.
        all_sentences: the same and the values of fields that read like one.
        keys: all parts of its fields' paths.
        tells_dialogue: whether a field names a service or intent, so that its unknown fields are slots.
        words: all words, values of fields included.
        states: values by kind of state, those of questions and conditions included.
        asserted: kind and value of the states of its fields, and of sentences that are no question and no condition.
        typed: typed values, by type.
        cues: what its other phrases stand for.
        cue_kinds: the kinds of its cues.
        principals: who acts according to its sentences, by relation.
        negated: stems of content words that a negation reaches.
        plain: stems of content words that none reaches.
        quantities: numbers, amounts and percentages of its sentences.
    """

    text: str
    fields: tuple[ReadField, ...]
    sentences: tuple[Sentence, ...]
    all_sentences: tuple[Sentence, ...]
    keys: Values
    tells_dialogue: bool
    words: Values
    states: Mapping[str, Values]
    asserted: frozenset[tuple[str, str]]
    typed: Mapping[str, Values]
    cues: frozenset[Cue]
    cue_kinds: Values
    principals: Mapping[str, Values]
    negated: Values
    plain: Values
    quantities: Values


def read_text(text: str, lexicon: Lexicon, *, any_key: bool) -> Reading:
    """Read a text; `any_key` as in `split_text`. The last thousand short texts are remembered."""
    if len(text) > _LONGEST_REMEMBERED:
        return _read(text, lexicon, any_key)
    return _remembered(text, lexicon, any_key)


@lru_cache(maxsize=_REMEMBERED)
def _remembered(text: str, lexicon: Lexicon, any_key: bool) -> Reading:
    return _read(text, lexicon, any_key)


def _read(text: str, lexicon: Lexicon, any_key: bool) -> Reading:
    fields: list[ReadField] = []
    sentences: list[Sentence] = []
    incidental = lexicon.words["incidental"]
    for unit in split_text(text, lexicon, any_key=any_key):
        if isinstance(unit, str):
            sentences.append(read_sentence(unit, lexicon))
        elif unit.path[-1] not in incidental:
            long = unit.value.count(" ") >= _SENTENCE_WORDS - 1
            sentence = read_sentence(unit.value, lexicon) if long else None
            fields.append(ReadField(unit, read_field(unit, lexicon), sentence))
    said = [*sentences, *(field.sentence for field in fields if field.sentence is not None)]
    words: set[str] = set()
    keys: set[str] = set()
    states: set[tuple[str, str]] = set()
    asserted: set[tuple[str, str]] = set()
    typed: set[tuple[str, str]] = set()
    for one in said:
        words.update(one.words)
        typed.update((found.type, found.value) for found in one.typed)
        if one.states:
            held = {(state.kind, state.value) for state in one.states}
            states |= held
            if not (one.question or one.conditional):
                asserted |= held
    for field in fields:
        record = field.record
        keys.update(field.field.path)
        words.update(record.value.split())
        if record.typed:
            typed.add((record.typed, record.value))
        if record.state is not None:
            states.add((record.state.kind, record.state.value))
            asserted.add((record.state.kind, record.state.value))
    cues = frozenset[Cue]().union(*(one.cues for one in said))
    return Reading(
        text=text,
        fields=tuple(fields),
        sentences=tuple(sentences),
        all_sentences=tuple(said),
        keys=frozenset(keys),
        tells_dialogue=not keys.isdisjoint(lexicon.words["dialogue_markers"]),
        words=frozenset(words),
        states=_grouped(states),
        asserted=frozenset(asserted),
        typed=_grouped(typed),
        cues=cues,
        cue_kinds=frozenset([cue.kind for cue in cues]),
        principals=_grouped(pair for one in said for pair in one.principals),
        negated=frozenset().union(*(one.negated for one in said)),
        plain=frozenset().union(*(one.plain for one in said)),
        quantities=frozenset().union(*(one.quantities for one in said)),
    )


def _grouped(pairs: Iterable[tuple[str, str]]) -> Mapping[str, Values]:
    found: dict[str, set[str]] = {}
    for kind, value in pairs:
        found.setdefault(kind, set()).add(value)
    return {kind: frozenset(values) for kind, values in found.items()}
