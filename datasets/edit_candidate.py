"""Building all cases of one candidate item, or saying why it is not usable."""

from typing import NamedTuple

from cachemend.datasets.edit_case import EditCase
from cachemend.datasets.edit_family import Family, Names, named_in
from cachemend.datasets.edit_fitting import Fitting
from cachemend.datasets.edit_prompt import Ask, Context, answer_ids, ask, covering, make_context
from cachemend.datasets.edit_spec import DEPTH, PAIR_BAND, WINDOW, EditRoster
from cachemend.datasets.edit_text import DOCUMENT_BREAK, Chars, Inserted, Place, places_after, record_of
from cachemend.datasets.niah_candidate import Unusable
from cachemend.datasets.rendering import encode

# Places are found by counting tokens in the text without the carrier, which may be off by the break around it.
_TRIED_PLACES = 2
_NEAREST = 32


class Item(NamedTuple):
    """What the cases of an item share."""

    item_id: str
    seed: int
    family: Family
    names: Names
    documents: tuple[str, ...]
    document: int
    question: Ask


def item_id(roster: EditRoster, family: Family, seed: int) -> str:
    """Return the name of a candidate: the same for every tokenizer."""
    return f"{roster.name}-{family.name}-s{seed}"


def check_names(names: Names, documents: tuple[str, ...]) -> None:
    """Raise Unusable when an invented name stands in the background."""
    if name := named_in(DOCUMENT_BREAK.join(documents), names.all):
        raise Unusable(f"name {name!r} stands in the background")


def build_item(fitting: Fitting, roster: EditRoster, family: Family, seed: int) -> list[EditCase]:
    """Build the cases of one seed, in the order of the roster's forms.

    Raises:
        Unusable: a case breaks a rule of the benchmark (edit paper, "Paired edit benchmark").
    """
    names = family.draw(seed)
    before = fitting.frame.header + (f"{family.instruction}{DOCUMENT_BREAK}" if family.instruction else "")
    sizes = []
    for condition in roster.conditions:
        old, record = (record_of(family, condition, names, edited=edited) for edited in (False, True))
        fitting.check_lengths(old.head, record.head)
        sizes.append(fitting.count(record.head + record.joint + record.carrier + DOCUMENT_BREAK))
    gathered = fitting.gather(seed, roster.n_tokens, before, max(sizes))
    check_names(names, gathered.documents)
    item = Item(
        item_id(roster, family, seed),
        seed,
        family,
        names,
        gathered.documents,
        gathered.nearest_break(DEPTH),
        ask(fitting.frame, family, names.subject),
    )
    cases = [_build(fitting, roster, item, condition, distance) for condition, distance in roster.forms]
    depths = [case.span.start / case.n_tokens for case in cases]
    if max(depths) - min(depths) > PAIR_BAND:
        raise Unusable(f"edit positions of the item differ by more than {PAIR_BAND:.0%} of the context")
    return cases


def _build(fitting: Fitting, roster: EditRoster, item: Item, condition: str, distance: int) -> EditCase:
    place = _place(fitting, item, condition, distance) if distance else None
    contexts = (
        _context(fitting, item, condition, place, edited=False),
        _context(fitting, item, condition, place, edited=True),
    )
    before, after = fitting.versions(contexts, item.question)
    (parts,) = after.placed
    _check_window(fitting.name, parts.field.start, len(after.context))
    for name, length, (view,) in fitting.views(contexts):
        _check_window(name, view.field.start, length)
    actual = parts.carrier.start - parts.field.stop if condition != "direct" else 0
    if distance and abs(actual - distance) > (limit := max(_NEAREST, distance // 10)):
        raise Unusable(f"no place for the carrier within {limit} tokens of distance {distance}")
    old, new = item.names.value
    return EditCase(
        case_id=f"{item.item_id}-{condition}-d{distance}",
        item_id=item.item_id,
        split=roster.split,
        condition=condition,
        distance=distance,
        actual_distance=actual,
        family=item.family.name,
        seed=item.seed,
        original_ids=before.context,
        edited_ids=after.context,
        span=parts.field,
        carrier=parts.carrier,
        block_stop=parts.block_stop,
        query_ids=after.query,
        relevance_ids=encode(fitting.tokenizer, item.question.question).ids,
        query_text=item.question.question,
        context_text=contexts[1].text,
        old_span_text=contexts[0].text[slice(*contexts[0].placed[0].field)],
        new_span_text=contexts[1].text[slice(*contexts[1].placed[0].field)],
        old_answer=old,
        new_answer=new,
        old_ids=answer_ids(fitting.tokenizer, item.question, old),
        new_ids=answer_ids(fitting.tokenizer, item.question, new),
    )


def _context(fitting: Fitting, item: Item, condition: str, place: Place | None, *, edited: bool) -> Context:
    record = record_of(item.family, condition, item.names, edited=edited)
    inserted = Inserted(record, item.document, place)
    return make_context(fitting.frame, item.family.instruction, item.documents, [inserted])


def _check_window(name: str, start: int, length: int) -> None:
    low, high = WINDOW
    if not low <= start / length <= high:
        raise Unusable(f"the edit stands outside {low:.0%} to {high:.0%} of the context under tokenizer {name!r}")


def _place(fitting: Fitting, item: Item, condition: str, distance: int) -> Place:
    """Return the place that brings the carrier as near as possible to `distance`; the earlier one on ties."""
    record = record_of(item.family, condition, item.names, edited=True)._replace(carrier="")
    alone = make_context(fitting.frame, item.family.instruction, item.documents, [Inserted(record, item.document)])
    encoded = encode(fitting.tokenizer, alone.text)
    placed = alone.placed[0]
    stop = covering(encoded, placed.field).stop
    starts = {}
    at = placed.block.stop + len(DOCUMENT_BREAK)
    for index in range(item.document, len(item.documents) + 1):
        starts[index] = at
        at += len(item.documents[index]) + len(DOCUMENT_BREAK) if index < len(item.documents) else 0

    def guessed(place: Place) -> int:
        character = starts[place.document] + place.offset
        return covering(encoded, Chars(character, character + 1)).start + (place.offset > 0) - stop

    def measured(place: Place) -> int:
        tokens = fitting.tokens(_context(fitting, item, condition, place, edited=True), item.question)
        return tokens.placed[0].carrier.start - tokens.placed[0].field.stop

    places = places_after(item.documents, item.document)
    tried = sorted(places, key=lambda place: (abs(guessed(place) - distance), place))[:_TRIED_PLACES]
    return min(tried, key=lambda place: (abs(measured(place) - distance), place))
