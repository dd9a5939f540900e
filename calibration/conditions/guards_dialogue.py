"""Contradictions in what a request leans on, ours: earlier turns, the turn it answers, a tool's answer.

They are flagged apart (``h_own``), so that their effect can be measured.
"""

import re

from cachemend.calibration.conditions.evidence import Clash, Clashes, Evidence, clash
from cachemend.calibration.conditions.extracting import Texts
from cachemend.calibration.conditions.guards_inputs import tool_turns
from cachemend.calibration.conditions.reading import Reading, Values

_ANSWERED = re.compile(r"^[ \t]*(?:agent|assistant|bot|ai)\s*:\s*\S+\s+\S+\s+\S", re.IGNORECASE | re.MULTILINE)
_TAKING_BACK = frozenset(["no", "nope", "nah", "never", "nevermind", "forget", "scratch", "second", "keep", "leave"])
_TAKEN_BACK = re.compile(
    r"\?\s*(?:no|nope|nah)\b(?=\s*[,.;:!-]|\s*\Z)"
    r"|\b(?:never ?mind|forget it|forget that|scratch that|on second thoughts?)\b"
    r"|\b(?:keep|leave) (?:it|them|that|everything) (?:as (?:it is|they are|is)|alone)\b",
    re.IGNORECASE,
)


def emptied(evidence: Evidence) -> Clashes:
    """One of the requests says nothing at all."""
    before, now = (bool(query.words or query.fields) for query in evidence.layers[0])
    return [Clash("words" if before else "", "words" if now else "")] if before != now else []


def tool_answer_gone(evidence: Evidence) -> Clashes:
    """A tool had answered when the response was given, and none has in the request's context."""
    before, now = (tool_turns(context) for context in evidence.layers[1])
    return [clash(before, now)] if before and not now else []


def other_history(evidence: Evidence) -> Clashes:
    """A request speaks of what was said before, and there was an answer before it on one side only."""
    if not any("backward" in query.cue_kinds for query in evidence.layers[0]):
        return []
    before, now = (_ANSWERED.search(context.text) is not None for context in evidence.layers[1])
    if before == now:
        return []
    return [Clash("earlier answer" if before else "", "earlier answer" if now else "")]


def other_turn(evidence: Evidence) -> Clashes:
    """Both requests only say yes, no or go on, and the last sentence before them is another."""
    assents = evidence.lexicon.words["assents"]
    if not all(query.words and query.words <= assents for query in evidence.layers[0]):
        return []
    before, now = (_last_said(context) for context in evidence.layers[1])
    return [clash(before, now)] if before != now else []


def _last_said(context: Reading) -> Values:
    return frozenset(sentence.text.lower() for sentence in context.sentences[-1:])


def other_correction(evidence: Evidence) -> Clashes:
    """Both sides take something back, and the request with a name, number or date that the cached one lacks there."""
    before, now = (_corrected(side) for side in (evidence.cache, evidence.request))
    return [clash(before, now)] if before and now - before else []


def _corrected(side: Texts) -> Values:
    """Return the names, numbers and typed values of the sentences that take something back."""
    return frozenset(
        value
        for reading in (side.query, side.context)
        if "correction" in reading.cue_kinds
        for sentence in reading.all_sentences
        if any(cue.kind == "correction" for cue in sentence.cues)
        for value in (*sentence.names, *sentence.spelled_numbers, *(found.value for found in sentence.typed))
    )


def taken_back(evidence: Evidence) -> Clashes:
    """A request answers its own question with no, or drops what it asked for, and the other does not."""
    if all(_TAKING_BACK.isdisjoint(query.words) for query in evidence.layers[0]):
        return []
    before, now = (_TAKEN_BACK.search(query.text) for query in evidence.layers[0])
    if (before is None) == (now is None):
        return []
    return [Clash(*(found[0].strip("? \n").lower() if found else "" for found in (before, now)))]
