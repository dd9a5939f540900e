"""One form for what may be written in several: case, punctuation, word endings."""

import re
import unicodedata
import zlib
from functools import lru_cache

MAX_VALUE_WORDS = 32
_MARKS = str.maketrans({"’": "'", "‘": "'", "“": '"', "”": '"', "–": "-", "—": " - ", "−": "-", "\u00a0": " "})
_WORD = re.compile(r"#?\w(?:[\w:./'@-]*\w)?")
_SYMBOLS = re.compile(r"[^\w\s!-/:-@\[-`{-~]")
_SHORT_NOT = re.compile(
    r"\b(?:(ca|wo|sha|is|are|was|were|do|does|did|has|have|had|could|would|should|must|need)n'?t|(can)not)\b",
    re.IGNORECASE,
)
_MAYBE_SHORT_NOT = re.compile(r"n'?t\b|nnot\b", re.IGNORECASE)  # a quick look, as few texts have one
_FULL_VERBS = {"ca": "can", "wo": "will", "sha": "shall"}
_INNER_SPACE = re.compile(r"[\s,;]+")
_NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?\Z")
_SUFFIXES = ("ations", "ation", "ings", "ing", "ied", "ies", "ed", "es", "s", "e", "y")
_YES_NO = {"yes": "true", "no": "false", "none": "null", "nil": "null", "n/a": "null"}


def clean(text: str) -> str:
    """Return text in compatibility form with plain quotes and dashes; case is kept."""
    if text.isascii():
        return text
    return unicodedata.normalize("NFKC", text).translate(_MARKS)


def words_of(text: str) -> list[str]:
    """Split into words, marks inside a word kept (``it's``, ``a.b@c.d``, ``#w12``); case is kept.

    ``can't``, ``cant`` and ``cannot`` are ``can not``, and so with all short forms of "not". A sign that is no letter,
    digit or ASCII punctuation, such as an emoji, is a word by its code point: to a pattern of letters and digits all
    such signs would look alike.
    """
    return _WORD.findall(not_spelled_out(_spelled(text)))


def not_spelled_out(text: str) -> str:
    """Return text with every "not" as a word of its own, whichever way it was joined to its verb."""
    return _SHORT_NOT.sub(_verb_and_not, text) if _MAYBE_SHORT_NOT.search(text) else text


def _verb_and_not(match: re.Match[str]) -> str:
    verb = match[1] or match[2]
    full = _FULL_VERBS.get(verb.lower(), verb)
    return (full.capitalize() if verb[0].isupper() else full) + " not"


def _spelled(text: str) -> str:
    return text if text.isascii() else _SYMBOLS.sub(lambda sign: f" u{ord(sign[0]):x} ", text)


def name_part(text: str) -> str:
    """Return a subject or relation as one lowercase word; "-" for nothing."""
    return _INNER_SPACE.sub("_", _spelled(text).strip().lower()) or "-"


def value_of(text: str) -> str:
    """Return a value in lowercase words with single spaces; a long one ends in a checksum of what was cut.

    Thousands separators go, and ``yes``/``no`` become ``true``/``false`` where they are the whole value.
    """
    words = [word.lower() for word in words_of(text)]
    if len(words) == 1 or _NUMBER.match(text):
        whole = text.strip().lower() if _NUMBER.match(text.strip()) else words[0]
        return _YES_NO.get(whole, whole.replace(",", "") if _NUMBER.match(whole) else whole)
    return bounded(words)


def bounded(words: list[str]) -> str:
    """Join words; beyond `MAX_VALUE_WORDS` the rest is a checksum, so that a change there is still a change."""
    if len(words) <= MAX_VALUE_WORDS:
        return " ".join(words)
    rest = " ".join(words[MAX_VALUE_WORDS - 1 :]).encode("utf-8", "surrogatepass")
    return " ".join(words[: MAX_VALUE_WORDS - 1]) + f" rest-{zlib.crc32(rest):08x}"


@lru_cache(maxsize=16384)
def stem(word: str) -> str:
    """Return a word without its commonest endings, to compare forms of one word; at least three letters stay."""
    word = word.removesuffix("'s")
    for suffix in _SUFFIXES:
        if len(word) - len(suffix) >= 3 and word.endswith(suffix):
            word = word[: -len(suffix)]
            break
    # "cancelled" and "cancel", "shipped" and "ship"
    return word[:-1] if len(word) > 3 and word[-1] == word[-2] and word[-1] not in "aeiou" else word
