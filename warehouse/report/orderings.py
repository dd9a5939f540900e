"""Which of the paper's orderings hold on measured cases: paired tests, corrected over the whole list."""

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from cachemend.calibration import holm
from cachemend.warehouse.claims import CLAIMS, Claim, PaperCount, paper_count
from cachemend.warehouse.report.labels import ArmKey, base_allocator
from cachemend.warehouse.report.paired import Comparison, compare
from cachemend.warehouse.report.rows import Row
from cachemend.warehouse.report.strata import HEADLINE, Stratum, split

ALPHA = 0.05

Verdict = Literal["holds", "not shown", "reversed", "not contradicted"]


class Ordering(NamedTuple):
    """A claim of the paper beside what was measured.

    Attributes:
        claim: the ordering and where the paper states it.
        paper: on how many of its models the paper shows it.
        measured: the paired comparison on the n cases that both arms answered, Holm's p included.
        verdict: "holds", or "reversed" for the opposite, where the difference is clear (Holm-adjusted p below
            `ALPHA`), else "not shown". "Not below" cannot be shown by such a test: it is "reversed" or
            "not contradicted".
    """

    claim: Claim
    paper: PaperCount
    measured: Comparison
    verdict: Verdict


def orderings(rows: Iterable[Row], claims: Sequence[Claim] = CLAIMS) -> list[Ordering]:
    """Check every claim whose two arms have a common first-deleted case.

    Holm's adjustment covers all tests of the returned list.

    Args:
        rows: rows of one group, which share model, cohort and settings.
        claims: what to check, in the order of the result.
    """
    stratum = next((found for found in split(rows, {}) if found.name == HEADLINE), None)
    if stratum is None:
        return []
    tested = [
        (claim, found)
        for claim in claims
        for other in _arms(stratum, claim)
        if (found := compare(stratum, ArmKey(claim.subject, claim.budget), other)).p is not None
    ]
    adjusted = holm([found.p or 0.0 for _, found in tested])
    return [
        Ordering(claim, paper_count(claim), found._replace(adjusted=float(p)), _verdict(claim, found, float(p)))
        for (claim, found), p in zip(tested, adjusted, strict=True)
    ]


def _arms(stratum: Stratum, claim: Claim) -> list[ArmKey]:
    """The arms that a claim's `other` stands for: several where an allocator ran with several auxiliary models."""
    named = [arm for arm in stratum.arms if base_allocator(arm.allocator) == claim.other]
    return [arm for arm in named if arm.budget in (claim.budget, None)]


def _verdict(claim: Claim, found: Comparison, p: float) -> Verdict:
    clear, below = p < ALPHA, (found.repaired or 0) < (found.regressed or 0)
    if clear and below:
        return "reversed"
    if claim.relation == "not below":
        return "not contradicted"
    return "holds" if clear else "not shown"
