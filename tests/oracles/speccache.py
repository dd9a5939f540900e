"""SpecCache-Adapted from auxiliary-token norms and character spans, section 7.4, Table 1.

The section gives the norm, the threshold 0.4, the 16-token limit and the 0.7 coverage; what it leaves open is
fixed so: scores are min-max normalised over the suffix (all 0 where they are equal); spans grow from left to
right; the coverage counts tokens among the best min(B, n); spans that fall short keep their marked tokens.
"""

from collections.abc import Sequence

from oracles import allocators

Span = tuple[int, int]


def normalised(norms: Sequence[float]) -> list[float]:
    """Map the scores to [0, 1] by their minimum and maximum."""
    low, high = min(norms), max(norms)
    return [0.0 if high == low else (float(x) - low) / (high - low) for x in norms]


def smooth_spans(scores: Sequence[float], threshold: float = 0.4, limit: int = 16) -> list[list[int]]:
    """Grow spans while neighbouring scores differ by at most the threshold, up to `limit` tokens."""
    spans: list[list[int]] = []
    for t in range(len(scores)):
        if spans and len(spans[-1]) < limit and abs(scores[t] - scores[t - 1]) <= threshold:
            spans[-1].append(t)
        else:
            spans.append([t])
    return spans


def marked_tokens(scores: Sequence[float], B: int) -> set[int]:
    """Return the best min(B, n) auxiliary tokens and all of every span that holds at least 70 % of its own."""
    best = set(allocators.dense_tokens(scores, min(B, len(scores))))
    marked = set(best)
    for span in smooth_spans(scores):
        if 10 * len(best & set(span)) >= 7 * len(span):
            marked |= set(span)
    return marked


def auxiliary_of(aux_spans: Sequence[Span], target_spans: Sequence[Span]) -> list[int]:
    """Return the auxiliary token each target token takes: the one holding the midpoint of its characters.

    A midpoint on a boundary goes right. Several holders (tokens that share characters): the last. No holder:
    the last that starts at or before the midpoint, else the first. Zero-width target tokens follow their
    predecessor, leading ones take the first. Zero-width auxiliary tokens hold nothing.
    """
    found: list[int] = []
    for start, stop in target_spans:
        if start == stop:
            found.append(found[-1] if found else 0)
            continue
        twice = start + stop  # doubled, so that the midpoint stays an integer
        holders = [k for k, (left, right) in enumerate(aux_spans) if 2 * left <= twice < 2 * right]
        before = [k for k, (left, _) in enumerate(aux_spans) if 2 * left <= twice]
        found.append((holders or before or [0])[-1])
    return found


def speccache_select(
    norms: Sequence[float], aux_spans: Sequence[Span], target_spans: Sequence[Span], B: int
) -> list[int]:
    """Return exactly B target tokens.

    norms: one per auxiliary suffix token. aux_spans, target_spans: (start, stop) character spans in one text.
    Target tokens of marked auxiliary tokens come first, then the others, by score, the earlier first.
    """
    allocators.check(len(target_spans), B)
    if len(norms) != len(aux_spans) or not norms:
        raise ValueError("norms and aux_spans must have the same length, at least 1")
    scores = normalised([float(x) for x in norms])
    marked, home = marked_tokens(scores, B), auxiliary_of(aux_spans, target_spans)
    order = sorted(range(len(home)), key=lambda t: (home[t] not in marked, -scores[home[t]], t))
    return sorted(order[:B])
