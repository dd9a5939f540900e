"""SpecCache-Adapted: an auxiliary model's hidden-state norms, completed over smooth spans (paper Table 1)."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from cachemend.repair_core.allocators.base import Allocator, Signal, register, top
from cachemend.repair_core.context import RepairContext
from cachemend.repair_core.intervals import Positions
from cachemend.repair_core.relevance import Scores
from cachemend.repair_core.text import Span

SMOOTH = 0.4
LONGEST = 16
# Share of a span, as a fraction of integers: 0.7 has no exact float.
COVERAGE = (7, 10)


@register
class SpecCache(Allocator):
    """The auxiliary model's strongest tokens, with spans that are mostly chosen completed, mapped to the target's.

    The paper leaves the segmentation, the mapping and the order of truncation open. Here: scores are min-max
    normalised; a span grows from left to right while neighbours differ by at most 0.4, up to 16 tokens; with 70 % of
    it among the top B it is completed; a target token takes the auxiliary token that holds its middle; what exceeds
    B loses its lowest scores, what lacks is filled by score. With that order a completed span loses again what it was
    given, so completion matters only where the auxiliary model has other tokens than the target.
    """

    name = "speccache"
    signals = (Signal.AUXILIARY_MODEL,)

    def select(self, context: RepairContext, budget: int) -> Positions:
        auxiliary = context.auxiliary_scores
        scores = normalised(auxiliary.scores)
        marked = complete(scores, budget)
        own = auxiliary.spans is auxiliary.target_spans
        owner = np.arange(len(scores)) if own else owners(auxiliary.spans, auxiliary.target_spans)
        wanted, strength = marked[owner], scores[owner]
        # Chosen tokens come before all others, each group by score.
        return top(strength + 2.0 * wanted, budget)


def normalised(scores: Scores) -> Scores:
    """Min-max normalisation; constant scores are all 0."""
    low, high = float(scores.min()), float(scores.max())
    return (scores - low) / (high - low) if high > low else np.zeros_like(scores)


def complete(scores: Scores, budget: int) -> npt.NDArray[np.bool_]:
    """Mark the `budget` strongest tokens and every span of which at least 70 % are among them."""
    marked = np.zeros(len(scores), dtype=bool)
    marked[top(scores, budget)] = True
    out = marked.copy()
    for start, stop in smooth_spans(scores):
        if COVERAGE[1] * int(marked[start:stop].sum()) >= COVERAGE[0] * (stop - start):
            out[start:stop] = True
    return out


def smooth_spans(scores: Scores) -> list[tuple[int, int]]:
    """Half-open runs whose neighbouring scores differ by at most 0.4, at most 16 tokens long."""
    spans, start = [], 0
    for index in range(1, len(scores) + 1):
        whole = index == len(scores) or index - start == LONGEST
        if whole or abs(scores[index] - scores[index - 1]) > SMOOTH:
            spans.append((start, index))
            start = index
    return spans


def owners(spans: Sequence[Span], target_spans: Sequence[Span]) -> npt.NDArray[np.int64]:
    """Index of the auxiliary token that holds the middle of each target token.

    A middle on a boundary belongs to the right; a token without width follows the one before it; a middle in no
    auxiliary token belongs to the last that begins at or before it.
    """
    starts = np.array([span.start for span in spans])
    held: list[int] = []
    for span in target_spans:
        if span.start == span.stop:
            held.append(held[-1] if held else 0)
            continue
        middle = (span.start + span.stop) / 2
        begun = max(0, int(np.searchsorted(starts, middle, side="right")) - 1)
        wide = begun
        while wide > 0 and spans[wide].start == spans[wide].stop:
            wide -= 1
        held.append(wide if spans[wide].start <= middle < spans[wide].stop else begun)
    return np.array(held, dtype=np.int64)
