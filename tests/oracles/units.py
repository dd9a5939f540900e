"""Semantic units of section 7.3: midpoints, balanced splits over 128, merges under 8 within a container.

What the section leaves open is fixed so: a midpoint on a boundary belongs to the piece on its right; a
zero-width token belongs to the unit of the token before it (leading ones: to the first unit); the longer
chunks of a balanced split come first; merges take the leftmost short unit, over and over, until none can
merge.
"""

from collections.abc import Sequence

Span = tuple[int, int]


def units(
    token_spans: Sequence[Span], containers: Sequence[Sequence[Span]], max_len: int = 128, min_len: int = 8
) -> list[list[int]]:
    """Return the suffix token indices (0-based) of every unit, in text order.

    token_spans: (char_start, char_end) per suffix token. containers: in order, each a list of (start, end)
    character pieces; together they partition the suffix's text. Pieces and containers without tokens vanish.
    """
    if max_len + 1 < 2 * min_len:
        raise ValueError("max_len + 1 < 2 * min_len: a split could leave short units for ever")
    home = homes(token_spans, containers)
    result: list[list[int]] = []
    for c in range(len(containers)):
        pieces = []
        for p in range(len(containers[c])):
            tokens = [t for t in range(len(token_spans)) if home[t] == (c, p)]
            if tokens:
                pieces += balanced(tokens, max_len)
        result += merged(pieces, max_len, min_len)
    if [t for unit in result for t in unit] != list(range(len(token_spans))):
        raise ValueError("units do not partition the suffix: token midpoints are not in text order")
    return result


def homes(token_spans: Sequence[Span], containers: Sequence[Sequence[Span]]) -> list[Span]:
    """Return (container, piece) per token."""
    found: list[Span | None] = []
    for start, end in token_spans:
        home = None
        if start == end:
            home = found[-1] if found else None
        else:
            for c, pieces in enumerate(containers):
                for p, (left, right) in enumerate(pieces):
                    if 2 * left <= start + end < 2 * right:  # doubled, so that the midpoint stays an integer
                        home = (c, p)
            if home is None:
                raise ValueError(f"token ({start}, {end}): its midpoint lies outside the suffix's text")
        found.append(home)
    first = next((home for home in found if home is not None), (0, 0))
    return [first if home is None else home for home in found]


def balanced(tokens: list[int], max_len: int) -> list[list[int]]:
    """Split into ceil(n / max_len) chunks whose sizes differ by at most one, longer chunks first."""
    n = len(tokens)
    count = (n + max_len - 1) // max_len
    sizes = [n // count + (1 if k < n % count else 0) for k in range(count)]
    chunks = []
    for size in sizes:
        chunks.append(tokens[:size])
        tokens = tokens[size:]
    return chunks


def merged(pieces: list[list[int]], max_len: int, min_len: int) -> list[list[int]]:
    """Merge the leftmost unit under min_len with its shorter neighbour (tie: preceding) until none is left."""
    pieces = list(pieces)
    while len(pieces) > 1:
        short = [k for k, unit in enumerate(pieces) if len(unit) < min_len]
        if not short:
            break
        k = short[0]
        before = len(pieces[k - 1]) if k > 0 else None
        after = len(pieces[k + 1]) if k + 1 < len(pieces) else None
        if after is None or (before is not None and before <= after):
            left = k - 1
        else:
            left = k
        pieces[left : left + 2] = balanced(pieces[left] + pieces[left + 1], max_len)
    return pieces
