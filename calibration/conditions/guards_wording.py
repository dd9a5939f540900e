"""Contradictions in the wording, ours: negation, swapped roles, one thing replaced by another.

They are flagged apart (``h_own``), so that their effect can be measured.
"""

from collections.abc import Sequence
from functools import cache
from itertools import pairwise, takewhile

from cachemend.calibration.conditions.evidence import Clash, Clashes, Evidence, Key, clash
from cachemend.calibration.conditions.guards_quantities import duration
from cachemend.calibration.conditions.lexicon import Lexicon
from cachemend.calibration.conditions.normal import stem
from cachemend.calibration.conditions.reading import Reading
from cachemend.calibration.conditions.sentences import Sentence
from cachemend.calibration.conditions.typed_values import QUANTITY_TYPES

_MAX_REPLACED = 4
_MAX_SENTENCES = 64
_FILLER_WORDS = 3
_DIRECTIONS = frozenset({"to", "into", "from"})
_SAYINGS = frozenset({"asks", "says"})
_NO_FIELDS = QUANTITY_TYPES | {"remainder"}


def negation(evidence: Evidence) -> Clashes:
    """A word negated on one side and plain on the other: "refund the order", "do not refund the order"."""
    found = []
    for before, now in evidence.layers:
        if before is now:
            continue
        undone = (before.plain - before.negated) & (now.negated - now.plain)
        done = (before.negated - before.plain) & (now.plain - now.negated)
        if undone:
            undone -= _before_a_negation(before, now, evidence)
        if done:
            done -= _before_a_negation(now, before, evidence)
        if undone or done:
            found.append(Clash(_signed(undone, done), _signed(done, undone)))
    return found


def _before_a_negation(plain: Reading, negated: Reading, evidence: Evidence) -> frozenset[str]:
    """Return words right before a negation of something both sides negate: "contain no nuts", "don't contain nuts"."""
    negations = _negations(evidence.lexicon)
    return frozenset(
        stem(word)
        for sentence in plain.all_sentences
        if sentence.negated & negated.negated
        for word, following in pairwise(sentence.words)
        if following in negations
    )


@cache
def _negations(lexicon: Lexicon) -> frozenset[str]:
    return frozenset(phrase for phrase in lexicon.words["negations"] if " " not in phrase)


def _signed(plain: frozenset[str], negated: frozenset[str]) -> str:
    return ", ".join((*sorted(plain), *(f"not {word}" for word in sorted(negated))))


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
    found += _turned_round(before, now)
    return list(dict.fromkeys(found))


def _turned_round(before: Reading, now: Reading) -> Clashes:
    """Return what one side goes to and the other comes from, of two things that both name: "pay to A", "from A"."""
    if _DIRECTIONS.isdisjoint(before.words) or _DIRECTIONS.isdisjoint(now.words):
        return []
    (to, away), (new_to, new_away) = (_ends(side) for side in (before, now))
    shared = before.words & now.words
    found = [Clash(f"to {end}", f"from {end}") for end in sorted((to - away) & (new_away - new_to) & shared)]
    found += [Clash(f"from {end}", f"to {end}") for end in sorted((away - to) & (new_to - new_away) & shared)]
    if to - away and new_to - new_away and not to & new_to and (to | new_to) <= shared:
        found.append(Clash(*(f"to {', '.join(sorted(ends))}" for ends in (to, new_to))))
    return found


def _ends(reading: Reading) -> tuple[frozenset[str], frozenset[str]]:
    """Return the names after "to" or "into", and those after "from"."""
    named = {word for sentence in reading.all_sentences for name in sentence.names for word in name.split()}
    found: dict[str, set[str]] = {"to": set(), "into": set(), "from": set()}
    for sentence in reading.all_sentences:
        for marker, following in pairwise(sentence.words):
            if marker in found and following in named:
                found[marker].add(following)
    return frozenset(found["to"] | found["into"]), frozenset(found["from"])


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

    In a context it counts only where the cached answer or one of the requests speaks of what was replaced, or where
    both requests point to something said ("it") and it was replaced in what was said.
    """
    found = []
    for before, now in evidence.layers:
        if before is now or not before.all_sentences or not now.all_sentences:
            continue
        same = {sentence.text for sentence in before.all_sentences} & {sentence.text for sentence in now.all_sentences}
        old, new = (
            [sentence for sentence in side.all_sentences[:_MAX_SENTENCES] if sentence.text not in same]
            for side in (before, now)
        )
        in_query = before is evidence.cache.query
        pointed_at = set() if in_query or not _point(evidence) else {*before.sentences, *now.sentences}
        for first in old:
            for second in new:
                if not _alike_at_an_end(first.words, second.words):
                    continue
                pair = _replaced(first.words, second.words, evidence.lexicon)
                if pair is not None and (
                    in_query
                    or (first in pointed_at and second in pointed_at)
                    or not _spoken_of(evidence).isdisjoint(" ".join(pair).split())
                ):
                    found.append(pair)
    return list(dict.fromkeys(found))


def _alike_at_an_end(first: Sequence[str], second: Sequence[str]) -> bool:
    """Tell whether two sentences begin or end alike; a quick look before `_middle`."""
    return abs(len(first) - len(second)) <= _MAX_REPLACED and (first[:1] == second[:1] or first[-1:] == second[-1:])


def _point(evidence: Evidence) -> bool:
    pronouns = evidence.lexicon.words["pronouns"]
    return not any(query.words.isdisjoint(pronouns) for query in evidence.layers[0])


def _spoken_of(evidence: Evidence) -> frozenset[str]:
    response = evidence.cache.response
    said = response.words if response is not None else frozenset[str]()
    return said | evidence.cache.query.words | evidence.request.query.words


def _replaced(first: Sequence[str], second: Sequence[str], lexicon: Lexicon) -> Clash | None:
    stopwords = lexicon.words["stopwords"]
    ours, theirs = ([word for word in part if word not in stopwords] for part in _middle(first, second))
    if not ours or not theirs or _say_the_same(ours, theirs, lexicon):
        return None
    return Clash(" ".join(ours), " ".join(theirs))


def _say_the_same(ours: Sequence[str], theirs: Sequence[str], lexicon: Lexicon) -> bool:
    """Tell whether two passages differ in endings, spelling, the place of a negation or the unit of a duration only."""
    negations = _negations(lexicon)
    plain, other = ([word for word in side if word not in negations] for side in (ours, theirs))
    if (len(plain) < len(ours)) == (len(other) < len(theirs)) and _spelled_alike(plain) == _spelled_alike(other):
        return True
    time = duration(ours, lexicon)
    return time is not None and time == duration(theirs, lexicon)


def _spelled_alike(words: Sequence[str]) -> str:
    """Return words in a form that British and American spelling, hyphens and spaces do not change."""
    joined = "".join(map(stem, words)).replace("-", "").replace("'", "")
    return joined.replace("our", "or").replace("is", "iz")


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
    if ours and theirs and 2 * len(ours & theirs) <= min(len(ours), len(theirs)):
        return [clash(ours, theirs)]
    return []


def stated_fact(evidence: Evidence) -> Clashes:
    """A field of unknown meaning changed, and the cached answer states its old value or a request asks for it."""
    keys = [key for key in sorted(evidence.lost) if _is_unknown_field(key) and key in evidence.gained]
    if not keys:
        return []
    response = evidence.cache.response
    asked = (_asked(evidence.cache.query) & _asked(evidence.request.query)) - evidence.lexicon.words["stopwords"]
    found = []
    for key in keys:
        names = {piece for part in key[1:] for piece in part.replace(".", "_").split("_")}
        stated = response is not None and any(_states_value(response, value) for value in evidence.lost[key])
        if key not in evidence.kept and (names & asked or stated):
            found.append(clash(evidence.lost[key], evidence.gained[key]))
    return found


def _states_value(response: Reading, value: str) -> bool:
    return response.words.issuperset(value.split()) and any(
        f" {value} " in f" {' '.join(sentence.words)} " for sentence in response.all_sentences
    )


def _asked(query: Reading) -> frozenset[str]:
    """Return the words of what a request asks: of its questions, or of all sentences where it has none."""
    sentences = [sentence for sentence in query.all_sentences if not sentence.conditional]
    asking = [sentence for sentence in sentences if sentence.question] or sentences
    return frozenset(word for sentence in asking for word in sentence.words)


def _is_unknown_field(key: Key) -> bool:
    return key[0] == "fact" and key[2] not in _SAYINGS and key[1] not in _NO_FIELDS
