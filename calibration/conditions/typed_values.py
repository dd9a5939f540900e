"""Typed values in one written form each: ids, dates, times, amounts; and when two of a type agree."""

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from cachemend.calibration.conditions.lexicon import Lexicon

IDENTITY_TYPES = frozenset(
    {
        *("url", "email", "digest", "uuid", "payment", "user", "file", "order", "phone", "version", "item", "flight"),
        "reservation",
    }
)
TIME_TYPES = frozenset({"date", "as-of", "year", "clock"})
QUANTITY_TYPES = frozenset({"money", "percent", "number"})

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_HOURS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_CLOCK_WORDS = {word: hour for hour, word in enumerate(_HOURS, start=1)}
_FULL_DATE = re.compile(r"(\d{4})(?:-(\d\d))?(?:-(\d\d))?(t.*)?\Z|--(\d\d)-(\d\d)\Z")
_CLOCK = re.compile(r"(\d\d):(\d\d)(\?)?\Z")
_DIGITS = re.compile(r"\d+")
_CURRENCIES = {"$": "usd", "€": "eur", "£": "gbp", "¥": "jpy", "dollar": "usd", "pound": "gbp", "euro": "eur"}
_CURRENCY = re.compile(r"[$€£¥]|usd|eur|gbp|jpy|yen|dollar|pound|euro")
_SCALES = {"k": "000", "thousand": "000", "m": "000000", "million": "000000", "bn": "000000000", "billion": "000000000"}
_SCALE = re.compile(r"(?:k|m|bn|million|billion|thousand)\Z")


class Typed(NamedTuple):
    """A typed value in text: its type, its one written form, and where it stands."""

    type: str
    value: str
    start: int
    stop: int


def find_typed(text: str, lexicon: Lexicon) -> list[Typed]:
    """Find all typed values of a cleaned text, from left to right, none inside another.

    A date or year after "as of" has the type "as-of"; every other year is a "date".
    """
    found = []
    for match in lexicon.typed.finditer(text):
        kind = str(match.lastgroup)
        if kind in ("date", "year"):
            before = text[max(0, match.start() - 8) : match.start()].lower().split()
            asof = before[-2:] in (["as", "of"], ["as", "at"])
            found.append(Typed("as-of" if asof else "date", canonical("date", match[0]), *match.span()))
        else:
            found.append(Typed(kind, canonical(kind, match[0]), *match.span()))
    return found


def canonical(kind: str, text: str) -> str:
    """Return the one written form of a value of a type."""
    rule = _FORMS.get(kind)
    return rule(text.lower()) if rule else text.lower()


def agree(kind: str, first: str, second: str) -> bool:
    """Tell whether two values of a type can mean the same; equal ones always can.

    Dates agree where every part both state is equal, a named day only with itself or a calendar date (which day it
    falls on is unknown); clock times without morning or evening agree with either.
    """
    if first == second:
        return True
    if kind in ("date", "as-of", "year"):
        ours, theirs = _date_parts(first), _date_parts(second)
        if ours is None or theirs is None:
            return (ours is None) != (theirs is None)
        return all(a is None or b is None or a == b for a, b in zip(ours, theirs, strict=True))
    if kind == "clock":
        return _clock_agrees(first, second)
    return False


def _date_parts(value: str) -> tuple[str | None, ...] | None:
    """Split into year, month, day and time of day; None for a named day such as "tomorrow"."""
    match = _FULL_DATE.match(value)
    if match is None:
        return None
    return match[1], match[2] or match[5], match[3] or match[6], match[4]


def _clock_agrees(first: str, second: str) -> bool:
    ours, theirs = _CLOCK.match(first), _CLOCK.match(second)
    if ours is None or theirs is None or not (ours[3] or theirs[3]):
        return False
    return ours[2] == theirs[2] and int(ours[1]) % 12 == int(theirs[1]) % 12


def _date(text: str) -> str:
    numbers = _DIGITS.findall(text)
    month = next((i for i, name in enumerate(_MONTHS, start=1) if re.search(rf"\b{name}", text)), None)
    if text[:4].isdigit() and len(numbers) >= 3:
        time_of_day = text[text.index("t") :] if "t" in text else ""
        return f"{numbers[0]}-{int(numbers[1]):02d}-{int(numbers[2]):02d}{time_of_day}"
    if "/" in text:
        month_first, day, year = (int(number) for number in numbers)
        if month_first > 12:
            month_first, day = day, month_first
        return f"{year + 2000 if year < 100 else year}-{month_first:02d}-{day:02d}"
    if month is None or not numbers:
        return numbers[0] if text.isdigit() else "-".join(text.split())
    year_text = next((number for number in numbers if len(number) == 4), None)
    days = [number for number in numbers if len(number) <= 2]
    if not days:
        return f"{year_text}-{month:02d}"
    return f"{year_text or '-'}-{month:02d}-{int(days[0]):02d}"


def _clock(text: str) -> str:
    if text in ("noon", "midnight"):
        return "12:00" if text == "noon" else "00:00"
    numbers = [int(number) for number in _DIGITS.findall(text)]
    if not numbers:
        numbers = [next(_CLOCK_WORDS[word] for word in text.split() if word in _CLOCK_WORDS)]
    hour, minute = numbers[0] % 24, numbers[1] if len(numbers) > 1 else 0
    if "half past" in text:
        minute = 30
    elif "quarter to" in text:
        hour, minute = (hour - 1) % 12 or 12, 45
    elif "quarter" in text:
        minute = 15
    compact = text.replace(".", "").replace(" ", "")
    morning = compact.endswith("am") or "morning" in text
    evening = compact.endswith("pm") or "afternoon" in text or "evening" in text
    if morning or evening:
        return f"{hour % 12 + (12 if evening else 0):02d}:{minute:02d}"
    # "7:15" leaves the half of the day open, which the mark says; "07:15" and "19:15" do not.
    certain = hour > 12 or hour == 0 or text.startswith("0")
    return f"{hour:02d}:{minute:02d}" + ("" if certain else "?")


def _money(text: str) -> str:
    unit = _CURRENCY.search(text)
    scale = _SCALE.search(text)
    amount = _number(text)
    if scale and "." not in amount:
        amount += _SCALES[scale[0]]
    elif scale:
        amount += scale[0]
    return f"{amount}-{_CURRENCIES.get(unit[0], unit[0]) if unit else 'usd'}"


def _number(text: str) -> str:
    match = re.search(r"-?\d[\d,]*(?:\.\d+)?", text)
    amount = (match[0] if match else text).replace(",", "")
    return amount.rstrip("0").rstrip(".") if "." in amount else amount


_FORMS: Mapping[str, Callable[[str], str]] = {
    "date": _date,
    "as-of": _date,
    "clock": _clock,
    "money": _money,
    "number": _number,
    "percent": lambda text: f"{_number(text)}-percent",
    "phone": lambda text: "".join(_DIGITS.findall(text)),
    "version": lambda text: re.sub(r"\A(?:version|revision|release|rev)\.?\s+|\Av(?=\d)|(?<=\s)v", "", text).strip(),
    "url": lambda text: re.sub(r"\Ahttps?://(?:www\.)?|\Awww\.", "", text).rstrip("/"),
    "digest": lambda text: re.sub(r"\A(sha1|sha256|sha512|md5)[:=-]?", "", text),
}


def typed_category(kind: str) -> str:
    """Return the category of the record of a typed value: when for dates and times, which for ids, else a fact."""
    return "time" if kind in TIME_TYPES else "fact" if kind in QUANTITY_TYPES else "subject"
