"""Bounds, tests and certified selection around the router: paper "Beyond Query Similarity", appendices C and G.

Wilson intervals, exact binomial bounds, the corrected repeated-holdout t test (Nadeau and Bengio), cluster e-values,
conformal risk control and fixed-sequence Learn-then-Test. Holm's correction is that of `oracles.stats`.
"""

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from statistics import NormalDist

from oracles.stats import holm as holm

Number = int | float | str | Fraction
BITS = 50


def exact(x: Number) -> Fraction:
    """Return the decimal that was written: 0.29 is 29/100."""
    return Fraction(str(x))


def wilson(k: int, n: int, z: float) -> tuple[float, float]:
    """Return the two ends of the score interval of k out of n; (0, 1) without a trial."""
    if n == 0:
        return 0.0, 1.0
    p = k / n
    middle = p + z * z / (2 * n)
    half = z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    scale = 1 + z * z / n
    return max(0.0, (middle - half) / scale), min(1.0, (middle + half) / scale)


def wilson_upper(k: int, n: int, level: float = 0.95) -> float:
    """Return the one-sided upper bound."""
    return wilson(k, n, NormalDist().inv_cdf(level))[1]


def wilson_width(k: int, n: int, level: float = 0.90) -> float:
    """Return the width of the two-sided interval."""
    low, high = wilson(k, n, NormalDist().inv_cdf((1 + level) / 2))
    return high - low


def binomial_parts(k: int, n: int, p: Fraction) -> tuple[int, int]:
    """Return numerator and denominator of P(X <= k) for X ~ Bin(n, p)."""
    a, b, c = p.numerator, p.denominator - p.numerator, p.denominator
    k = min(k, n)
    return sum(math.comb(n, j) * a**j * b ** (k - j) for j in range(k + 1)) * b ** (n - k), c**n


def binomial_cdf(k: int, n: int, p: Fraction) -> Fraction:
    """Return P(X <= k) for X ~ Bin(n, p), exactly."""
    return Fraction(*binomial_parts(k, n, p))


def exact_upper(k: int, n: int, level: Number = 0.95) -> float:
    """Return the one-sided Clopper-Pearson upper bound: the p at which P(X <= k) is 1 - level; 1 at k = n."""
    if k >= n:
        return 1.0
    left = 1 - exact(level)
    low, high = 0, 2**BITS
    while high - low > 1:
        middle = (low + high) // 2
        above, below = binomial_parts(k, n, Fraction(middle, 2**BITS))
        if above * left.denominator > below * left.numerator:
            low = middle
        else:
            high = middle
    return high / 2**BITS


def binomial_p(unsafe: int, hits: int, alpha: Number) -> Fraction:
    """Return the exact p of "the unsafe rate is at least alpha": P(Bin(hits, alpha) <= unsafe); 1 without a hit."""
    return binomial_cdf(unsafe, hits, exact(alpha))


def two_arm_p(arms: Iterable[tuple[int, int]], alpha: Number) -> Fraction:
    """Return the largest p of the (unsafe, hits) of the arms that the policy has: all of them must be safe."""
    return max((binomial_p(unsafe, hits, alpha) for unsafe, hits in arms), default=Fraction(0))


def fixed_sequence(ps: Sequence[Number], delta: Number, starts: Iterable[int] = (0,)) -> list[int]:
    """Return the places rejected: from every start onwards until the first p above its share of delta."""
    begin = sorted(set(starts))
    rejected = set()
    for at in begin:
        while at < len(ps) and exact(ps[at]) <= exact(delta) / len(begin):
            rejected.add(at)
            at += 1
    return sorted(rejected)


def e_value(clusters: Iterable[tuple[int, int]], alpha: Number, bet: Number, m_max: int) -> Fraction:
    """Return prod(1 + bet * Z), Z = (alpha * accepted - unsafe) / m_max over clusters of (accepted, unsafe)."""
    a, b = exact(alpha), exact(bet)
    if not 0 <= b * (1 - a) < 1:
        raise ValueError("bet: in [0, 1 / (1 - alpha))")
    product = Fraction(1)
    for accepted, unsafe in clusters:
        if not 0 <= unsafe <= accepted <= m_max:
            raise ValueError("a cluster returns at most m_max responses")
        product *= 1 + b * (a * accepted - unsafe) / m_max
    return product


def e_rejects(e: Fraction, delta: Number, starts: int = 1) -> bool:
    """Tell whether the e-value certifies at the share of delta of one of the starts."""
    return e >= starts / exact(delta)


def risk_control(losses: Sequence[Sequence[Number]], alpha: Number) -> int | None:
    """Return the most permissive member with (sum of losses + 1) / (n + 1) <= alpha, or None.

    losses: one list over the same n requests per member, in [0, 1], from the strictest member to the most permissive.
    """
    chosen = None
    for j, row in enumerate(losses):
        if j and any(exact(x) < exact(y) for x, y in zip(row, losses[j - 1], strict=True)):
            raise ValueError("a loss falls: the family is not nested")
        if (sum((exact(x) for x in row), Fraction(0)) + 1) / (len(row) + 1) <= exact(alpha):
            chosen = j
    return chosen


def t_upper_tail(t: float, df: int) -> float:
    """Return P(T > t) by the finite series for integer degrees of freedom."""
    theta = math.atan(abs(t) / math.sqrt(df))
    sine, cosine = math.sin(theta), math.cos(theta)
    term, terms = (cosine, []) if df % 2 else (1.0, [])
    for j in range(df % 2, df - 1, 2):
        terms.append(term)
        term *= cosine * cosine * (j + 1) / (j + 2)
    inside = sine * math.fsum(terms)
    within = 2 / math.pi * (theta + inside) if df % 2 else inside
    return (1 - within) / 2 if t >= 0 else (1 + within) / 2


def corrected_t(differences: Sequence[float], test_to_train: Number, margin: float = 0.0) -> tuple[float, float]:
    """Return t and the one-sided p of "the mean difference is at most -margin" over repeated holdouts."""
    n = len(differences)
    mean = math.fsum(differences) / n + margin
    spread = math.fsum((x + margin - mean) ** 2 for x in differences) / (n - 1)
    scale = math.sqrt((1 / n + float(exact(test_to_train))) * spread)
    if scale == 0:
        return (math.inf, 0.0) if mean > 0 else (-math.inf if mean < 0 else 0.0, 1.0)
    return mean / scale, t_upper_tail(mean / scale, n - 1)
