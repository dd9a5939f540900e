"""Splitting a text into fields (``key: value`` lines, JSON) and sentences, whatever mixture it is."""

import json
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

from cachemend.calibration.conditions.lexicon import Lexicon
from cachemend.calibration.conditions.normal import clean

_LINE = re.compile(
    r"""(?:[-*•]\s+)?["']?(?P<key>[^\W\d_][\w.#/@\[\] -]{0,79}?)["']?\s*"""
    r"""(?:(?P<colon>:)(?=\s|$)|=(?!=))\s*(?P<value>.*)"""
)
_PAIR = re.compile(
    r"""["'](?P<key>[^\W\d][\w .#/@-]{0,79})["']\s*:\s*"""
    r"""(?:"(?P<double>(?:[^"\\]|\\.)*)"|'(?P<single>(?:[^'\\]|\\.)*)'|(?P<bare>[^\s,{}\[\]"'][^,{}\[\]\n]*))"""
)
_LOGFMT = re.compile(r"""(?:[^\W\d][\w.-]{0,79}=(?:"[^"]*"|[^\s"&,;]*)(?:[\s,;&]+|\Z)){2,}""")
_LOGFMT_PAIR = re.compile(r"""(?P<key>[^\W\d][\w.-]{0,79})=(?:"(?P<quoted>[^"]*)"|(?P<bare>[^\s"&,;]*))""")
_MAYBE_ID = re.compile(r"[=#]|:\w")
_PIECES = re.compile(r"[;|]\s+")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")
_UTTERANCE_WORDS = 3
_MAX_JSON = 1_000_000


class Field(NamedTuple):
    """A value with the path of keys that leads to it, outermost first, in lowercase."""

    path: tuple[str, ...]
    value: str


def split_text(text: str, lexicon: Lexicon, *, any_key: bool) -> list[Field | str]:
    """Split a text into fields and sentences, in order.

    Args:
        text: any text.
        lexicon: tells which keys are known.
        any_key: whether an unknown key of one word makes a field (contexts) or a sentence (requests, responses).
    """
    cleaned = clean(text)
    stripped = cleaned.strip()
    if not stripped:
        return []
    if stripped[0] in "{[" and stripped[-1] in "}]":
        fields = _json_fields((), stripped)
        if fields:
            return list(fields)
    return [unit for line in cleaned.splitlines() for unit in _line_units(line, lexicon, any_key)]


def _line_units(line: str, lexicon: Lexicon, any_key: bool) -> Iterator[Field | str]:
    stripped = line.strip()
    pieces = _PIECES.split(stripped)
    if len(pieces) > 1 and all(_is_field(piece.strip(), lexicon, any_key) for piece in pieces):
        for piece in pieces:
            yield from _line_units(piece, lexicon, any_key)
        return
    if stripped[:1] in ("{", "["):
        fields = _json_fields((), stripped)
        if fields:
            yield from fields
            return
    if stripped.count("=") > 1 and _LOGFMT.fullmatch(stripped):
        pairs = list(_LOGFMT_PAIR.finditer(stripped))
        if all(_known(pair["key"], lexicon, any_key) for pair in pairs):
            yield from (Field(key_path(pair["key"]), pair["quoted"] or pair["bare"] or "") for pair in pairs)
            return
    match = _LINE.match(stripped)
    several_words = match is not None and match["colon"] is None and " " in match["key"].strip()
    if match is None or several_words or not _known(match["key"], lexicon, any_key):
        yield from _prose(stripped, lexicon)
        return
    path, value = key_path(match["key"]), match["value"].strip()
    if value[:1] in ("{", "["):
        fields = _json_fields(path, value)
        if fields:
            yield from fields
            return
    if path[-1] in lexicon.words["speakers"] and len(value.split()) >= _UTTERANCE_WORDS:
        yield from _prose(value, lexicon)
    elif value:
        yield Field(path, value.rstrip(",").strip("\"'"))


def _prose(text: str, lexicon: Lexicon) -> Iterator[Field | str]:
    """Split running text into sentences; ids that it names, as in ``acct=4411``, are fields besides."""
    for sentence in _SENTENCE_END.split(text):
        if sentence.strip():
            yield sentence.strip()
    if _MAYBE_ID.search(text):
        for match in lexicon.named_id.finditer(text):
            name, value = lexicon.id_names[match["name"].lower()], match["value"]
            # A sorting key or a keyboard's key is a word.
            if name != "key" or any(sign.isdigit() for sign in value):
                yield Field((name,), value)


def _is_field(piece: str, lexicon: Lexicon, any_key: bool) -> bool:
    match = _LINE.match(piece)
    return match is not None and _known(match["key"], lexicon, any_key)


@lru_cache(maxsize=4096)
def key_path(key: str) -> tuple[str, ...]:
    """Split a key at its dots into lowercase parts; spaces inside a part become underscores."""
    parts = (re.sub(r"[\s-]+", "_", part.strip().lower()) for part in re.split(r"[.\[\]]+", key))
    return tuple(part for part in parts if part) or ("-",)


def _known(key: str, lexicon: Lexicon, any_key: bool) -> bool:
    """Tell whether a key makes a field: one word where any may, else one the lexicon knows."""
    if any_key and " " not in key.strip():
        return True
    path = key_path(key)
    known = (
        *(lexicon.key_categories, lexicon.state_keys, lexicon.typed_keys),
        *(lexicon.words["speakers"], lexicon.words["token_limits"], lexicon.words["finish_keys"]),
    )
    names = [path[-1]]
    if " " in key.strip() and len(key.split()) <= _UTTERANCE_WORDS:
        names.append(path[-1].split("_")[-1])
    return any(name in words for name in names for words in known)


def _json_fields(path: tuple[str, ...], text: str) -> list[Field]:
    """Flatten JSON; text that only looks like it gives the pairs that can be found in it."""
    try:
        content = json.loads(text) if len(text) <= _MAX_JSON else None
    except (ValueError, RecursionError):
        content = None
    if content is None:
        return [
            Field((*path, *key_path(match["key"])), match["double"] or match["single"] or match["bare"] or "")
            for match in _PAIR.finditer(text)
        ]
    return list(_flattened(path, content))


def _flattened(path: tuple[str, ...], content: Any) -> Iterator[Field]:
    """Walk nested JSON without recursion; the place in a list is part of the path only where its items have parts."""
    waiting: list[tuple[tuple[str, ...], Any]] = [(path, content)]
    while waiting:
        at, value = waiting.pop()
        if isinstance(value, dict):
            waiting += [((*at, *key_path(str(key))), item) for key, item in reversed(value.items())]
        elif isinstance(value, list):
            nested = any(isinstance(item, dict | list) for item in value)
            waiting += [((*at, str(i)) if nested else at, item) for i, item in reversed(list(enumerate(value)))]
        else:
            text = value if isinstance(value, str) else json.dumps(value)
            yield Field(at or ("-",), clean(text))
