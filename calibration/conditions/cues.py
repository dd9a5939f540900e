"""Finding lexicon phrases in a list of words: one look-up per word instead of one pattern per phrase."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple


class Cue(NamedTuple):
    """What a phrase stands for: its lexicon, its name there and, for a state, the state's value."""

    kind: str
    name: str
    value: str


class Hit(NamedTuple):
    """A phrase found: the first word's place, the number of words, and what the phrase stands for."""

    start: int
    length: int
    cue: Cue


CueTable = Mapping[str, tuple[tuple[tuple[str, ...], Cue], ...]]


def cue_table(phrases: Iterable[tuple[str, Cue]]) -> CueTable:
    """Index phrases by their first word, longer phrases first; the order of the input does not matter."""
    by_first: dict[str, set[tuple[tuple[str, ...], Cue]]] = {}
    for phrase, cue in phrases:
        first, *rest = phrase.split()
        by_first.setdefault(first, set()).add((tuple(rest), cue))
    return {first: tuple(sorted(found, key=lambda entry: (-len(entry[0]), entry))) for first, found in by_first.items()}


def find_cues(words: Sequence[str], table: CueTable) -> list[Hit]:
    """Find every phrase; of the phrases of one kind that start at a word, the longest alone counts."""
    hits = []
    for start, word in enumerate(words):
        found = table.get(word)
        if found is None:
            continue
        kinds: set[str] = set()
        for rest, cue in found:
            if cue.kind not in kinds and tuple(words[start + 1 : start + 1 + len(rest)]) == rest:
                kinds.add(cue.kind)
                hits.append(Hit(start, 1 + len(rest), cue))
    return hits
