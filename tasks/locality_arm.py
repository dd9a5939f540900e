"""The arm that searches how few positions are enough: an upper bound on repair locality (paper Eq. 6)."""

from collections.abc import Callable, Sequence

import numpy as np

from cachemend.repair_core import Arm, repair_budget
from cachemend.repair_core.allocators.unit_budget import rank, unit_scores
from cachemend.repair_core.deltas import Delta
from cachemend.repair_core.intervals import Positions
from cachemend.repair_core.locality import enough_positions
from cachemend.repair_core.repairing import signal_seconds
from cachemend.repair_core.timing import timed
from cachemend.tasks.answer_arms import Built
from cachemend.tasks.case_arms import CaseArms


def build_locality(shared: CaseArms, arm: Arm, right: Callable[[Sequence[Delta]], list[bool]]) -> Built:
    """Search with the answers of this case, over SUR's ranking up to the arm's budget, and refresh what was found.

    Where nothing is found, nothing is refreshed and the answer is that of Shift: wrong, so the bound is infinite.

    Args:
        shared: the case.
        arm: its budget is where the search ends, percent of the suffix.
        right: whether the answer from each cache is right.
    """
    context, edit = shared.context, shared.case.deletion
    relevance, units = context.relevance, context.segmentation.units
    order, allowed = rank(unit_scores(relevance, units)), repair_budget(edit.suffix_length, arm.budget or 0)
    within = [
        i for i, filled in zip(order, np.cumsum([units[i].length for i in order]), strict=True) if filled <= allowed
    ]

    def reaches(sets: Sequence[Positions]) -> list[bool]:
        return right([shared.refreshed(edit.suffix_positions[chosen])[0] for chosen in sets])

    timings: dict[str, float] = {}
    with timed(timings, "search", context.model):
        found = enough_positions(units, within, reaches)
    positions = edit.suffix_positions[np.empty(0, dtype=np.int64) if found is None else found]
    return shared.sparse(positions, len(positions), signal_seconds(context, arm.allocator), timings["search"])
