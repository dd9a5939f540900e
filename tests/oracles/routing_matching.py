"""Hashing and matching of condition records, paper "Beyond Query Similarity", section 3.3 and appendix B.

The lexical hashing is scikit-learn's: index and sign from a signed 32-bit MurmurHash3, L2-normalised counts.
"""

import itertools
import math
import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

Record = tuple[str, str, str, str]  # category, subject, relation, value
FEATURES = 2**18
TOKEN = re.compile(r"[\w#:./-]+")


class Match(NamedTuple):
    """Raw signals of one candidate; empty: one side has no record, so that nothing but regeneration is open."""

    d: float
    u: float
    empty: bool


def serialise(record: Record) -> str:
    """Return the four fields in lower case with single spaces."""
    return " ".join(" ".join(record).lower().split())


def murmur3(data: bytes, seed: int = 0) -> int:
    """Return MurmurHash3 x86 32-bit as a signed integer."""

    def times(x: int, y: int) -> int:
        return (x * y) % 2**32

    def rotated(x: int, by: int) -> int:
        return ((x << by) | (x >> (32 - by))) % 2**32

    def mixed(k: int) -> int:
        return times(rotated(times(k, 0xCC9E2D51), 15), 0x1B873593)

    h = seed
    whole = len(data) - len(data) % 4
    for at in range(0, whole, 4):
        h = rotated(h ^ mixed(int.from_bytes(data[at : at + 4], "little")), 13)
        h = (times(h, 5) + 0xE6546B64) % 2**32
    if whole < len(data):
        h ^= mixed(int.from_bytes(data[whole:], "little"))
    h ^= len(data)
    h = times(h ^ (h >> 16), 0x85EBCA6B)
    h = times(h ^ (h >> 13), 0xC2B2AE35)
    h ^= h >> 16
    return h - 2**32 if h >= 2**31 else h


def grams(text: str) -> list[str]:
    """Return the words of a serialised record and then its pairs of neighbouring words, repeats kept."""
    words = TOKEN.findall(text.lower())
    return words + [f"{a} {b}" for a, b in itertools.pairwise(words)]


def counts(text: str) -> dict[int, int]:
    """Return the signed counts at the hashed places, zeros left out."""
    found: Counter[int] = Counter()
    for gram in grams(text):
        h = murmur3(gram.encode())
        found[abs(h) % FEATURES] += 1 if h >= 0 else -1
    return {index: count for index, count in found.items() if count != 0}


def unit(text: str) -> dict[int, float]:
    """Return the counts over their L2 norm; empty where there is no word."""
    found = counts(text)
    norm = math.sqrt(sum(v * v for v in found.values()))
    return {index: v / norm for index, v in found.items()}


def similarity(a: str, b: str) -> float:
    """Return the cosine of two serialised records, clipped to [0, 1]; 0 where one has no direction."""
    x, y = counts(a), counts(b)
    dot = sum(v * y.get(index, 0) for index, v in x.items())
    squares = sum(v * v for v in x.values()) * sum(v * v for v in y.values())
    return 0.0 if squares == 0 else min(1.0, max(0.0, dot / math.sqrt(squares)))


def match(cached: Sequence[Record], requested: Sequence[Record]) -> Match:
    """Return equations (1) and (3) over the distinct records of the two sides."""
    for side in (cached, requested):
        if len(set(side)) != len(side):
            raise ValueError("records repeat: each side is a set")
    if not cached or not requested:
        return Match(1.0, 1.0, True)
    mismatches, margins = [], []
    for e in cached:
        ranked = sorted((similarity(serialise(e), serialise(c)) for c in requested), reverse=True)
        second = ranked[1] if len(ranked) > 1 else 0.0
        mismatches.append(1 - ranked[0])
        margins.append(ranked[0] - second)
    return Match(math.fsum(mismatches) / len(cached), 1 - math.fsum(margins) / len(cached), False)
