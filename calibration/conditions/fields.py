"""What a field says: which record its path of keys and its value make."""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from cachemend.calibration.conditions.lexicon import Lexicon
from cachemend.calibration.conditions.normal import clean, name_part, value_of
from cachemend.calibration.conditions.sentences import State
from cachemend.calibration.conditions.structure import Field
from cachemend.calibration.conditions.typed_values import QUANTITY_TYPES, TIME_TYPES, Typed, find_typed, typed_category

_REMEMBERED = 8192
_LONGEST_REMEMBERED = 512
_STATUS_KEYS = frozenset({"status", "state"})
_ID_KEYS = frozenset({"id", "number", "code"})
UNKNOWN = "fact"


class FieldRecord(NamedTuple):
    """A field, read.

    Attributes:
        category: of the record; `UNKNOWN` for a key the lexicon does not know.
        subject, relation, value: the rest of the record; no value for a field that says nothing.
        typed: the value's type where the whole value has one, else "".
        state: the state it holds, if any.
    """

    category: str
    subject: str
    relation: str
    value: str
    typed: str
    state: State | None


def read_field(field: Field, lexicon: Lexicon) -> FieldRecord:
    """Read one field; the last few thousand short ones are remembered."""
    if len(field.value) > _LONGEST_REMEMBERED:
        return _read(field, lexicon)
    return _remembered(field, lexicon)


@lru_cache(maxsize=_REMEMBERED)
def _remembered(field: Field, lexicon: Lexicon) -> FieldRecord:
    return _read(field, lexicon)


def _read(field: Field, lexicon: Lexicon) -> FieldRecord:
    path = tuple(part for part in field.path if part not in lexicon.words["containers"]) or field.path[-1:]
    value = value_of(field.value)
    leaf = path[-1]
    state = _held_state(path, value, lexicon) if value else None
    if state is not None:
        return FieldRecord(state.category, state.resource, state.relation, state.value, "", state)
    if value and leaf.split("_")[-1] in _STATUS_KEYS:
        reported = _reported_state(path, value, lexicon)
        resource, shown = _resource(path, lexicon), reported.value if reported else value
        return FieldRecord(_category(path, lexicon), resource, leaf.split("_")[-1], shown, "", reported)
    whole = _whole_value(field.value, lexicon)
    typed = _typed_key(path, lexicon)
    if typed and value and " " not in (whole.value if whole else value):
        # A key that says no more than the type: filed under the type, beside values of that type in running text.
        named = whole is None or whole.type in QUANTITY_TYPES
        if (whole is not None and whole.type == typed) or (named and typed not in TIME_TYPES):
            shown = whole.value if whole and not named else value
            return FieldRecord(typed_category(typed), typed, "field", shown, typed, None)
    subject, relation = (".".join(path[:-1]), leaf) if len(path) > 1 else (leaf, "is")
    return FieldRecord(
        _category(path, lexicon),
        name_part(subject),
        name_part(relation),
        whole.value if whole else value,
        whole.type if whole else "",
        None,
    )


def _held_state(path: Sequence[str], value: str, lexicon: Lexicon) -> State | None:
    """Return the state of a field whose key names its kind: ``write.permission`` or ``permission.write``."""
    if path[-1] in lexicon.state_keys:
        key, resource, named = path[-1], _resource(path, lexicon), True
    elif len(path) > 1 and path[-2] in lexicon.state_keys:
        key, resource, named = path[-2], name_part(path[-1]), False
    else:
        return None
    name, straight = lexicon.state_keys[key]
    kind = lexicon.states[name]
    good, bad = next(iter(kind.opposites.items()))
    if value in ("true", "false", "null"):
        shown = good if (value == "true") == straight else bad
    elif value in kind.field_values:
        shown = kind.field_values[value]
    elif not named:
        return None
    else:
        # "error: <text>" has failed whatever the text.
        shown = value if straight else bad
    return State(name, kind.category, kind.relation, resource, shown)


def _reported_state(path: Sequence[str], value: str, lexicon: Lexicon) -> State | None:
    """Return the state of a field such as ``order.status`` where the lexicon knows its value."""
    if value.isdigit() and len(value) < 3:
        return None
    for name, kind in lexicon.states.items():
        if value in kind.field_values:
            return State(name, kind.category, kind.relation, _resource(path, lexicon), kind.field_values[value])
    return None


def _resource(path: Sequence[str], lexicon: Lexicon) -> str:
    """Name what a state is of: the path above the key, or a resource the key itself names, else "any"."""
    if len(path) > 1:
        return name_part(".".join(path[:-1]))
    first = path[0].split("_")[0]
    return first if first in lexicon.words["resources"] else "any"


def _typed_key(path: Sequence[str], lexicon: Lexicon) -> str:
    """Return the type a key such as ``order_id`` or ``order.id`` stands for, else ""."""
    leaf = path[-2] if path[-1] in _ID_KEYS and len(path) > 1 else path[-1]
    typed = lexicon.typed_keys.get(leaf, "")
    return "date" if typed == "year" else typed


def _whole_value(text: str, lexicon: Lexicon) -> Typed | None:
    """Return the typed value that a text consists of, if it is one."""
    stripped = clean(text).strip()
    if not stripped or len(stripped) > 500:
        return None
    found = find_typed(stripped, lexicon)
    if len(found) == 1 and found[0].start == 0 and found[0].stop == len(stripped):
        return found[0]
    return None


def _category(path: Sequence[str], lexicon: Lexicon) -> str:
    """Return the category of the key nearest the value that the lexicon knows, whole keys before parts of keys."""
    known = lexicon.key_categories
    for part in reversed(path):
        if part in known:
            return known[part]
        for piece in reversed(part.split("_")):
            if piece in known:
                return known[piece]
    return UNKNOWN
