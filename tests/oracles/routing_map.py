"""The risk map and the calibrated signals, paper "Beyond Query Similarity", section 3.4 and appendices C and H."""

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

from oracles.routing_bounds import wilson_width
from oracles.routing_matching import Match


class Block(NamedTuple):
    """Examples of one range of mismatch: its lowest and highest, their number and how many are invalid."""

    low: float
    high: float
    n: int
    bad: int

    @property
    def rate(self) -> Fraction:
        """Share of invalid examples."""
        return Fraction(self.bad, self.n)


class Signals(NamedTuple):
    """What the router sees beside similarity and conflict."""

    k: float
    u_cal: float
    d: float
    u: float


def nominal_cuts(n: int, blocks: int = 6) -> list[int]:
    """Return after how many examples in order of mismatch each block nominally ends."""
    return [k * n // blocks for k in range(1, blocks + 1)]


def initial_blocks(d: Sequence[float], invalid: Sequence[bool], cuts: Sequence[int] | None = None) -> list[Block]:
    """Cut the sorted examples; a block extends through its last score's ties, one left with nothing vanishes."""
    examples = sorted(zip(d, invalid, strict=True), key=lambda example: example[0])
    if not examples:
        raise ValueError("no example to learn from")
    blocks, start = [], 0
    for nominal in nominal_cuts(len(examples)) if cuts is None else cuts:
        stop = nominal
        while 0 < stop < len(examples) and examples[stop][0] == examples[stop - 1][0]:
            stop += 1
        if stop > start:
            part = examples[start:stop]
            blocks.append(Block(part[0][0], part[-1][0], len(part), sum(bool(bad) for _, bad in part)))
            start = stop
    return blocks


def pooled(blocks: Sequence[Block]) -> list[Block]:
    """Merge the first adjacent pair whose rates fall, until none does; equal rates stay apart."""
    found = list(blocks)
    while True:
        falls = [i for i in range(len(found) - 1) if found[i].rate > found[i + 1].rate]
        if not falls:
            return found
        a, b = found[falls[0] : falls[0] + 2]
        found[falls[0] : falls[0] + 2] = [Block(a.low, b.high, a.n + b.n, a.bad + b.bad)]


def risk_map(d: Sequence[float], invalid: Sequence[bool], cuts: Sequence[int] | None = None) -> list[Block]:
    """Return the map: at most six blocks with rates that never fall."""
    return pooled(initial_blocks(d, invalid, cuts))


def block_of(blocks: Sequence[Block], d: float) -> Block:
    """Return the block that holds d, the upper one in a gap, the nearest one beyond an end."""
    for block in blocks:
        if d <= block.high:
            return block
    return blocks[-1]


def signals(blocks: Sequence[Block], raw: Match) -> Signals:
    """Return K(D_match), U_cal and equation (11); an empty side has risk and uncertainty 1 whatever the map."""
    block = block_of(blocks, raw.d)
    k, width = float(block.rate), wilson_width(block.bad, block.n, 0.90)
    if raw.empty:
        return Signals(k, width, 1.0, 1.0)
    return Signals(k, width, (1 - width) * k + width * raw.d, max(raw.u, width))


def brier(predicted: Sequence[float], invalid: Sequence[bool]) -> float:
    """Return the mean squared distance of the prediction from the label."""
    return math.fsum((p - bool(y)) ** 2 for p, y in zip(predicted, invalid, strict=True)) / len(predicted)


def ece(predicted: Sequence[float], invalid: Sequence[bool], bins: int | None = None) -> float:
    """Return the mean over examples of |mean prediction - rate| of their group.

    bins: that many equal-width groups of [0, 1], [a, b) but for the last; None: one group per predicted value, of
    which a piecewise-constant map has a few.
    """
    groups: dict[float, list[tuple[float, bool]]] = {}
    for p, y in zip(predicted, invalid, strict=True):
        groups.setdefault(p if bins is None else min(int(p * bins), bins - 1), []).append((p, bool(y)))
    gaps = [abs(math.fsum(p for p, _ in g) - sum(y for _, y in g)) for g in groups.values()]
    return math.fsum(gaps) / len(predicted)
