"""Variants of SUR against what they change, on common cases, and the rule that chooses among them.

The unit of chance is the case: its score is the mean exact match over the budgets of the choice, so that three budgets
of one case do not count as three cases. Wordings are strata, never pooled without being kept apart in the bootstrap.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from cachemend.calibration import Interval, holm, mcnemar_exact, paired_bootstrap
from cachemend.repair_core.described_variants import DESCRIBED, Described

CHOICE_BUDGETS = (2.0, 3.0, 5.0)
"""Percent of the suffix: where the allowance is about one unit or less."""

ALPHA = 0.05
MOST = 3
"""A choice keeps at most so many variants: each is one more test on the reported cases."""

Scores = Mapping[str, Mapping[tuple[str, float], Mapping[str, float]]]
"""Exact match, 0 or 1, by wording, (allocator, budget in percent) and case."""


class VariantContrast(NamedTuple):
    """A variant against its reference over n cases.

    Attributes:
        described: the variant.
        n: cases that both answered at every budget.
        mine, theirs: mean exact match, percent.
        better, worse: cases with a higher, or lower, mean exact match than the reference.
        difference: percentage points, with its 95 % paired bootstrap interval, wordings as strata.
        p: exact McNemar over better and worse.
        p_holm: Holm over the family; None outside it.
    """

    described: Described
    n: int
    mine: float
    theirs: float
    better: int
    worse: int
    difference: Interval
    p: float
    p_holm: float | None = None


def contrast(scores: Scores, described: Described, budgets: Sequence[float]) -> VariantContrast | None:
    """Compare a variant with its reference over `budgets`; None without a common case."""
    mine, theirs, wordings = [], [], []
    for wording, arms in scores.items():
        sides = [[arms.get((name, b), {}) for b in budgets] for name in (described.name, described.reference)]
        for case in sorted(set.intersection(*(set(answers) for side in sides for answers in side))):
            a, b = (100 * sum(answers[case] for answers in side) / len(budgets) for side in sides)
            mine.append(a)
            theirs.append(b)
            wordings.append(wording)
    if not mine:
        return None
    test = mcnemar_exact(
        [a > b for a, b in zip(mine, theirs, strict=True)], [a < b for a, b in zip(mine, theirs, strict=True)]
    )
    return VariantContrast(
        described=described,
        n=len(mine),
        mine=sum(mine) / len(mine),
        theirs=sum(theirs) / len(theirs),
        better=test.repaired,
        worse=test.regressed,
        difference=paired_bootstrap(mine, theirs, wordings),
        p=test.p,
    )


def contrasts(
    scores: Scores, budgets: Sequence[float] = CHOICE_BUDGETS, family: Sequence[str] | None = None
) -> list[VariantContrast]:
    """Compare every variant that was run with its reference, in the order of `DESCRIBED`.

    Args:
        scores: what was measured.
        budgets: percentages whose mean is compared.
        family: the variants that Holm's adjustment covers; None for all candidates.
    """
    found = [one for described in DESCRIBED if (one := contrast(scores, described, budgets)) is not None]
    inside = [
        place
        for place, one in enumerate(found)
        if (one.described.candidate if family is None else one.described.name in family)
    ]
    for place, adjusted in zip(inside, holm([found[place].p for place in inside]), strict=True):
        found[place] = found[place]._replace(p_holm=float(adjusted))
    return found


def chosen(found: Sequence[VariantContrast]) -> tuple[str, ...]:
    """The choice: candidates with a clear gain over SUR on development cases, the largest gain first, at most three.

    A gain is clear with a positive difference and a Holm-adjusted p below 0.05.
    """
    clear = [
        one
        for one in found
        if one.described.candidate and one.difference.point > 0 and one.p_holm is not None and one.p_holm < ALPHA
    ]
    clear.sort(key=lambda one: -one.difference.point)
    return tuple(one.described.name for one in clear[:MOST])
