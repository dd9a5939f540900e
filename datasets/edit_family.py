"""What a record family is: the wording of a record, its question, and the invented names it may hold."""

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from string import Formatter
from typing import NamedTuple

from cachemend.datasets.seeded import below, shuffled
from cachemend.repair_core.errors import InputError, nearest

CONDITIONS = ("direct", "derived", "irrelevant")
ROW_ORDERS = ("seeded", "old-first", "new-first")
FIELDS = {"direct": "value", "derived": "alias", "irrelevant": "note"}
"""The field that an edit rewrites under each condition."""

_RECORD = frozenset({"subject", "alias", "note"})
_ROWS = frozenset({"subject", "alias_1", "value_1", "alias_2", "value_2"})
_ALLOWED = {
    "direct": frozenset({"subject", "value", "note"}),
    "derived": _RECORD,
    "irrelevant": _RECORD,
    "carrier": _ROWS,
    "question": frozenset({"subject"}),
    "lead_in": frozenset({"subject"}),
    "closing": frozenset({"subject"}),
    "chat_closing": frozenset({"subject"}),
    "instruction": frozenset(),
}


def placeholders(template: str) -> list[str]:
    """Return the names in braces of a template, in order.

    Raises:
        InputError: braces that do not pair, or a placeholder without a name or with a format.
    """
    try:
        parts = list(Formatter().parse(template))
    except ValueError as error:
        raise InputError(f"template {template!r}: {error}") from error
    names = [name for _, name, _, _ in parts if name is not None]
    if any(not name.isidentifier() for name in names) or any(spec or kind for _, _, spec, kind in parts):
        raise InputError(f"template {template!r} may only hold plain names in braces")
    return names


def holding_one_another(names: Sequence[str]) -> tuple[str, str] | None:
    """Return the first two names of which the first stands in the second (equal ones too), in any case."""
    lowered = [name.lower() for name in names]
    for i, inner in enumerate(lowered):
        for j, outer in enumerate(lowered):
            if i != j and inner in outer:
                return names[i], names[j]
    return None


def named_in(text: str, names: Iterable[str]) -> str | None:
    """Return the first of `names` that stands in `text` as whole words, in any case."""
    words = text.lower()
    for name in names:
        lowered = name.lower()
        # Most names are nowhere in the text, and that is quick to see.
        if lowered in words and re.search(rf"(?<!\w){re.escape(lowered)}(?!\w)", words):
            return name
    return None


class Names(NamedTuple):
    """What one record says: its subject, and the old and the new word of each field.

    Attributes:
        subject: whom the record is about.
        alias: old and new alias; each selects a row of the lookup.
        value: the value of the old and of the new alias.
        note: old and new content of the field that the question does not depend on; empty without notes.
        new_first: the new alias's row stands before the old one's.
    """

    subject: str
    alias: tuple[str, str]
    value: tuple[str, str]
    note: tuple[str, str]
    new_first: bool

    @property
    def all(self) -> tuple[str, ...]:
        """Every name in the record."""
        return (*self.own, *(name for name in self.note if name))

    @property
    def own(self) -> tuple[str, ...]:
        """The names that no other record of a context may have: all but the notes."""
        return (self.subject, *self.alias, *self.value)

    @property
    def rows(self) -> dict[str, str]:
        """The placeholders of the lookup text; the same before and after the edit."""
        first = int(self.new_first)
        return {
            "subject": self.subject,
            "alias_1": self.alias[first],
            "value_1": self.value[first],
            "alias_2": self.alias[1 - first],
            "value_2": self.value[1 - first],
        }


@dataclass(frozen=True, kw_only=True)
class Family:
    """One wording of a record in its three conditions (edit paper, "Paired edit benchmark").

    Templates hold names in braces. No template holds a blank line, for a blank line ends a document.

    Attributes:
        name: unique; part of case ids.
        direct: record that states the asked value: {value}, and {subject}, {note} as wanted. {value} is rewritten.
        derived: text before the lookup: {alias}, and {subject}, {note} as wanted. {alias} is rewritten.
        carrier: the lookup: {alias_1} {value_1} {alias_2} {value_2}, and {subject} as wanted; never rewritten.
        irrelevant: as `derived`, with {alias} and {note}; {note} is rewritten. "" where there are no notes.
        joint: what stands between `derived` and `carrier` in one document.
        question: the bare question: {subject} as wanted. Its tokens are the relevance ids.
        closing: plain style: what follows the question; the answer begins where it ends.
        chat_closing: chat style: the beginning of the answer, behind the template's generation prompt; may be empty.
        instruction: paragraph before the documents, part of the cached context; may be empty.
        lead_in: text between context and question, such as worked examples; part of the query; may be empty.
        subjects, aliases, values, notes: invented names; none stands in another or in a template.
        row_order: which row of the lookup comes first: "seeded" draws it, "old-first" and "new-first" fix it.
    """

    name: str
    direct: str
    derived: str
    carrier: str
    irrelevant: str = ""
    joint: str = " "
    question: str
    closing: str
    chat_closing: str = ""
    instruction: str = ""
    lead_in: str = ""
    subjects: tuple[str, ...]
    aliases: tuple[str, ...]
    values: tuple[str, ...]
    notes: tuple[str, ...] = ()
    row_order: str = "seeded"

    def __post_init__(self) -> None:
        for roster in ("subjects", "aliases", "values", "notes"):
            object.__setattr__(self, roster, tuple(getattr(self, roster)))
        if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", self.name):
            raise InputError(f"family name {self.name!r} must be lower-case words joined by hyphens")
        if self.row_order not in ROW_ORDERS:
            raise InputError(f"family {self.name}: row_order {self.row_order!r}; {nearest(self.row_order, ROW_ORDERS)}")
        self._check_templates()
        self._check_names()

    def _check_templates(self) -> None:
        for part, allowed in _ALLOWED.items():
            template = getattr(self, part)
            names = placeholders(template)
            if unknown := sorted(set(names) - allowed):
                raise InputError(f"family {self.name}: {part} holds {{{unknown[0]}}}; {nearest(unknown[0], allowed)}")
            required = {FIELDS[part]} if part in FIELDS else _ROWS - {"subject"} if part == "carrier" else set()
            if part == "irrelevant":
                required = {"alias", "note"} if template else set()
            for name in sorted(required):
                if names.count(name) != 1:
                    raise InputError(f"family {self.name}: {part} needs {{{name}}} exactly once, not {template!r}")
        for part in ("direct", "derived", "carrier", "irrelevant", "joint"):
            if re.search(r"\n[^\S\n]*\n", getattr(self, part)):
                raise InputError(f"family {self.name}: {part} holds a blank line, which would end its document")
        for part in ("direct", "derived", "carrier", "irrelevant", "question"):
            if getattr(self, part) != getattr(self, part).strip():
                raise InputError(f"family {self.name}: {part} begins or ends with white space")
        if not self.question:
            raise InputError(f"family {self.name}: question is empty")

    def _check_names(self) -> None:
        for roster, least in (("subjects", 1), ("aliases", 2), ("values", 2), ("notes", 2 if self._has_notes else 0)):
            if len(getattr(self, roster)) < least:
                raise InputError(f"family {self.name}: {roster} needs at least {least} names")
        names = (*self.subjects, *self.aliases, *self.values, *self.notes)
        if bad := [name for name in names if not name or name != " ".join(name.split())]:
            raise InputError(f"family {self.name}: name {bad[0]!r} is empty or holds stray white space")
        if pair := holding_one_another(names):
            raise InputError(f"family {self.name}: name {pair[0]!r} stands in name {pair[1]!r}")
        wording = " ".join(re.sub(r"\{\w+\}", "\n", getattr(self, part)) for part in _ALLOWED)
        if name := named_in(wording, names):
            raise InputError(f"family {self.name}: name {name!r} stands in a template")

    @property
    def _has_notes(self) -> bool:
        return any("note" in placeholders(getattr(self, part)) for part in ("direct", "derived", "irrelevant"))

    @property
    def conditions(self) -> tuple[str, ...]:
        """The conditions this family has a wording for."""
        return tuple(condition for condition in CONDITIONS if getattr(self, condition))

    def draw(self, seed: int, taken: Collection[str] = ()) -> Names:
        """Draw the names of a record that a context can hold beside the names already `taken`.

        Old and new word of a field are two draws without replacement, so either may be the old one. Notes are of no
        consequence and may come again.

        Raises:
            InputError: fewer names left than a record needs.
        """
        new_first = self.row_order == "new-first" or (
            self.row_order == "seeded" and below(2, seed, self.name, "row", len(taken)) == 1
        )
        notes = shuffled(self.notes, seed, self.name, "notes", len(taken))[:2] if self._has_notes else ["", ""]
        (subject,) = self._free("subjects", seed, taken, 1)
        aliases = self._free("aliases", seed, taken, 2)
        values = self._free("values", seed, taken, 2)
        return Names(subject, (aliases[0], aliases[1]), (values[0], values[1]), (notes[0], notes[1]), new_first)

    def _free(self, roster: str, seed: int, taken: Collection[str], count: int) -> list[str]:
        names = [name for name in shuffled(getattr(self, roster), seed, self.name, roster) if name not in taken]
        if len(names) < count:
            raise InputError(
                f"family {self.name}: {roster} holds {len(getattr(self, roster))} names, "
                "which is too few for so many records in one context"
            )
        return names[:count]
