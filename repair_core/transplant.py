"""Clean rows put into a stale cache: a diagnostic of where clean information acts, never a repair.

A transplanted row was computed with everything around it clean, so it carries in what a recomputed row could not
know (edit paper, "Transplant is not recomputation").
"""

from collections.abc import Sequence

import numpy as np

from cachemend.repair_core.answering import answer_deltas
from cachemend.repair_core.caches import Rows, read_rows
from cachemend.repair_core.context import StaleContext
from cachemend.repair_core.deltas import Delta, delta_of
from cachemend.repair_core.intervals import Positions
from cachemend.repair_core.relevance import Scores
from cachemend.repair_core.truth import Truth

# Position sets that are scored at once: masks of a batch grow with its size times the context's length.
TOGETHER = 64


def transplant(clean_rows: Sequence[Rows], positions: Sequence[int] | Positions) -> Delta:
    """Return the rows of the clean cache at `positions`, to be written into or answered from a stale one.

    Args:
        clean_rows: the clean cache of the edited context, batch 1.
        positions: sorted and unique.

    Raises:
        InputError: positions unsorted or outside the cache.
    """
    return delta_of(clean_rows, positions)


def clean_row_margins(context: StaleContext, truth: Truth, sets: Sequence[Sequence[int] | Positions]) -> Scores:
    """Return the margin m of the base cache with each set of positions made clean, FP64 [number of sets].

    m is the mean log-probability per token of the new answer minus that of the old one (nats), teacher forced; the
    base is the stale cache with the span refreshed. Margins are kept in `truth`, which belongs to this context.
    """
    keys = [tuple(int(i) for i in positions) for positions in sets]
    missing = [key for key in dict.fromkeys(keys) if key not in truth.margins]
    base, clean = read_rows(context.computed), read_rows(truth.clean)
    for at in range(0, len(missing), TOGETHER):
        part = missing[at : at + TOGETHER]
        deltas = [transplant(clean, key) for key in part]
        scored = (truth.new_ids, truth.old_ids)
        said = answer_deltas(context.model, base, deltas, truth.query_ids, max_new_tokens=0, continuations=scored)
        for key, answer in zip(part, said, strict=True):
            truth.margins[key] = answer.logprobs[0] - answer.logprobs[1]
    return np.array([truth.margins[key] for key in keys], dtype=np.float64)


def causal_effects(context: StaleContext, truth: Truth, positions: Sequence[int] | Positions) -> Scores:
    """Return how much the margin grows when one row alone is clean, FP64 [number of positions].

    effect_i = m(base with clean row i) - m(base), see `clean_row_margins`.
    """
    return set_effects(context, truth, [(int(i),) for i in positions])


def set_effects(context: StaleContext, truth: Truth, sets: Sequence[Sequence[int] | Positions]) -> Scores:
    """The same for sets of positions made clean together."""
    margins = clean_row_margins(context, truth, [(), *sets])
    return margins[1:] - margins[0]
