"""Maximal execution intervals of section 7.1: consecutive selected positions form one half-open [a, b)."""

from collections.abc import Iterable


def intervals(positions: Iterable[int]) -> list[tuple[int, int]]:
    """Return the maximal (start, stop) intervals of a set of distinct positions, in increasing order."""
    listed = [int(u) for u in positions]
    chosen = set(listed)
    if len(chosen) != len(listed):
        raise ValueError("positions repeat: a support is a set")
    found = []
    for start in sorted(chosen):
        if start - 1 not in chosen:
            stop = start
            while stop in chosen:
                stop += 1
            found.append((start, stop))
    return found
