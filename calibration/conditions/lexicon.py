"""The closed lexicons of condition extraction: one versioned file, read once and compiled once.

Source: paper section 3.2 and appendix B ("a fixed deterministic extractor"); the words themselves are ours.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from cachemend.calibration.conditions.cues import Cue, CueTable, cue_table
from cachemend.calibration.conditions.lexicon_patterns import named_id_pattern, operation_pattern, typed_pattern
from cachemend.calibration.conditions.normal import not_spelled_out
from cachemend.calibration.errors import CalibrationError

PACKAGED = Path(__file__).with_name("lexicon.json")
_FIELDS: Mapping[str, type] = {
    "version": str,
    "states": list,
    "keys": dict,
    "actions": dict,
    "requirements": dict,
    "hazards": dict,
    "principals": dict,
    "ids": list,
    "forms": dict,
    "operators": dict,
    "durations": dict,
    "id_names": dict,
    "number_words": dict,
}
_WORD_LISTS = (
    "containers",
    "dialogue_markers",
    "speakers",
    "incidental",
    "resources",
    "negations",
    "void_negations",
    "corrections",
    "role_markers",
    "person_roles",
    "backward",
    "assents",
    "pronouns",
    "token_limits",
    "finish_keys",
    "cut_finishes",
    "attachments",
    "attachment_names",
    "unfinished_words",
    "error_messages",
    "months",
    "weekdays",
    "question_words",
    "question_openers",
    "conditionals",
    "stopwords",
)


_PLAIN_CUES = (
    ("resource", "resources"),
    ("negation", "negations"),
    ("void", "void_negations"),
    ("correction", "corrections"),
    ("backward", "backward"),
)


class StateKind(NamedTuple):
    """One kind of state and the values it can have.

    Attributes:
        name: the kind, such as "permission".
        category: the category its records get.
        relation: the relation its records get; kinds with one relation exclude each other's values.
        opposites: for a value, the value its negation stands for.
        restricting: values that forbid something, so that their mere appearance is a change.
        field_values: what a field of this kind may hold, to its value; ``true`` and ``false`` stand for the opposites.
    """

    name: str
    category: str
    relation: str
    opposites: Mapping[str, str]
    restricting: frozenset[str]
    field_values: Mapping[str, str]


@dataclass(frozen=True, kw_only=True, eq=False)
class Lexicon:
    """All words and patterns the extractor and the guards know; compared and hashed by identity.

    Attributes:
        version: the version its file states.
        digest: SHA-256 hex digest of its file's bytes.
        cues: every phrase, by its first word.
        states: the kinds of state, by name.
        opposites: opposite values, by relation.
        restricting: restricting values, by category and relation.
        state_keys: field names that hold a state, to the kind's name and whether ``true`` there is the better value.
        key_categories: field names to the category of their records.
        typed: one pattern over all typed values; the name of the group that matched is the type.
        typed_keys: field names that say no more than a type does, to that type.
        words: the plain word lists, by name.
        number_words: spelled numbers to digits.
        durations: units of time, to a scale within which units convert, and how many of its units each is.
        operators: signs and words for operators, to one sign each.
        operation: two operands and what stands between them; the right one is looked at only, as it may be the next's
            left one.
        id_names: names that an id is given under in running text ("acct"), to one name each.
        named_id: such a name and the id after it.
    """

    version: str
    digest: str
    cues: CueTable
    states: Mapping[str, StateKind]
    opposites: Mapping[str, Mapping[str, str]]
    restricting: Mapping[tuple[str, str], frozenset[str]]
    state_keys: Mapping[str, tuple[str, bool]]
    key_categories: Mapping[str, str]
    typed: re.Pattern[str]
    typed_keys: Mapping[str, str]
    words: Mapping[str, frozenset[str]]
    number_words: Mapping[str, str]
    durations: Mapping[str, tuple[str, int]]
    operators: Mapping[str, str]
    operation: re.Pattern[str]
    id_names: Mapping[str, str]
    named_id: re.Pattern[str]


def load_lexicon(path: Path | str | None = None) -> Lexicon:
    """Read and compile a lexicon file; one object per path.

    Args:
        path: the file; None for the one that comes with the package.

    Raises:
        CalibrationError: no such file, not JSON, or a field that is missing or of another kind.
    """
    return _load(PACKAGED if path is None else Path(path))


@cache
def _load(path: Path) -> Lexicon:
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise CalibrationError(f"lexicon {path}: cannot be read ({error.strerror}); give a JSON file") from error
    try:
        content = json.loads(raw)
    except ValueError as error:
        raise CalibrationError(f"lexicon {path}: not JSON ({error}); give a file such as {PACKAGED.name}") from error
    _check(path, content)
    try:
        return _compiled(content, hashlib.sha256(raw).hexdigest())
    except (KeyError, TypeError, re.error) as error:
        raise CalibrationError(f"lexicon {path}: {error!r}; give a file built like {PACKAGED.name}") from error


def _check(path: Path, content: Any) -> None:
    if not isinstance(content, dict):
        raise CalibrationError(f"lexicon {path}: holds a {type(content).__name__}; give a JSON object")
    for name, kind in (*_FIELDS.items(), *((name, list) for name in _WORD_LISTS)):
        if not isinstance(content.get(name), kind):
            raise CalibrationError(f"lexicon {path}: field {name!r} is missing or no {kind.__name__}")
    for name in _WORD_LISTS:
        if not all(isinstance(word, str) and word for word in content[name]):
            raise CalibrationError(f"lexicon {path}: field {name!r} holds something other than words")


def _compiled(content: dict[str, Any], digest: str) -> Lexicon:
    states = {entry["name"]: _state_kind(entry) for entry in content["states"]}
    operators = {phrase: sign for sign, phrases in content["operators"].items() for phrase in phrases}
    id_names = {alias: name for name, aliases in content["id_names"].items() for alias in aliases}
    return Lexicon(
        version=content["version"],
        digest=digest,
        cues=cue_table(_phrases(content)),
        states=MappingProxyType(states),
        opposites=_opposites(states.values()),
        restricting={(kind.category, kind.relation): kind.restricting for kind in states.values() if kind.restricting},
        state_keys={
            key: (entry["name"], field == "keys")
            for entry in content["states"]
            for field in ("keys", "negative_keys")
            for key in entry[field]
        },
        key_categories={key: category for category, keys in content["keys"].items() for key in keys},
        typed=typed_pattern(content),
        typed_keys={key: entry["type"] for entry in content["ids"] for key in entry["keys"]},
        words=MappingProxyType({name: frozenset(content[name]) for name in _WORD_LISTS}),
        number_words=MappingProxyType(content["number_words"]),
        durations={
            unit: (scale, size) for scale, units in content["durations"].items() for unit, size in units.items()
        },
        operators=operators,
        operation=operation_pattern(operators),
        id_names=id_names,
        named_id=named_id_pattern(id_names),
    )


def _state_kind(entry: dict[str, Any]) -> StateKind:
    opposites = dict(entry["opposites"]) | {b: a for a, b in entry["opposites"]}
    unknown = (set(opposites) | set(entry["restricting"])) - set(entry["values"])
    if unknown:
        raise KeyError(f"state {entry['name']!r} names values it does not list: {sorted(unknown)}")
    held = {
        phrase: value
        for field in ("values", "field_values")
        for value, phrases in entry[field].items()
        for phrase in (*map(not_spelled_out, phrases), value)
    }
    return StateKind(
        entry["name"], entry["category"], entry["relation"], opposites, frozenset(entry["restricting"]), held
    )


def _opposites(kinds: Iterable[StateKind]) -> Mapping[str, Mapping[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for kind in kinds:
        found.setdefault(kind.relation, {}).update(kind.opposites)
    return found


def _phrases(content: dict[str, Any]) -> list[tuple[str, Cue]]:
    """Pair every phrase with what it is a cue of."""
    found = [
        (phrase, Cue("state", entry["name"], value))
        for entry in content["states"]
        for value, phrases in entry["values"].items()
        for phrase in phrases
    ]
    for kind, field in (("action", "actions"), ("required", "requirements"), ("hazard", "hazards")):
        found += [(phrase, Cue(kind, name, "")) for name, phrases in content[field].items() for phrase in phrases]
    for kind, field in _PLAIN_CUES:
        found += [(phrase, Cue(kind, phrase, "")) for phrase in content[field]]
    for name, phrases in content["principals"].items():
        found += [(phrase, Cue("principal", name, "")) for phrase in phrases]
    for name, values in content["forms"].items():
        found += [(phrase, Cue("form", name, value)) for value, phrases in values.items() for phrase in phrases]
    return [(not_spelled_out(phrase), cue) for phrase, cue in found]
