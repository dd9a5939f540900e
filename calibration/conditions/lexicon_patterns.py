"""Patterns over all values, operators or ids that a lexicon lists."""

import re
from collections.abc import Iterable
from typing import Any


def typed_pattern(content: dict[str, Any]) -> re.Pattern[str]:
    """Join all typed patterns; a match starts and ends at a word's edge.

    Most words start none of the patterns, so two cheap looks come first: a digit or a mark of an identifier later in
    the same word, or the first letters of a word that dates and times are spelled with.
    """
    months = "|".join(f"{month}|{month[:3]}" for month in content["months"])
    weekdays = "|".join(content["weekdays"])
    groups = "|".join(
        "(?P<{}>{})".format(
            entry["type"], entry["pattern"].replace("{month}", f"(?:{months})").replace("{weekday}", f"(?:{weekdays})")
        )
        for entry in content["ids"]
    )
    first = _beginning_with({word[:3] for word in ("www", *content["months"], *content["weekdays"], *_TIME_WORDS)})
    gate = rf"(?=[^\s]{{0,80}}?[\d@_/]|\w{{1,80}}\.\w|{first})"
    return re.compile(rf"(?<![\w@#$]){gate}(?:{groups})(?!\w)")


def _beginning_with(letters: Iterable[str]) -> str:
    """Match any of some beginnings in either case, by first letter: far quicker than one alternative after another."""
    by_first: dict[str, list[str]] = {}
    for beginning in sorted(letters):
        by_first.setdefault(beginning[0], []).append(_either_case(beginning[1:]))
    return "|".join(rf"{_either_case(first)}(?:{'|'.join(rest)})" for first, rest in by_first.items())


def _either_case(text: str) -> str:
    return "".join(f"[{letter.upper()}{letter}]" for letter in text)


_TIME_WORDS = (
    *("today", "tonight", "tomorrow", "yesterday", "next", "last", "this", "past", "previous", "coming"),
    *("half", "quarter", "morning", "afternoon", "evening", "noon", "midnight"),
    *("version", "revision", "release", "rev"),
)


def operation_pattern(operators: Iterable[str]) -> re.Pattern[str]:
    """Match ``left operator right``; a hyphen or slash inside a word is none, between two numbers it is."""
    words = "|".join(_alternatives(phrase for phrase in operators if phrase[0].isalpha()))
    signs = "|".join(_alternatives(phrase for phrase in operators if not phrase[0].isalpha() and phrase not in "-/"))
    between = rf"\s+(?P<words>{words})\s+|\s*(?P<signs>{signs})\s*|\s+(?P<spaced>[-/])\s+|(?<=\d)(?P<tight>[-/])(?=\d)"
    return re.compile(
        rf"(?<![\w.])(?P<left>\w[\w.]{{0,60}})[)\]]{{0,9}}(?:{between})(?=[(\[]{{0,9}}(?P<right>\w[\w.]{{0,60}}))",
        re.IGNORECASE,
    )


def named_id_pattern(names: Iterable[str]) -> re.Pattern[str]:
    """Match ``acct=4411``, ``tenant:alder``, ``account no. #4411``: a name, a sign and an id."""
    known = "|".join(_alternatives(names))
    return re.compile(
        rf"(?<![\w./@-])(?P<name>{known})(?:[ _-]?(?:id|no|nr|num|number))?\.?"
        rf"(?:\s?[=#]\s?|:(?=[\w]))(?P<value>\w(?:[\w@./-]{{0,80}}\w)?)",
        re.IGNORECASE,
    )


def _alternatives(phrases: Iterable[str]) -> list[str]:
    return [re.escape(phrase) for phrase in sorted(phrases, key=len, reverse=True)]
