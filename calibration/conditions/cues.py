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


# By first word: for each number of words, longest phrases first, what the words after the first stand for.
CueTable = Mapping[str, tuple[tuple[int, Mapping[tuple[str, ...], tuple[Cue, ...]]], ...]]


def cue_table(phrases: Iterable[tuple[str, Cue]]) -> CueTable:
    """Index phrases by their first word, longer phrases first; the order of the input does not matter."""
    by_first: dict[str, dict[int, dict[tuple[str, ...], set[Cue]]]] = {}
    for phrase, cue in phrases:
        first, *rest = phrase.split()
        by_length = by_first.setdefault(first, {})
        by_length.setdefault(1 + len(rest), {}).setdefault(tuple(rest), set()).add(cue)
    return {
        first: tuple(
            (length, {rest: tuple(sorted(cues)) for rest, cues in by_length[length].items()})
            for length in sorted(by_length, reverse=True)
        )
        for first, by_length in by_first.items()
    }


def find_cues(words: Sequence[str], table: CueTable) -> list[Hit]:
    """Find every phrase; of the phrases of one kind that start at a word, the longest alone counts."""
    hits = []
    for start, word in enumerate(words):
        found = table.get(word)
        if found is None:
            continue
        kinds: set[str] = set()
        for length, by_rest in found:
            for cue in by_rest.get(tuple(words[start + 1 : start + length]), ()):
                if cue.kind not in kinds:
                    kinds.add(cue.kind)
                    hits.append(Hit(start, length, cue))
    return hits
