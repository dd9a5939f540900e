"""Metrics and paired tests of an in-place edit, paper "Contiguity, Not Importance", equations (2) and (3).

Holm's correction and the percentile bootstrap are those of `oracles.stats`.
"""

import itertools
import math
import re
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import NamedTuple

from oracles.stats import Band, percentile_bootstrap_mean
from oracles.stats import holm as holm


class Record(NamedTuple):
    """Counts of a paired comparison."""

    wins: int
    ties: int
    losses: int


def margin_recovery(repaired: float, stale: float, oracle: float) -> float | None:
    """Return (m_repaired - m_stale) / (m_oracle - m_stale), unclipped; None where there is no gap."""
    return None if oracle == stale else (repaired - stale) / (oracle - stale)


def holds(text: str, value: str) -> bool:
    """Tell whether a text contains the value with no letter, digit or underscore right before or after it."""
    if not value or value != value.strip():
        raise ValueError(f"value = {value!r}: empty, or with white space around it")
    at = text.find(value)
    while at >= 0:
        before, after = text[:at][-1:], text[at + len(value) :][:1]
        if not re.fullmatch(r"\w", before) and not re.fullmatch(r"\w", after):
            return True
        at = text.find(value, at + 1)
    return False


def flip(answer: str, new: str, old: str) -> bool:
    """Tell whether the answer shows the new value and not the old one, as whole words in the case given."""
    return holds(answer, new) and not holds(answer, old)


def kl(p: Sequence[float], q: Sequence[float]) -> float:
    """Return KL(p || q) in nats; terms with p = 0 count nothing, q = 0 under p > 0 makes it infinite."""
    total = []
    for x, y in zip(p, q, strict=True):
        if x > 0:
            total.append(float(x) * math.log(x / y) if y > 0 else math.inf)
    return math.fsum(total)


def kl_recovery(repaired: Sequence[float], stale: Sequence[float], oracle: Sequence[float]) -> float | None:
    """Return 1 - KL(p_rep || p_oracle) / KL(p_stale || p_oracle), unclipped; None at a zero denominator.

    Arguments: distributions over the vocabulary at the first answer position.
    """
    denominator = kl(stale, oracle)
    return None if denominator == 0 else 1 - kl(repaired, oracle) / denominator


def win_tie_loss(ours: Sequence[float], theirs: Sequence[float], band: float = 0.05) -> Record:
    """Count items by ours - theirs; a difference of at most the band is a tie."""
    differences = [x - y for x, y in zip(ours, theirs, strict=True)]
    wins = sum(d > band for d in differences)
    losses = sum(d < -band for d in differences)
    return Record(wins, len(differences) - wins - losses, losses)


def percentile_bootstrap(
    values: Sequence[float],
    replicates: int = 10_000,
    seed: int = 20260928,
    draws: Iterable[Sequence[int]] | None = None,
) -> Band:
    """Return the mean with its 95 % percentile interval. For a contrast, values are the items' differences."""
    return percentile_bootstrap_mean(values, replicates, seed, draws)


def pratt_ranks(differences: Sequence[float]) -> list[Fraction]:
    """Return the rank of every |d| among all, zeros included; equal ones share the mean of their ranks."""
    sizes = [abs(d) for d in differences]
    return [sum(y < x for y in sizes) + Fraction(sum(y == x for y in sizes) + 1, 2) for x in sizes]


def wilcoxon_pratt(differences: Sequence[float]) -> float:
    """Return the exact two-sided p of the signed-rank test over all 2^m signs of the m non-zero differences.

    Zeros take the lowest ranks and are then left out. p: the share of sign patterns whose |W+ - W-| is at least the
    observed one; 1 where every difference is zero. For m up to about 16.
    """
    kept = [(d, rank) for d, rank in zip(differences, pratt_ranks(differences), strict=True) if d != 0]
    observed = abs(sum((rank if d > 0 else -rank for d, rank in kept), Fraction(0)))
    extreme = 0
    for signs in itertools.product((1, -1), repeat=len(kept)):
        w = sum((sign * rank for sign, (_, rank) in zip(signs, kept, strict=True)), Fraction(0))
        extreme += abs(w) >= observed
    return extreme / 2 ** len(kept)
