"""Operation counts of recomputation, section 13.1, equations (15) to (18); causal pairs are per head."""

from collections.abc import Iterable
from fractions import Fraction


def token_layers(L: int, B: int) -> int:
    """Return the token-layer updates of B positions through L layers."""
    return sum(1 for _ in range(L) for _ in range(B))


def causal_pairs(prefix: int, suffix_positions: Iterable[int]) -> int:
    """Return the sum of P + i over 1-based suffix positions i: the keys each selected query reads."""
    return sum(prefix + int(i) for i in suffix_positions)


def causal_pairs_absolute(positions: Iterable[int]) -> int:
    """Return M(U), the sum of u + 1 over 0-based positions u of the edited context (section 13.2)."""
    return sum(int(u) + 1 for u in positions)


def replay_pairs(prefix: int, suffix_length: int) -> int:
    """Return the causal pairs of a full suffix Replay."""
    return causal_pairs(prefix, range(1, suffix_length + 1))


def largest_pairs(prefix: int, suffix_length: int, B: int) -> int:
    """Return the most causal pairs any support of B positions has: the final B."""
    return causal_pairs(prefix, range(suffix_length - B + 1, suffix_length + 1))


def pair_bound(suffix_length: int, B: int) -> Fraction:
    """Return min(1, 2 B / S), the bound on the share of Replay's causal pairs."""
    if suffix_length <= 0:
        raise ValueError("suffix_length must be positive: without a suffix there is no share")
    return min(Fraction(1), Fraction(2 * B, suffix_length))
