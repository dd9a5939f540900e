"""Embedding relevance of equations (1) and (7), sections 3.2 and 7.3, in FP64.

r_i = max_j cos(E(s_i), E(q_j)) + 0.25 [s_i in q]. Beside the equation: the cosine of equal ids is exactly
1, a zero embedding has cosine 0 with every other id, and r is rounded to multiples of 2^-20 (half to
even) so that ties do not hang on rounding.
"""

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np

STEPS = 2**20


class Relevance(NamedTuple):
    """r: quantised to 2^-20; raw: before quantisation. Both FP64 [S]."""

    r: np.ndarray
    raw: np.ndarray


def relevance(E: np.ndarray, suffix_ids: Sequence[int], query_ids: Sequence[int]) -> Relevance:
    """Score every suffix token. E: embedding table [vocabulary, width]; ids index its rows."""
    if len(query_ids) == 0:
        raise ValueError("query_ids is empty: the maximum over query tokens has no value")
    raw = []
    for s in suffix_ids:
        best = max(cosine(E, int(s), int(q)) for q in query_ids)
        bonus = 0.25 if int(s) in [int(q) for q in query_ids] else 0.0
        raw.append(best + bonus)
    return Relevance(np.array([quantise(x) for x in raw]), np.array(raw))


def cosine(E: np.ndarray, a: int, b: int) -> float:
    """Return the cosine of two embedding rows, exactly 1 for the same row."""
    if a == b:
        return 1.0
    x, y = [float(v) for v in E[a]], [float(v) for v in E[b]]
    norms = math.sqrt(math.fsum(v * v for v in x)) * math.sqrt(math.fsum(v * v for v in y))
    if norms == 0:
        return 0.0
    return math.fsum(v * w for v, w in zip(x, y, strict=True)) / norms


def quantise(x: float) -> float:
    """Round to the nearest multiple of 2^-20, half to even."""
    return round(Fraction(x) * STEPS) / STEPS
