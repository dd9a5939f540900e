"""Hits and verifier calls of every policy of a grid at once, under the hard budget."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cachemend.calibration.errors import CalibrationError
from cachemend.calibration.routing.budget import TokenBucket, Window, windows
from cachemend.calibration.routing.exact import Rate, exact_rate, whole_part
from cachemend.calibration.routing.grid import PolicyGrid
from cachemend.calibration.routing.regions import may_reuse, may_verify
from cachemend.calibration.routing.scores import RoutingScores

Bits = NDArray[np.uint64]
Flags = NDArray[np.bool_]
Counts = NDArray[np.int32]


class PolicyCounts(NamedTuple):
    """Counts by direct rule and verification rule, each of shape ``[a, b]``, also where the grid has no policy.

    Attributes:
        valid: cached responses returned whose reuse is valid.
        invalid: cached responses returned whose reuse is invalid.
        calls: verifier calls made.
        demand: verifier calls there would have been without a budget.
    """

    valid: Counts
    invalid: Counts
    calls: Counts
    demand: Counts


def count_policies(
    scores: RoutingScores,
    valid: Flags,
    verdicts: Flags,
    *,
    grid: PolicyGrid,
    budget: Rate,
    order: NDArray[np.intp],
    window: Window | None = None,
) -> PolicyCounts:
    """Replay every policy of the grid; the same counts as `replay` gives for each.

    Args:
        scores: of n candidates.
        valid, verdicts: bool ``[n]``.
        grid: the policies.
        budget: verifier calls per candidate, B.
        order: a permutation of ``0 .. n - 1``.
        window: as for `replay`.

    Raises:
        CalibrationError: a budget outside 0 to 1, an empty window, or a token bucket whose sums do not fit 64 bits.
    """
    rate = exact_rate("the verifier budget", budget)
    ordered, good, says_valid = scores.take(order), valid[order], verdicts[order]
    direct = may_reuse(ordered, *grid.direct.T[:, :, None])
    verify = may_verify(ordered, *grid.verify.T[:, :, None])
    shape = (len(direct), len(verify))
    counts = PolicyCounts(*(np.zeros(shape, dtype=np.int32) for _ in PolicyCounts._fields))
    counts.valid[:] += (direct & good).sum(axis=1, dtype=np.int32)[:, None]
    counts.invalid[:] += (direct & ~good).sum(axis=1, dtype=np.int32)[:, None]
    hit, miss = says_valid & good, says_valid & ~good
    if isinstance(window, TokenBucket):
        _add_bucket(counts, direct, verify, hit, miss, rate.numerator, rate.denominator, window.capacity)
        return counts
    for start, stop in windows(len(good), window):
        columns = np.s_[..., start:stop]
        cap = whole_part(rate, stop - start)
        _add_window(counts, _packed(~direct[columns]), _packed(verify[columns]), hit[columns], miss[columns], cap)
    return counts


def _add_window(counts: PolicyCounts, rest: Bits, verify: Bits, hit: Flags, miss: Flags, cap: int) -> None:
    """Add one window's verifier calls. Bit t of word w is the candidate at place ``64 w + t``.

    Args:
        rest: not reused directly, ``[w, a]``.
        verify: eligible for verification, ``[w, b]``.
        hit, miss: the verdict is VALID, rightly or wrongly, ``[t]``.
        cap: calls the window has.
    """
    used = np.zeros_like(counts.calls)
    for left, right, hits, misses in zip(rest, verify, _packed(hit), _packed(miss), strict=True):
        admitted = left[:, None] & right[None, :]
        wanted = np.bitwise_count(admitted).astype(np.int32)
        counts.demand[:] += wanted
        room = cap - used
        if (wanted > room).any():
            admitted[room == 0] = 0
            partly = (wanted > room) & (room > 0)
            admitted[partly] = _lowest_bits(admitted[partly], room[partly])
            np.minimum(wanted, room, out=wanted)
        used += wanted
        counts.valid[:] += np.bitwise_count(admitted & hits)
        counts.invalid[:] += np.bitwise_count(admitted & misses)
    counts.calls[:] += used


def _add_bucket(
    counts: PolicyCounts, direct: Flags, verify: Flags, hit: Flags, miss: Flags, earned: int, price: int, capacity: int
) -> None:
    """Add the verifier calls under a token bucket, candidate by candidate; tokens in units of 1 / price."""
    if (capacity + 1) * price > np.iinfo(np.int64).max:
        raise CalibrationError(f"a budget of {earned}/{price} is too fine for a token bucket; round it to 6 decimals")
    tokens = np.zeros(counts.calls.shape, dtype=np.int64)
    for place in range(len(hit)):
        np.minimum(tokens + earned, capacity * price, out=tokens)
        wanted = ~direct[:, place, None] & verify[None, :, place]
        granted = wanted & (tokens >= price)
        tokens -= price * granted
        counts.demand[:] += wanted
        counts.calls[:] += granted
        counts.valid[:] += granted & hit[place]
        counts.invalid[:] += granted & miss[place]


def _packed(flags: Flags) -> Bits:
    """Pack the last axis, of candidates, into words of 64 bits and put the words first: ``[k, t]`` to ``[w, k]``."""
    words = -(-flags.shape[-1] // 64)
    padded = np.zeros((*flags.shape[:-1], words * 64), dtype=bool)
    padded[..., : flags.shape[-1]] = flags
    packed = np.packbits(padded, axis=-1, bitorder="little").view("<u8").astype(np.uint64)
    return np.ascontiguousarray(np.moveaxis(packed, -1, 0))


def _lowest_bits(words: Bits, count: Counts) -> Bits:
    """Keep the `count` lowest of the set bits of each word, where it has at least as many and `count` is not 0."""
    # The place of the last bit to keep, by halves: skip a half while the bits below it do not suffice.
    place = np.zeros_like(words)
    missing = count.astype(np.uint64)
    for width in (32, 16, 8, 4, 2, 1):
        below = np.bitwise_count((words >> place) & np.uint64((1 << width) - 1))
        skip = below < missing
        missing -= below * skip
        place += np.uint64(width) * skip
    return words & ((np.uint64(2) << place) - np.uint64(1))
