"""Support allocation by brute force: SUR (section 7.3, equation 8, Algorithm 1) and the controls of 7.4.

Positions are 0-based suffix indices; `units` are lists of consecutive indices that partition the suffix.
Every allocator returns exactly B positions in increasing order; ties go to the earlier position.
"""

import math
import re
from collections.abc import Sequence
from fractions import Fraction


def sur(r: Sequence[float], units: Sequence[Sequence[int]], B: int) -> list[int]:
    """Admit whole units in ranked order; the first that does not fit gives its best envelope window."""
    check(len(r), B)
    chosen: list[int] = []
    for k in unit_order([unit_score(r, unit) for unit in units]):
        left = B - len(chosen)
        if left == 0:
            break
        if len(units[k]) <= left:
            chosen += units[k]
        else:
            chosen += best_window(r, units[k], left)
    return sorted(int(i) for i in chosen)


def unit_score(r: Sequence[float], unit: Sequence[int]) -> Fraction:
    """Return the exact mean of the unit's four largest scores (of all, if it has fewer)."""
    top = sorted((Fraction(float(r[i])) for i in unit), reverse=True)[:4]
    return sum(top) / Fraction(len(top))


def unit_order(scores: Sequence[float | Fraction]) -> list[int]:
    """Return unit indices by falling score, the earlier unit first on ties."""
    return sorted(range(len(scores)), key=lambda k: (-scores[k], k))


def envelope(r: Sequence[float], unit: Sequence[int]) -> list[float]:
    """u_t = max(exp(r_t - r_max), exp(-1/16) u_(t-1)) inside one unit, u = 0 before its first token."""
    peak = max(float(r[i]) for i in unit)
    u, values = 0.0, []
    for i in unit:
        u = max(math.exp(float(r[i]) - peak), math.exp(-1 / 16) * u)
        values.append(u)
    return values


def window_sums(values: Sequence[float], width: int) -> list[float]:
    """Return the correctly rounded sum of every window of this width, by its start."""
    return [math.fsum(values[a : a + width]) for a in range(len(values) - width + 1)]


def best_window(r: Sequence[float], unit: Sequence[int], width: int) -> list[int]:
    """Return the unit's width-`width` window of largest summed envelope, the earliest on ties."""
    sums = window_sums(envelope(r, unit), width)
    start = sums.index(max(sums))
    return list(unit[start : start + width])


def dense_tokens(r: Sequence[float], B: int) -> list[int]:
    """Return the B highest single tokens."""
    check(len(r), B)
    return sorted(sorted(range(len(r)), key=lambda i: (-float(r[i]), i))[:B])


def max_relevance_window(r: Sequence[float], B: int) -> list[int]:
    """Return the width-B suffix window of largest summed r."""
    check(len(r), B)
    sums = window_sums([float(x) for x in r], B)
    start = sums.index(max(sums))
    return list(range(start, start + B))


def terms(text: str) -> list[str]:
    """Return the ASCII-alphanumeric runs of a text, lower-cased."""
    return [run.lower() for run in re.findall(r"[A-Za-z0-9]+", text)]


def bm25_scores(unit_texts: Sequence[str], query_text: str) -> list[float]:
    """Score each unit's text: k1 = 1.2, b = 0.75, every occurrence of a query term counts."""
    k1, b = 1.2, 0.75
    documents = [terms(text) for text in unit_texts]
    n = len(documents)
    average = sum(len(d) for d in documents) / n if n else 0.0
    scores = []
    for document in documents:
        score = 0.0
        for term in terms(query_text):
            df = sum(1 for d in documents if term in d)
            tf = document.count(term)
            if average > 0 and tf > 0:
                idf = math.log(1 + (n - df + 0.5) / (df + 0.5))
                score += idf * tf * (k1 + 1) / (tf + k1 * (1 - b + b * len(document) / average))
        scores.append(score)
    return scores


def bm25_units(unit_texts: Sequence[str], query_text: str, units: Sequence[Sequence[int]], B: int) -> list[int]:
    """Broadcast each unit's BM25 score to its tokens and allocate as SUR does."""
    r = [0.0] * sum(len(unit) for unit in units)
    for unit, score in zip(units, bm25_scores(unit_texts, query_text), strict=True):
        for i in unit:
            r[i] = score
    return sur(r, units, B)


def random_units_valid(units: Sequence[Sequence[int]], B: int, positions: Sequence[int]) -> bool:
    """Tell whether positions are B distinct ones: whole units and at most one contiguous part of another."""
    picked = {int(i) for i in positions}
    known = {int(i) for unit in units for i in unit}
    if len(picked) != len(positions) or len(picked) != B or not picked <= known:
        return False
    partial = 0
    for unit in units:
        hit = sorted(picked & set(unit))
        if hit and len(hit) < len(unit):
            partial += 1
            if hit != list(range(hit[0], hit[-1] + 1)):
                return False
    return partial <= 1


def check(suffix_length: int, B: int) -> None:
    """Refuse a budget that is not between 0 and the suffix length."""
    if not 0 <= B <= suffix_length:
        raise ValueError(f"B = {B}: must lie between 0 and the suffix length {suffix_length}")
