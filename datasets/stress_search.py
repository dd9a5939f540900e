"""Search for a suffix that brings a query's sentence vector close to another query's: the collision of a cache attack.

The search sees the encoder only as a function from texts to vectors, as an attacker without its weights does. It starts
from repetitions of the cached query, with and without the separators of BERT-like tokenizers (a text's own "[SEP]" and
"[CLS]" reach the encoder as such), and then changes a few of the repeated words at a time, keeping what brings the
vectors closer.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cachemend.datasets.seeded import below

Encode = Callable[[Sequence[str]], NDArray[np.floating]]
Words = tuple[str, ...]

TEXTS = 48
GOAL = 0.92
# Encoders of this family read 256 tokens; words beyond that would be cut off.
MAX_WORDS = 200
_WIDTH = 8
_SEPARATORS: tuple[Words, ...] = (
    ("[SEP]", "[SEP]", "[CLS]"),
    ("[SEP]", "[SEP]", "[SEP]", "[CLS]"),
    ("[SEP]", "[CLS]"),
    (),
)


class _Suffix(NamedTuple):
    """Words and how often they come: a change of what is repeated counts that many times."""

    unit: Words
    repeats: int


class Found(NamedTuple):
    """The best suffix of a search.

    Attributes:
        suffix: words joined by single blanks; it goes after the target query and a blank.
        similarity: cosine of the source query and the target query with the suffix.
        encoded: texts given to the encoder.
    """

    suffix: str
    similarity: float
    encoded: int


def search_suffix(
    source: str, target: str, encode: Encode, *, texts: int = TEXTS, goal: float = GOAL, seed: int
) -> Found:
    """Search a suffix for `target` that raises its similarity to `source`.

    Args:
        source: the cached query.
        target: the query that is sent; it stands unchanged before the suffix.
        encode: texts -> vectors of unit length ``[n, d]``.
        texts: the most texts to encode; at least 2, the source and one suffix.
        goal: the search ends at this similarity.
        seed: of the changes tried.

    Raises:
        ValueError: `texts` below 2, or a source without a word.
    """
    words = tuple(source.split())
    if texts < 2 or not words:
        raise ValueError(f"a search needs at least 2 texts and a source query with words; got {texts} and {len(words)}")
    wanted = np.asarray(encode([source]), dtype=np.float64)[0]
    encoded, similarity = 1, -np.inf
    proposals = _starts(words)
    best = proposals[0]
    step = 0
    while proposals and encoded < texts and similarity < goal:
        proposals = proposals[: texts - encoded]
        sent = [with_suffix(target, _text(proposal)) for proposal in proposals]
        scores = np.asarray(encode(sent), dtype=np.float64) @ wanted
        encoded += len(proposals)
        top = int(np.argmax(scores))
        if scores[top] > similarity:
            best, similarity = proposals[top], float(scores[top])
        step += 1
        proposals = _unique(_changed(best, words, seed, source, target, step, i) for i in range(_WIDTH))
    return Found(_text(best), min(similarity, 1.0), encoded)


def with_suffix(target: str, suffix: str) -> str:
    """The query that is sent."""
    return f"{target} {suffix}"


def _text(suffix: _Suffix) -> str:
    return " ".join(suffix.unit * suffix.repeats)


def _fitted(unit: Words, repeats: int) -> _Suffix:
    """At least one repetition, and no more than `MAX_WORDS` words."""
    unit = unit[:MAX_WORDS]
    return _Suffix(unit, max(1, min(repeats, MAX_WORDS // len(unit))))


def _starts(words: Words) -> list[_Suffix]:
    """The source as often as `MAX_WORDS` holds it and half as often, with separators first."""
    most = [_fitted(separator + words, MAX_WORDS) for separator in _SEPARATORS]
    return _unique([*most, *(_fitted(suffix.unit, suffix.repeats // 2) for suffix in most)])


def _unique(proposals: Iterable[_Suffix]) -> list[_Suffix]:
    return list(dict.fromkeys(proposals))


def _changed(suffix: _Suffix, words: Words, *labels: str | int) -> _Suffix:
    """`suffix` with one to three changes to what it repeats: words put in, taken out, replaced or swapped."""
    unit = list(suffix.unit)
    repeats = suffix.repeats
    for number in range(1 + below(3, *labels, "changes")):
        kind, place, other, length = (below(2**32, *labels, number, name) for name in ("kind", "place", "other", "run"))
        place %= len(unit)
        start = other % len(words)
        match kind % 6:
            case 0:
                unit[place:place] = words[start : start + 1 + length % 4]
            case 1:
                unit[place] = words[start]
            case 2 if len(unit) > 1:
                del unit[place : place + min(1 + length % 3, len(unit) - 1)]
            case 3:
                unit[place:place] = _SEPARATORS[0][other % 3 :]
            case 4:
                repeats += 1 if other % 2 else -1
            case _:
                other %= len(unit)
                unit[place], unit[other] = unit[other], unit[place]
    return _fitted(tuple(unit), repeats)
