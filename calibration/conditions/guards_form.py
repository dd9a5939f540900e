"""Contradictions in what a request names and in how its answer is to be given, ours: names, form, length.

They are flagged apart (``h_own``), so that their effect can be measured.
"""

import re

from cachemend.calibration.conditions.evidence import Clash, Clashes, Evidence, clash
from cachemend.calibration.conditions.reading import Reading, Values

_WORDS_PER_TOKEN = 3  # a word seldom takes more tokens
_LIMIT = re.compile(r"(\d{1,3}(?:,\d{3})+|\d{1,12})(?: tokens?)?\Z")
_LIST_MARKS = ("- ", "* ", "• ")


def other_name(evidence: Evidence) -> Clashes:
    """Each request has a capitalised word that the other has in no form, whatever names they share besides."""
    before, now = evidence.layers[0]
    lost, gained = _name_words(before) - now.words, _name_words(now) - before.words
    return [clash(lost, gained)] if lost and gained else []


def _name_words(reading: Reading) -> Values:
    return frozenset(word for sentence in reading.all_sentences for name in sentence.names for word in name.split())


def other_form(evidence: Evidence) -> Clashes:
    """The requests ask for another language, format or voice of the answer; asking for none is a wish of its own."""
    query, new_query = evidence.layers[0]
    if "form" not in query.cue_kinds | new_query.cue_kinds:
        return []
    before, now = ({cue for cue in reading.cues if cue.kind == "form"} for reading in (query, new_query))
    found = []
    for name in sorted({cue.name for cue in before ^ now}):
        ours, theirs = ({cue.value for cue in side if cue.name == name} for side in (before, now))
        if not ours & theirs:
            found.append(clash(ours, theirs))
    return found


def cut_off(evidence: Evidence) -> Clashes:
    """The cached answer was cut off by a limit of its context, and the request is not under the same one.

    Cut off is what a finish reason says; without one, an answer that ends in mid-sentence and is about as long as the
    limit allows.
    """
    limit, reason = token_limit(evidence.cache.context, evidence), _cut_reason(evidence.cache.context, evidence)
    if not limit and not reason:
        return []
    theirs = token_limit(evidence.request.context, evidence)
    same = theirs == limit if limit else _cut_reason(evidence.request.context, evidence) == reason
    if same or not (reason or _ends_early(evidence.cache.response, limit)):
        return []
    return [Clash(reason or f"{limit} tokens", f"{theirs} tokens" if theirs else "")]


def too_long(evidence: Evidence) -> Clashes:
    """The cached answer has more words than the request's context allows tokens."""
    limit = token_limit(evidence.request.context, evidence)
    response = evidence.cache.response
    if not limit or response is None or limit == token_limit(evidence.cache.context, evidence):
        return []
    words = _n_words(response)
    return [Clash(f"{words} words", f"{limit} tokens")] if words > limit else []


def token_limit(context: Reading, evidence: Evidence) -> int:
    """Return the lowest token limit of a context, 0 for none."""
    keys = evidence.lexicon.words["token_limits"]
    if keys.isdisjoint(context.keys):
        return 0
    held = (_LIMIT.match(f.record.value) for f in context.fields if f.field.path[-1] in keys)
    return min((int(number[1].replace(",", "")) for number in held if number), default=0)


def _cut_reason(context: Reading, evidence: Evidence) -> str:
    """Return the finish reason that says an answer was cut off, "" for none."""
    keys, values = (evidence.lexicon.words[name] for name in ("finish_keys", "cut_finishes"))
    if keys.isdisjoint(context.keys):
        return ""
    found = (f.record.value for f in context.fields if f.field.path[-1] in keys)
    return next((value for value in found if value in values), "")


def _ends_early(response: Reading | None, limit: int) -> bool:
    if response is None or not response.sentences or not limit_explains(response, limit):
        return False
    last = response.sentences[-1].text
    return (last[-1].isalpha() and not last.startswith(_LIST_MARKS)) or last[-1] in ",-("


def limit_explains(response: Reading, limit: int) -> bool:
    """Tell whether an answer is about as long as a token limit allows, or longer."""
    return _n_words(response) * _WORDS_PER_TOKEN >= limit


def _n_words(reading: Reading) -> int:
    return sum(len(sentence.words) for sentence in reading.all_sentences)
