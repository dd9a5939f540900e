"""The positions that the execution benchmark recomputes (paper section 13.3)."""

from collections.abc import Sequence

import numpy as np

from cachemend.repair_core import Deletion
from cachemend.repair_core.errors import InputError
from cachemend.repair_core.intervals import Positions, causal_pairs, maximal_intervals

DELETED = 8
PREFIX = 4
"""Tokens before the deletion, which lies before every selected position."""


def symmetric_intervals(length: int, count: int, n_intervals: int) -> Positions:
    """`count` positions in `n_intervals` equal runs, symmetric about the middle of the context.

    The sum of (u + 1) is the same for every number of intervals.
    """
    width = count // n_intervals
    centres = (2 * np.arange(n_intervals) + 1) * length // (2 * n_intervals)
    return np.concatenate([np.arange(c - width // 2, c - width // 2 + width) for c in centres])


def matched_supports(length: int, count: int, intervals: Sequence[int]) -> dict[int, Positions]:
    """Supports of `count` positions by number of intervals, all with M(U) = count * (length + 1) / 2 causal pairs.

    Raises:
        InputError: `count` positions of that many equal runs do not lie apart, behind the deletion and symmetric in a
            context of `length` tokens.
    """
    found = {}
    for n in intervals:
        support = symmetric_intervals(length, count, n)
        apart = len(support) == count and len(maximal_intervals(support)) == n
        symmetric = 2 * causal_pairs(support) == count * (length + 1)
        if not apart or not symmetric or support[0] < PREFIX or support[-1] >= length:
            raise InputError(
                f"{count} positions in {n} intervals do not fit a context of {length} tokens symmetrically; give a "
                f"number of intervals n that {count} is an even multiple of, and a length that is a multiple of 2n"
            )
        found[n] = support
    return found


def random_deletion(length: int, vocabulary: int, seed: int) -> Deletion:
    """A context of `length` + 8 random tokens below `vocabulary`, of which 8 near its beginning are deleted."""
    ids = np.random.default_rng(seed).integers(0, vocabulary, size=length + DELETED).tolist()
    return Deletion(
        prefix_ids=ids[:PREFIX],
        deleted_ids=ids[PREFIX : PREFIX + DELETED],
        suffix_ids=ids[PREFIX + DELETED :],
    )
