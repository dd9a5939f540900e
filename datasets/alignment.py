"""Finding where a character position falls among tokens."""

from bisect import bisect_right
from collections.abc import Sequence


def boundary(offsets: Sequence[tuple[int, int]], character: int) -> int | None:
    """Return the index of the first token at or after `character`, or None when a token straddles it.

    Offsets are in text order. A zero-width token at the boundary stays with the text before it.
    """
    before = bisect_right(offsets, character, key=lambda span: span[1])
    if before < len(offsets) and offsets[before][0] < character:
        return None
    return before
