"""Seeded draws that are the same in every process, Python version and platform.

`random` and `numpy.random` do not promise equal streams across versions, so every draw is read off a SHA-256
of the seed and a label, and a shuffle is a sort by such hashes.
"""

import hashlib
from collections.abc import Iterable


def draw(*labels: str | int) -> int:
    """Return a uniform integer in ``[0, 2**64)`` determined by the labels."""
    text = "\x1f".join(str(label) for label in labels)
    return int.from_bytes(hashlib.sha256(text.encode("utf-8")).digest()[:8], "big")


def below(limit: int, *labels: str | int) -> int:
    """Return an integer in ``[0, limit)``; the modulo bias is below ``limit / 2**64``."""
    return draw(*labels) % limit


def uniform(low: float, high: float, *labels: str | int) -> float:
    """Return a number in ``[low, high)`` with 53 random bits."""
    return low + (high - low) * ((draw(*labels) >> 11) / 2**53)


def shuffled(items: Iterable[str], *labels: str | int) -> list[str]:
    """Return `items` in an order determined by the labels and by the items themselves."""
    return sorted(items, key=lambda item: (draw(*labels, item), item))
