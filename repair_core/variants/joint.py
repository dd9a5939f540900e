"""The paper's own variant of several parts at once, and its matched-token comparison (sections 9.3, Table 14).

Table 14 compares a "SUR V1" with the selection of single tokens at equal mean counts of tokens. The paper defines
neither V1 nor its budget. Here whole units stand for it: they are admitted until the allowance is reached or passed,
so that none is cut and the count differs from case to case; the tokens that they are compared with are as many in
every single case, not only on average.
"""

from cachemend.repair_core.allocators.base import top
from cachemend.repair_core.allocators.unit_budget import admit, envelope_window, rank, unit_scores
from cachemend.repair_core.budget import repair_budget
from cachemend.repair_core.context import RepairContext
from cachemend.repair_core.intervals import Positions


def prompt_share(context: RepairContext, percent: float) -> int:
    """A percentage of the whole edited context instead of its suffix; at most the suffix."""
    edit = context.deletion
    return min(edit.suffix_length, repair_budget(len(edit.edited_ids), percent))


def whole_units_share(context: RepairContext, percent: float) -> int:
    """Tokens of the best whole units that together reach or pass a percentage of the suffix."""
    wanted, filled = repair_budget(context.deletion.suffix_length, percent), 0
    units = context.segmentation.units
    for index in rank(unit_scores(context.relevance, units)):
        if filled >= wanted:
            break
        filled += units[index].length
    return filled


def sur_units(context: RepairContext, budget: int) -> Positions:
    """SUR's own choice, for another allowance."""
    relevance, units = context.relevance, context.segmentation.units
    return admit(units, rank(unit_scores(relevance, units)), budget, envelope_window(relevance))


def best_tokens(context: RepairContext, budget: int) -> Positions:
    """The single tokens of highest relevance."""
    return top(context.relevance, budget)
