"""Cached answers that answer nothing, ours: they broke off, report an error, or no question came before them.

They look at the cached answer whatever the request is, so they fire on an equal request too. They are flagged apart
(``h_own``), so that their effect can be measured.
"""

import re
from functools import cache, lru_cache

from cachemend.calibration.conditions.evidence import Clash, Clashes, Evidence
from cachemend.calibration.conditions.guards_form import limit_explains, token_limit
from cachemend.calibration.conditions.lexicon import Lexicon
from cachemend.calibration.conditions.normal import clean
from cachemend.calibration.conditions.reading import Reading

_REMEMBERED = 4096
_SHORT = 8  # words; a shorter answer needs no closing mark
_LONGEST_MESSAGE = 240  # characters of an error message
_BEFORE_MESSAGE = 6  # words of a message before what it is known by
_WORDS = re.compile(r"\w[\w'-]*")
_NO_MARKS = str.maketrans(dict.fromkeys(".,;:!?()", " "))
_ELLIPSES = ("...", "…")
_OPEN_MARK = re.compile(r"(?:\w[,:;]|\w\s{1,3}[-–—]|[a-z]{3}[-–—])\Z")
_LISTED_OR_CODE = re.compile(r"^\s*(?:[-*•]|\d+[.)])\s|[={}()<>\[\]`]")
_STATUS = re.compile(
    r"\s*(?:(?:http|status|error|err|code)[\s:]*){1,3}[45]\d\d\b(?!\s+(?:is|are|means|stands|says|tells|signals)\b)"
    r"|\s*[45]\d\d[\s:-]+(?:[a-z]+ ){0,2}(?:error|unavailable|gateway|timeout|requests)\b"
    r"|\s*(?:fatal\s+|unexpected\s+)?error\s*:"
    r"|\s*traceback \(most recent call last\)",
    re.IGNORECASE,
)
_ABOUT_ERRORS = frozenset({"error", "errors", "exception", "exceptions", "traceback", "http"})
_ADDRESSED = frozenset({"you", "your", "yours"})


def unfinished(evidence: Evidence) -> Clashes:
    """The cached answer breaks off: it ends in a mark or word that announces more, or a limit left it without an end.

    Without an open mark, the answer may stand where both contexts state the limit that explains its length: the new
    answer would be cut off at the same place.
    """
    response = evidence.cache.response
    if response is None:
        return []
    mark = _open_mark(response.text)
    if mark:
        return [Clash(mark, "")]
    limit = token_limit(evidence.cache.context, evidence)
    word = _open_word(response.text, evidence.lexicon) or (_bare_ending(response.text) if limit else "")
    if not word:
        return []
    same = limit and limit == token_limit(evidence.request.context, evidence)
    return [] if same and limit_explains(response, limit) else [Clash(word, "")]


@lru_cache(maxsize=_REMEMBERED)
def _open_mark(text: str) -> str:
    """Return the mark that announces more at a text's end, "" for none; lists and code end as they like."""
    last = _last_line(text)
    if last.endswith(_ELLIPSES):
        return "..."
    if _OPEN_MARK.search(last, len(last) - 6) and len(text.split(None, 2)) > 1 and not _LISTED_OR_CODE.search(last):
        return last[-1]
    return ""


@lru_cache(maxsize=_REMEMBERED)
def _open_word(text: str, lexicon: Lexicon) -> str:
    """Return the conjunction, article or preposition at a text's end, "" for none."""
    last = _last_line(text)
    words = _WORDS.findall(last[-80:])
    whole = len(words) > 1 and last.endswith(words[-1])
    return words[-1] if whole and words[-1] in lexicon.words["unfinished_words"] else ""


@lru_cache(maxsize=_REMEMBERED)
def _bare_ending(text: str) -> str:
    """Return the last word of a running text that has no closing mark, "" for other texts."""
    last = _last_line(text)
    if not last or not last[-1].isalpha() or _LISTED_OR_CODE.search(last):
        return ""
    words = _WORDS.findall(last)
    return words[-1] if len(words) > _SHORT else ""


def _last_line(text: str) -> str:
    return text.rstrip().rpartition("\n")[2]


def error_message(evidence: Evidence) -> Clashes:
    """The cached answer is an error message, which says nothing about the next attempt; asked about one, it is not."""
    response = evidence.cache.response
    if response is None:
        return []
    found = _message(response.text, evidence.lexicon)
    return [Clash(found, "")] if found and not _asks_about_errors(evidence.cache.query) else []


def _asks_about_errors(query: Reading) -> bool:
    return any(one.question and not _ABOUT_ERRORS.isdisjoint(one.words) for one in query.all_sentences)


@lru_cache(maxsize=_REMEMBERED)
def _message(text: str, lexicon: Lexicon) -> str:
    """Return what shows that a text is an error message, "" for other texts."""
    shown = _STATUS.match(text)
    if shown:
        return shown[0].strip().lower()
    if len(text) > _LONGEST_MESSAGE or _last_words(lexicon).isdisjoint(text.lower().translate(_NO_MARKS).split()):
        return ""
    told = _told_pattern(lexicon).match(clean(text))
    return told["message"].lower() if told else ""


@cache
def _last_words(lexicon: Lexicon) -> frozenset[str]:
    """Return the words that messages end in: a quick look, as few texts have one."""
    return frozenset(message.rpartition(" ")[2] for message in lexicon.words["error_messages"])


@cache
def _told_pattern(lexicon: Lexicon) -> re.Pattern[str]:
    """Match a text that comes to one of the lexicon's messages within a few words and does not quote it."""
    messages = "|".join(map(re.escape, sorted(lexicon.words["error_messages"], key=len, reverse=True)))
    return re.compile(
        rf"\W*(?:[\w'-]+[ ,:!.]+){{0,{_BEFORE_MESSAGE}}}?(?<!['\"`])(?P<message>{messages})\b", re.IGNORECASE
    )


def nothing_asked(evidence: Evidence) -> Clashes:
    """Neither request says anything, and the cached answer does not turn to whoever sent it to ask what is wanted."""
    response = evidence.cache.response
    if response is None or not response.words or not response.words.isdisjoint(_ADDRESSED):
        return []
    asked = any(query.words or query.fields for query in evidence.layers[0])
    return [] if asked else [Clash("no request", "no request")]
