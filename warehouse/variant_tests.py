"""Variants of SUR against what they change, on common cases, and the rule that chooses among them.

The unit of chance is the case: its score is the mean exact match over the budgets of the choice, so that three budgets
of one case do not count as three cases. Wordings are strata, never pooled without being kept apart in the bootstrap.
The gold answer's negative log likelihood stands beside it, and decides nothing: it still moves where the exact match is
at its ceiling.
"""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import NamedTuple

from cachemend.calibration import Interval, holm, mcnemar_exact, paired_bootstrap
from cachemend.repair_core.described_variants import DESCRIBED, Described

CHOICE_BUDGETS = (0.5, 1.0, 2.0)
"""Percent of the suffix: where the allowance is less than one unit, and SUR not at its ceiling on development cases."""

ALPHA = 0.05
MOST = 3
"""A choice keeps at most so many variants: each is one more test on the reported cases."""


class Said(NamedTuple):
    """One answer, and where its cache was recomputed.

    Attributes:
        em: exact match, 0 or 1.
        nll: the gold answer's negative log likelihood, nats per token.
        runs: the recomputed intervals; equal texts are equal positions.
    """

    em: float
    nll: float
    runs: str | None = None


Scores = Mapping[str, Mapping[tuple[str, float], Mapping[str, Said]]]
"""What was said, by wording, (allocator, budget in percent) and case."""


class VariantContrast(NamedTuple):
    """A variant against its reference over n cases.

    Attributes:
        described: the variant.
        n: cases that both answered at every budget.
        mine, theirs: mean exact match, percent.
        elsewhere: cases in which it recomputed other positions than the reference, at one budget or more. Where it is 0
            nothing was compared.
        better, worse: cases with a higher, or lower, mean exact match than the reference.
        difference: percentage points, with its 95 % paired bootstrap interval, wordings as strata.
        nll: the same difference in the gold answer's negative log likelihood, nats per token; below 0 is better.
        p: exact McNemar over better and worse.
        p_holm: Holm over the family; None outside it.
    """

    described: Described
    n: int
    mine: float
    theirs: float
    elsewhere: int
    better: int
    worse: int
    difference: Interval
    nll: Interval
    p: float
    p_holm: float | None = None


def contrast(scores: Scores, described: Described, budgets: Sequence[float]) -> VariantContrast | None:
    """Compare a variant with its reference over `budgets`; None without a common case."""
    mine: list[Said] = []
    theirs: list[Said] = []
    wordings: list[str] = []
    elsewhere = 0
    for wording, arms in scores.items():
        sides = [[arms.get((name, b), {}) for b in budgets] for name in (described.name, described.reference)]
        for case in sorted(set.intersection(*(set(answers) for side in sides for answers in side))):
            said = [[answers[case] for answers in side] for side in sides]
            for kept, answers in zip((mine, theirs), said, strict=True):
                kept.append(Said(fmean(one.em for one in answers), fmean(one.nll for one in answers)))
            elsewhere += any(a.runs != b.runs for a, b in zip(*said, strict=True))
            wordings.append(wording)
    if not mine:
        return None
    a, b = ([100 * one.em for one in side] for side in (mine, theirs))
    test = mcnemar_exact([x > y for x, y in zip(a, b, strict=True)], [x < y for x, y in zip(a, b, strict=True)])
    return VariantContrast(
        described=described,
        n=len(mine),
        mine=fmean(a),
        theirs=fmean(b),
        elsewhere=elsewhere,
        better=test.repaired,
        worse=test.regressed,
        difference=paired_bootstrap(a, b, wordings),
        nll=paired_bootstrap([one.nll for one in mine], [one.nll for one in theirs], wordings),
        p=test.p,
    )


def contrasts(
    scores: Scores, budgets: Sequence[float] = CHOICE_BUDGETS, family: Sequence[str] = ()
) -> list[VariantContrast]:
    """Compare every variant that was run with its reference, in the order of `DESCRIBED`.

    Args:
        scores: what was measured.
        budgets: percentages whose mean is compared.
        family: the variants that are tested, and which Holm's adjustment covers; none on development cases.
    """
    found = [one for described in DESCRIBED if (one := contrast(scores, described, budgets)) is not None]
    inside = [place for place, one in enumerate(found) if one.described.name in family]
    for place, adjusted in zip(inside, holm([found[place].p for place in inside]), strict=True):
        found[place] = found[place]._replace(p_holm=float(adjusted))
    return found


def chosen(found: Sequence[VariantContrast]) -> tuple[str, ...]:
    """The choice: at most three candidates that beat SUR on development cases, the largest gain first.

    To beat is a positive difference and more cases better than worse; among equal gains the lower likelihood loss comes
    first. This only screens: p and its adjustment belong to the test on reported cases, and cover what was chosen.
    """
    ahead = [one for one in found if one.described.candidate and one.difference.point > 0 and one.better > one.worse]
    ahead.sort(key=lambda one: (-round(one.difference.point, 9), one.nll.point))
    return tuple(one.described.name for one in ahead[:MOST])
