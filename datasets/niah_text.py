"""The document of a case: filler in paragraphs with two fact sentences, and where those stand."""

from collections.abc import Sequence
from typing import NamedTuple

from cachemend.datasets.seeded import below

PARAGRAPH = "\n\n"
_SHORTEST, _LONGEST = 4, 7


class Document(NamedTuple):
    """A text and the two spans that hold a fact: its sentence and the blank before it, ``[start, stop)``."""

    text: str
    spans: tuple[tuple[int, int], tuple[int, int]]


def gaps_of(depths: tuple[float, float], count: int) -> tuple[int, int]:
    """Return two gaps between `count` sentences at relative depths.

    At least one sentence stands before the first gap, between the two and after the second.
    """
    first = min(max(round(depths[0] * count), 1), count - 2)
    return first, min(max(round(depths[1] * count), first + 1), count - 1)


def _paragraph_starts(seed: int, count: int) -> set[int]:
    starts, at, index = set(), 0, 0
    while at < count:
        starts.add(at)
        at += _SHORTEST + below(_LONGEST - _SHORTEST + 1, seed, "paragraph", index)
        index += 1
    return starts


def compose(sentences: Sequence[str], facts: tuple[str, str], depths: tuple[float, float], seed: int) -> Document:
    """Join the filler in paragraphs of four to seven sentences and put each fact at its depth.

    A fact never begins or ends a paragraph: a paragraph break at its gap is left out. So cutting the fact
    with the blank before it leaves text in which nothing shows that a sentence is missing.
    """
    gaps = gaps_of(depths, len(sentences))
    starts = _paragraph_starts(seed, len(sentences)) - set(gaps)
    pieces: list[str] = []
    spans: list[tuple[int, int]] = []
    at = 0
    for index, sentence in enumerate(sentences):
        for gap, fact in zip(gaps, facts, strict=True):
            if gap == index:
                pieces.append(f" {fact}")
                spans.append((at, at + len(fact) + 1))
                at = spans[-1][1]
        lead = "" if index == 0 else PARAGRAPH if index in starts else " "
        pieces.append(lead + sentence)
        at += len(pieces[-1])
    return Document("".join(pieces), (spans[0], spans[1]))
