"""Contradictions the paper's rules leave out, ours: negation, number, swapped roles, one thing replaced by another.

They are flagged apart (``h_own``), so that their effect can be measured.
"""

from collections.abc import Sequence
from itertools import takewhile

from cachemend.calibration.conditions.evidence import Clash, Clashes, Evidence, Key, clash
from cachemend.calibration.conditions.normal import stem
from cachemend.calibration.conditions.sentences import Sentence
from cachemend.calibration.conditions.typed_values import IDENTITY_TYPES, QUANTITY_TYPES

_MAX_REPLACED = 4
_MAX_SENTENCES = 64
_FILLER_WORDS = 3
_SAYINGS = frozenset({"asks", "says"})
_NO_FIELDS = QUANTITY_TYPES | {"remainder"}


def negation(evidence: Evidence) -> Clashes:
    """A word negated on one side and plain on the other: "refund the order", "do not refund the order"."""
    found = []
    for before, now in evidence.layers:
        undone = (before.plain - before.negated) & (now.negated - now.plain)
        done = (before.negated - before.plain) & (now.plain - now.negated)
        if undone or done:
            found.append(Clash(_signed(undone, done), _signed(done, undone)))
    return found


def _signed(plain: frozenset[str], negated: frozenset[str]) -> str:
    return ", ".join((*sorted(plain), *(f"not {word}" for word in sorted(negated))))


def other_number(evidence: Evidence) -> Clashes:
    """Numbers or ids of the two requests differ, and neither only leaves some out."""
    before, now = evidence.layers[0]
    found = []
    if before.quantities - now.quantities and now.quantities - before.quantities:
        found.append(clash(before.quantities, now.quantities))
    for kind in sorted(IDENTITY_TYPES & before.typed.keys() & now.typed.keys()):
        ours, theirs = before.typed[kind], now.typed[kind]
        if ours - theirs and theirs - ours:
            found.append(clash(ours, theirs))
    return found


def swapped_roles(evidence: Evidence) -> Clashes:
    """Two things changed places: "from A to B", "from B to A"; or two words, all others where they were."""
    found = []
    markers = evidence.lexicon.words["role_markers"]
    stopwords = evidence.lexicon.words["stopwords"]
    before, now = evidence.layers[0]
    for first in before.all_sentences[:_MAX_SENTENCES]:
        for second in now.all_sentences[:_MAX_SENTENCES]:
            if first.bag != second.bag or first.words == second.words:
                continue
            ours, theirs = _fillers(first, markers, stopwords), _fillers(second, markers, stopwords)
            shared = sorted(ours.keys() & theirs.keys())
            found += [
                Clash(f"{a} {ours[a]} {b} {ours[b]}", f"{a} {theirs[a]} {b} {theirs[b]}")
                for i, a in enumerate(shared)
                for b in shared[i + 1 :]
                if ours[a] != ours[b] and ours[a] == theirs[b] and ours[b] == theirs[a]
            ]
            moved = [(a, b) for a, b in zip(first.words, second.words, strict=False) if a != b]
            if len(first.words) == len(second.words) and len(moved) == 2 and moved[0] == moved[1][::-1]:
                found.append(Clash(" before ".join(moved[0]), " before ".join(moved[0][::-1])))
    return list(dict.fromkeys(found))


def _fillers(sentence: Sentence, markers: frozenset[str], stopwords: frozenset[str]) -> dict[str, str]:
    """Return the words after each role marker, up to the next one."""
    found: dict[str, str] = {}
    for i, word in enumerate(sentence.words):
        if word in markers:
            rest = takewhile(lambda later: later not in markers, sentence.words[i + 1 :])
            filler = [later for later in rest if later not in stopwords][:_FILLER_WORDS]
            if filler:
                found[word] = " ".join(filler)
    return found


def replaced_words(evidence: Evidence) -> Clashes:
    """The same sentence with one thing in the place of another.

    In a context it counts only where the cached answer or one of the requests speaks of what was replaced.
    """
    found = []
    for before, now in evidence.layers:
        if not before.all_sentences or not now.all_sentences:
            continue
        same = {sentence.text for sentence in before.all_sentences} & {sentence.text for sentence in now.all_sentences}
        old, new = (
            [sentence for sentence in side.all_sentences[:_MAX_SENTENCES] if sentence.text not in same]
            for side in (before, now)
        )
        in_query = before is evidence.cache.query
        for first in old:
            for second in new:
                pair = _replaced(first.words, second.words, evidence.lexicon.words["stopwords"])
                if pair is not None and (in_query or not _spoken_of(evidence).isdisjoint(" ".join(pair).split())):
                    found.append(pair)
    return list(dict.fromkeys(found))


def _spoken_of(evidence: Evidence) -> frozenset[str]:
    response = evidence.cache.response
    said = response.words if response is not None else frozenset[str]()
    return said | evidence.cache.query.words | evidence.request.query.words


def _replaced(first: Sequence[str], second: Sequence[str], stopwords: frozenset[str]) -> Clash | None:
    ours, theirs = ([word for word in part if word not in stopwords] for part in _middle(first, second))
    if ours and theirs and list(map(stem, ours)) != list(map(stem, theirs)):
        return Clash(" ".join(ours), " ".join(theirs))
    return None


def _middle(first: Sequence[str], second: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    """Return two sentences without their common beginning and end; nothing where too little is common."""
    shorter = min(len(first), len(second))
    start = next((i for i in range(shorter) if first[i] != second[i]), shorter)
    end = next((i for i in range(shorter - start) if first[-1 - i] != second[-1 - i]), shorter - start)
    ours, theirs = first[start : len(first) - end], second[start : len(second) - end]
    longer = max(len(ours), len(theirs))
    return (ours, theirs) if longer <= _MAX_REPLACED and start + end > longer else ((), ())


def other_request(evidence: Evidence) -> Clashes:
    """Two requests share whole sentences, and what else they say has little in common.

    Instructions that every request repeats make any two of them look alike.
    """
    before, now = (reading.all_sentences for reading in evidence.layers[0])
    common = {sentence.text for sentence in before if sentence.content} & {sentence.text for sentence in now}
    if not common:
        return []
    ours, theirs = (
        {stem(word) for sentence in side if sentence.text not in common for word in sentence.content}
        for side in (before, now)
    )
    if ours and theirs and 2 * len(ours & theirs) < max(len(ours), len(theirs)):
        return [clash(ours, theirs)]
    return []


def stated_fact(evidence: Evidence) -> Clashes:
    """A field of unknown meaning changed, and the cached answer states its old value or a request asks for it."""
    keys = [key for key in sorted(evidence.lost) if _is_unknown_field(key) and key in evidence.gained]
    if not keys:
        return []
    response = evidence.cache.response
    said = response.words if response is not None else frozenset[str]()
    asked = (evidence.cache.query.words & evidence.request.query.words) - evidence.lexicon.words["stopwords"]
    found = []
    for key in keys:
        names = {piece for part in key[1:] for piece in part.replace(".", "_").split("_")}
        stated = any(said.issuperset(value.split()) for value in evidence.lost[key])
        if key not in evidence.kept and (names & asked or stated):
            found.append(clash(evidence.lost[key], evidence.gained[key]))
    return found


def _is_unknown_field(key: Key) -> bool:
    return key[0] == "fact" and key[2] not in _SAYINGS and key[1] not in _NO_FIELDS
