"""Building one context with several edited records, or saying why it is not usable."""

from itertools import pairwise

from cachemend.datasets.edit_candidate import check_names
from cachemend.datasets.edit_family import Family, Names, holding_one_another
from cachemend.datasets.edit_fitting import Fitting, Gathered
from cachemend.datasets.edit_prompt import Context, answer_ids, ask, make_context
from cachemend.datasets.edit_sequence_case import EditSequenceCase, Probe, SpanChange
from cachemend.datasets.edit_spec import SEQUENCE_WINDOW, EditSequenceRoster
from cachemend.datasets.edit_text import DOCUMENT_BREAK, Inserted, record_of
from cachemend.datasets.niah_candidate import Unusable
from cachemend.datasets.rendering import encode
from cachemend.datasets.seeded import below

Entry = tuple[Family, str, Names]
_FIRST, _LAST = SEQUENCE_WINDOW


def sequence_id(roster: EditSequenceRoster, size: int, seed: int) -> str:
    """Return the name of a candidate: the same for every tokenizer."""
    return f"{roster.name}-{size}-s{seed}"


def build_sequence(fitting: Fitting, roster: EditSequenceRoster, size: int, seed: int) -> EditSequenceCase:
    """Build the case of one seed: `size` records of families and conditions in turns, spread over the context.

    Raises:
        InputError: too few names in a family for so many records.
        Unusable: names hold one another or stand in the background, or the texts do not tokenize as an edit needs.
    """
    entries = _entries(roster, size, seed)
    own = [name for _, _, drawn in entries for name in drawn.own]
    if pair := holding_one_another(own):
        raise Unusable(f"name {pair[0]!r} of one record stands in name {pair[1]!r} of another")
    instruction = entries[0][0].instruction
    opening = fitting.frame.header + (f"{instruction}{DOCUMENT_BREAK}" if instruction else "")
    records = [record_of(family, condition, drawn, edited=True) for family, condition, drawn in entries]
    reserved = sum(fitting.count(r.head + r.joint + r.carrier + DOCUMENT_BREAK) for r in records)
    gathered = fitting.gather(seed, roster.n_tokens, opening, reserved)
    for _, _, drawn in entries:
        check_names(drawn, gathered.documents)
    at = _spread(gathered, size)
    contexts = (
        _context(fitting, instruction, gathered, entries, at, edited=False),
        _context(fitting, instruction, gathered, entries, at, edited=True),
    )
    questions = [ask(fitting.frame, family, drawn.subject) for family, _, drawn in entries]
    before, after = fitting.versions(contexts, questions[0])
    probes = []
    for number, (family, condition, drawn) in enumerate(entries):
        old, new = fitting.versions(contexts, questions[number])
        if (old.context, new.context) != (before.context, after.context):
            raise Unusable("the question changes how the context tokenizes")
        probes.append(
            Probe(
                condition=condition,
                family=family.name,
                query_ids=new.query,
                relevance_ids=encode(fitting.tokenizer, questions[number].question).ids,
                query_text=questions[number].question,
                old_answer=drawn.value[0],
                new_answer=drawn.value[1],
                old_ids=answer_ids(fitting.tokenizer, questions[number], drawn.value[0]),
                new_ids=answer_ids(fitting.tokenizer, questions[number], drawn.value[1]),
                carrier=after.placed[number].carrier,
                block_stop=after.placed[number].block_stop,
            )
        )
    return EditSequenceCase(
        case_id=sequence_id(roster, size, seed),
        split=roster.split,
        seed=seed,
        original_ids=before.context,
        context_text=contexts[1].text,
        changes=tuple(SpanChange(*parts.field, after.context[slice(*parts.field)]) for parts in after.placed),
        probes=tuple(probes),
    )


def _entries(roster: EditSequenceRoster, size: int, seed: int) -> list[Entry]:
    """Family, condition and names of each record; which family and condition comes first is drawn."""
    families, conditions = roster.families, roster.conditions
    turn = below(len(families), seed, "family")
    first = below(len(conditions), seed, "condition")
    entries: list[Entry] = []
    taken: set[str] = set()
    for number in range(size):
        family = families[(turn + number) % len(families)]
        # The condition moves on when the families are through: with two of each, one family would be direct only.
        condition = conditions[(first + number + number // len(families)) % len(conditions)]
        entries.append((family, condition, family.draw(seed, taken)))
        taken.update(entries[-1][2].own)
    return entries


def _spread(gathered: Gathered, size: int) -> list[int]:
    """Return increasing breaks at evenly spread depths, each with a document before the next.

    Raises:
        Unusable: fewer documents than that takes.
    """
    step = (_LAST - _FIRST) / max(size - 1, 1)
    depths = [_FIRST + number * step for number in range(size)] if size > 1 else [(_FIRST + _LAST) / 2]
    at = [gathered.nearest_break(depth) for depth in depths]
    if any(a >= b for a, b in pairwise(at)):
        raise Unusable("too few background documents to stand between the records")
    return at


def _context(
    fitting: Fitting, instruction: str, gathered: Gathered, entries: list[Entry], at: list[int], *, edited: bool
) -> Context:
    inserted = [
        Inserted(record_of(family, condition, drawn, edited=edited), index)
        for (family, condition, drawn), index in zip(entries, at, strict=True)
    ]
    return make_context(fitting.frame, instruction, gathered.documents, inserted)
