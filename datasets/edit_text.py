"""The texts of a record before and after its edit, and a record among background documents."""

from collections.abc import Sequence
from string import Formatter
from typing import NamedTuple

from cachemend.datasets.edit_family import FIELDS, Family, Names
from cachemend.repair_core.boundaries import sentence_breaks

DOCUMENT_BREAK = "\n\n"


class Chars(NamedTuple):
    """A half-open range of characters."""

    start: int
    stop: int

    def moved(self, by: int) -> "Chars":
        return Chars(self.start + by, self.stop + by)


class Filled(NamedTuple):
    """A filled template and where one of its fields stands."""

    text: str
    field: Chars


def fill(template: str, names: dict[str, str], field: str) -> Filled:
    """Fill a template that holds `field` once."""
    text, span = "", Chars(0, 0)
    for literal, name, _, _ in Formatter().parse(template):
        text += literal
        if name is not None:
            if name == field:
                span = Chars(len(text), len(text) + len(names[name]))
            text += names[name]
    return Filled(text, span)


class Record(NamedTuple):
    """One version of a record.

    Attributes:
        head: the text that holds the edited field.
        field: where in `head`.
        carrier: the lookup that holds the answer; empty where the edited field is the answer.
        joint: what stands between head and carrier in one document.
    """

    head: str
    field: Chars
    carrier: str
    joint: str


def record_of(family: Family, condition: str, names: Names, *, edited: bool) -> Record:
    """Return the record before or after the edit of a condition; fields that are not edited show the new word."""
    field = FIELDS[condition]
    shown = {"subject": names.subject} | {name: getattr(names, name)[1] for name in FIELDS.values()}
    if not edited:
        shown[field] = getattr(names, field)[0]
    head = fill(getattr(family, condition), shown, field)
    carrier = "" if condition == "direct" else family.carrier.format(**names.rows)
    return Record(head.text, head.field, carrier, family.joint)


class Place(NamedTuple):
    """A place for a document: before document `document`, or, with an offset, inside it after a sentence."""

    document: int
    offset: int = 0


class Inserted(NamedTuple):
    """A record to be put before document `document`; its carrier stays with it or goes to a later place."""

    record: Record
    document: int
    carrier_at: Place | None = None


class Placed(NamedTuple):
    """Where the parts of one record stand in a text.

    Attributes:
        field: the edited field.
        carrier: the text that holds the answer: the lookup, or the field itself.
        block: the document that holds the field.
    """

    field: Chars
    carrier: Chars
    block: Chars


def places_after(documents: Sequence[str], first: int) -> list[Place]:
    """Every place from before document `first` to the end of the text, after sentences of documents too."""
    places = []
    for index in range(first, len(documents)):
        places.append(Place(index))
        title = documents[index].find("\n") + 1
        places += [Place(index, cut) for cut in sentence_breaks(documents[index]) if cut > title]
    return [*places, Place(len(documents))]


def compose(documents: Sequence[str], records: Sequence[Inserted]) -> tuple[str, list[Placed]]:
    """Join documents and records by blank lines; a carrier placed inside a document parts it in two.

    Records are in the order of their documents; of several at one place the first stands first.
    """
    joined, heads, carriers = "", [Chars(0, 0)] * len(records), [Chars(0, 0)] * len(records)
    blocks = list(heads)

    def add(piece: str) -> Chars:
        nonlocal joined
        joined += (DOCUMENT_BREAK if joined else "") + piece
        return Chars(len(joined) - len(piece), len(joined))

    for index in range(len(documents) + 1):
        for number, (record, document, carrier_at) in enumerate(records):
            if document == index:
                whole = record.carrier and carrier_at is None
                blocks[number] = add(record.head + (record.joint + record.carrier if whole else ""))
                heads[number] = record.field.moved(blocks[number].start)
                if whole:
                    carriers[number] = Chars(blocks[number].stop - len(record.carrier), blocks[number].stop)
                elif not record.carrier:
                    carriers[number] = heads[number]
        cut = 0
        for number, (record, _, carrier_at) in enumerate(records):
            if carrier_at is not None and carrier_at.document == index:
                if carrier_at.offset:
                    add(documents[index][cut : carrier_at.offset].strip())
                    cut = carrier_at.offset
                carriers[number] = add(record.carrier)
        if index < len(documents):
            add(documents[index][cut:].strip())
    return joined, [Placed(*parts) for parts in zip(heads, carriers, blocks, strict=True)]
