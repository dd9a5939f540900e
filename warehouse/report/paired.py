"""SUR against the other arms on common cases: repairs, regressions, intervals and exact tests."""

from collections.abc import Sequence
from typing import NamedTuple

from cachemend.calibration import Interval, holm, mcnemar_exact, paired_bootstrap
from cachemend.warehouse.report.labels import SUBJECT, ArmKey
from cachemend.warehouse.report.rows import Row
from cachemend.warehouse.report.strata import Stratum

_AGAINST = ("shift", "replay", "re-prefill")


class Comparison(NamedTuple):
    """`subject` against `other` on the n cases that both answered without failure.

    Attributes:
        subject_right, other_right: cases of those answered exactly; None when n is 0, like all that follows.
        repaired, regressed: cases only the subject, or only the other, got right.
        difference: percentage points, with its 95 % paired bootstrap interval.
        p: exact McNemar; adjusted: Holm over the table.
    """

    subject: ArmKey
    other: ArmKey
    n: int
    n_excluded: int
    subject_right: int | None = None
    other_right: int | None = None
    repaired: int | None = None
    regressed: int | None = None
    difference: Interval | None = None
    p: float | None = None
    adjusted: float | None = None

    @property
    def subject_percent(self) -> float | None:
        """Exact match of the subject on the common cases, percent."""
        return None if self.subject_right is None else 100 * self.subject_right / self.n

    @property
    def other_percent(self) -> float | None:
        """Exact match of the other arm on the common cases, percent."""
        return None if self.other_right is None else 100 * self.other_right / self.n


def compare(stratum: Stratum, subject: ArmKey, other: ArmKey) -> Comparison:
    """Compare two arms on their common cases."""
    mine, theirs = (_answered(stratum.of(*arm)) for arm in (subject, other))
    common = sorted(mine.keys() & theirs.keys())
    excluded = stratum.n_of - len(common)
    if not common:
        return Comparison(subject, other, 0, excluded)
    a, b = ([side[case] for case in common] for side in (mine, theirs))
    test = mcnemar_exact(a, b)
    difference = paired_bootstrap([100 * x for x in a], [100 * x for x in b])
    right = (round(sum(a)), round(sum(b)))
    return Comparison(subject, other, len(common), excluded, *right, test.repaired, test.regressed, difference, test.p)


def paired_table(stratum: Stratum) -> list[Comparison]:
    """Compare SUR with every other allocator and with Shift, Replay and Re-prefill, at each of its budgets.

    Holm's adjustment covers every test of the returned table.
    """
    comparisons = []
    for subject in stratum.arms:
        if subject.allocator != SUBJECT:
            continue
        rivals = [ArmKey(name, subject.budget) for name in stratum.allocators if name != SUBJECT]
        for other in rivals + [ArmKey(name, None) for name in _AGAINST]:
            if other in stratum.arms:
                comparisons.append(compare(stratum, subject, other))
    tested = [index for index, found in enumerate(comparisons) if found.p is not None]
    for index, adjusted in zip(tested, holm([comparisons[i].p or 0.0 for i in tested]), strict=True):
        comparisons[index] = comparisons[index]._replace(adjusted=float(adjusted))
    return comparisons


def _answered(rows: Sequence[Row]) -> dict[str, float]:
    return {row.case_digest: row.em for row in rows if row.ok and row.em is not None}
