"""Do the boundaries of the text matter: regions of SUR's scores that ignore them (paper section 9.3, at its end)."""

import numpy as np

from cachemend.repair_core.allocators.unit_budget import admit, rank, unit_scores
from cachemend.repair_core.context import RepairContext
from cachemend.repair_core.intervals import Positions
from cachemend.repair_core.relevance import Scores
from cachemend.repair_core.units import Unit
from cachemend.repair_core.variants.variant import Select
from cachemend.repair_core.variants.windows import SUR_WINDOW


def equal_blocks(length: int, count: int) -> tuple[Unit, ...]:
    """Cut `length` tokens into `count` blocks whose sizes differ by at most 1, longer first; 1 <= count <= length."""
    short, longer = divmod(length, count)
    stops = np.cumsum([short + 1] * longer + [short] * (count - longer)).tolist()
    return tuple(Unit(start, stop) for start, stop in zip([0, *stops[:-1]], stops, strict=True))


def fixed_blocks(context: RepairContext, budget: int) -> Positions:
    """SUR over as many equal blocks as the case has units: the same number and mean size, other places to cut."""
    relevance = context.relevance
    blocks = equal_blocks(len(relevance), len(context.segmentation.units))
    return admit(blocks, rank(unit_scores(relevance, blocks)), budget, SUR_WINDOW(relevance))


def best_windows(relevance: Scores, budget: int, count: int) -> Positions:
    """The `count` disjoint windows of equal width with the largest summed relevance, exactly, the earliest on ties.

    Widths differ by at most 1 where `budget` does not divide; fewer windows where it is below `count`.

    Args:
        relevance: FP64 [S], multiples of 2^-20, so that equal sums tie exactly.
        budget: positions to fill; at most S.
        count: windows.
    """
    short, n_long = divmod(budget, min(count, budget))
    n_short = min(count, budget) - n_long
    length, prefix = len(relevance), np.concatenate(([0.0], np.cumsum(relevance)))
    # best[a, b, i]: the largest sum of a long and b short windows in tokens i and after.
    best = np.full((n_long + 1, n_short + 1, length + 1), -np.inf)
    best[0, 0] = 0.0
    places: dict[tuple[int, int, int], int] = {}
    for i in range(length - 1, -1, -1):
        for a in range(n_long + 1):
            for b in range(n_short + 1):
                best[a, b, i] = best[a, b, i + 1]
                for width, c, d in ((short + 1, a - 1, b), (short, a, b - 1)):
                    if c < 0 or d < 0 or i + width > length:
                        continue
                    value = prefix[i + width] - prefix[i] + best[c, d, i + width]
                    taken = (a, b, i) in places
                    if value > best[a, b, i] or (value == best[a, b, i] > -np.inf and not taken):
                        best[a, b, i] = value
                        places[a, b, i] = width
    chosen, i, a, b = [], 0, n_long, n_short
    while a or b:
        if (a, b, i) not in places:
            i += 1
            continue
        width = places[a, b, i]
        chosen.append(np.arange(i, i + width))
        i += width
        a, b = (a - 1, b) if width > short else (a, b - 1)
    return np.concatenate(chosen)


def by_windows(count: int) -> Select:
    """Local windows instead of units; one window is the control max-relevance-window."""
    return lambda context, budget: best_windows(context.relevance, budget, count)
