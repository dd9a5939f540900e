"""Contradictions in numbers and in what is done with them, ours: values, ids, operators.

They are flagged apart (``h_own``), so that their effect can be measured.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache

from cachemend.calibration.conditions.evidence import Clash, Clashes, Evidence, clash
from cachemend.calibration.conditions.lexicon import Lexicon
from cachemend.calibration.conditions.normal import clean
from cachemend.calibration.conditions.reading import Reading
from cachemend.calibration.conditions.typed_values import IDENTITY_TYPES

_REMEMBERED = 4096
_MIRRORED = {">": "<", ">=": "<="}
_SYMMETRIC = frozenset({"+", "*", "=", "!=", "&", "|"})

_Operations = dict[frozenset[str], frozenset[tuple[str, ...]]]


def other_number(evidence: Evidence) -> Clashes:
    """Numbers or ids of the two requests differ, and neither only leaves some out; 48 months are 4 years."""
    before, now = evidence.layers[0]
    found = []
    lost, gained = before.quantities - now.quantities, now.quantities - before.quantities
    if lost and gained:
        ours, theirs = (_durations(side, evidence.lexicon) for side in (before, now))
        lost = frozenset(number for number in lost if ours.get(number) not in theirs.values())
        gained = frozenset(number for number in gained if theirs.get(number) not in ours.values())
        if lost and gained:
            found.append(clash(before.quantities, now.quantities))
    for kind in sorted(IDENTITY_TYPES & before.typed.keys() & now.typed.keys()):
        old, new = before.typed[kind], now.typed[kind]
        if old - new and new - old:
            found.append(clash(old, new))
    return found


def _durations(reading: Reading, lexicon: Lexicon) -> dict[str, tuple[str, float]]:
    """Return the numbers that count a unit of time, each with a scale and how many of its units that is."""
    return {
        number: long
        for sentence in reading.all_sentences
        for number, unit in zip(sentence.words, sentence.words[1:], strict=False)
        if number in reading.quantities and (long := duration((number, unit), lexicon)) is not None
    }


def duration(words: Sequence[str], lexicon: Lexicon) -> tuple[str, float] | None:
    """Return a number and a unit of time as ``(scale, units of the scale)``; None for other words."""
    if len(words) != 2 or words[1] not in lexicon.durations or not words[0].replace(".", "", 1).isdecimal():
        return None
    scale, size = lexicon.durations[words[1]]
    return scale, float(words[0]) * size


def other_operator(evidence: Evidence) -> Clashes:
    """The same two operands with another operator: "8 + 2" and "8 minus 2", "x > 5" and "x < 5"."""
    before, now = evidence.layers[0]
    ours = _operations(before.text, evidence.lexicon)
    if not ours:
        return []
    theirs = _operations(now.text, evidence.lexicon)
    return [
        Clash(_shown(ours[pair]), _shown(theirs[pair]))
        for pair in sorted(ours.keys() & theirs.keys(), key=sorted)
        if not ours[pair] & theirs[pair]
    ]


@lru_cache(maxsize=_REMEMBERED)
def _operations(text: str, lexicon: Lexicon) -> _Operations:
    """Return the operations of a text by their operands, each in the one order that means the same."""
    found: dict[frozenset[str], set[tuple[str, ...]]] = {}
    for match in lexicon.operation.finditer(clean(text)):
        phrase = match["words"] or match["signs"] or match["spaced"] or match["tight"]
        sign = lexicon.operators[" ".join(phrase.lower().split())]
        left, right = (_operand(match[side], lexicon) for side in ("left", "right"))
        if sign in _MIRRORED:
            sign, left, right = _MIRRORED[sign], right, left
        elif sign in _SYMMETRIC:
            left, right = sorted((left, right))
        found.setdefault(frozenset((left, right)), set()).add((left, sign, right))
    return {pair: frozenset(operations) for pair, operations in found.items()}


def _operand(text: str, lexicon: Lexicon) -> str:
    word = text.lower().rstrip(".")
    return lexicon.number_words.get(word, word)


def _shown(operations: Iterable[tuple[str, ...]]) -> str:
    return ", ".join(sorted(map(" ".join, operations)))
