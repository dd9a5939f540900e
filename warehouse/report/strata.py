"""One stratum of a group: its rows by arm, and how many cases stand behind it."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from cachemend.warehouse.report.labels import ArmKey, allocator_order, arm_order, reference_names
from cachemend.warehouse.report.rows import Row

HEADLINE = "first-deleted"
"""The stratum whose needed fact lies downstream of the deletion: the one that needs repair."""

PREFERRED_BUDGET = 5.0
"""The budget of the finding, percent, where it was run."""


@dataclass(frozen=True, kw_only=True)
class Stratum:
    """The rows of one stratum.

    Attributes:
        name: the stratum; None where the cohort has none.
        arms: rows of each arm, in display order; at most one per case.
        n_of: cases with a row of any arm: the N of "n of N".
        n_cohort: cases of this stratum in the whole cohort; None if no run says.
    """

    name: str | None
    arms: Mapping[ArmKey, tuple[Row, ...]]
    n_of: int
    n_cohort: int | None

    @property
    def budgets(self) -> list[float]:
        """Budgets of any allocator, ascending, percent."""
        return sorted({arm.budget for arm in self.arms if arm.budget is not None})

    @property
    def allocators(self) -> list[str]:
        """Allocators without the references, in display order."""
        return sorted({arm.allocator for arm in self.arms if not arm.is_reference}, key=allocator_order)

    @property
    def references(self) -> list[str]:
        """References that were run, in display order."""
        return reference_names(arm.allocator for arm in self.arms if arm.is_reference)

    @property
    def rows(self) -> list[Row]:
        """All rows."""
        return [row for rows in self.arms.values() for row in rows]

    @property
    def headline_budget(self) -> float | None:
        """The budget of the finding: 5 %, or the measured one nearest to it."""
        budgets = self.budgets
        return min(budgets, key=lambda b: (abs(b - PREFERRED_BUDGET), b)) if budgets else None

    @property
    def counted(self) -> str:
        """How many cases stand here, of how many in the whole cohort."""
        whole = f"{self.n_of} of {self.n_cohort}" if self.n_cohort else f"{self.n_of}"
        return f"{whole} {self.name} cases" if self.name else f"{whole} cases"

    def of(self, allocator: str, budget: float | None = None) -> tuple[Row, ...]:
        """Return an arm's rows; none if it was not run."""
        return self.arms.get(ArmKey(allocator, budget), ())


def split(rows: Iterable[Row], cohort_sizes: Mapping[str, int]) -> list[Stratum]:
    """Split a group's rows into strata, the headline stratum first.

    Args:
        rows: rows of one group.
        cohort_sizes: cases per stratum of the whole cohort, as far as known.
    """
    found: defaultdict[str | None, list[Row]] = defaultdict(list)
    for row in rows:
        found[row.stratum].append(row)
    names = sorted(found, key=lambda name: (name != HEADLINE, name or ""))
    return [_stratum(name, found[name], cohort_sizes.get(name or "")) for name in names]


def _stratum(name: str | None, rows: Sequence[Row], n_cohort: int | None) -> Stratum:
    arms: defaultdict[ArmKey, list[Row]] = defaultdict(list)
    for row in rows:
        arms[row.arm].append(row)
    ordered = {arm: tuple(arms[arm]) for arm in sorted(arms, key=arm_order)}
    n_of = len({row.case_digest for row in rows})
    return Stratum(name=name, arms=ordered, n_of=n_of, n_cohort=n_cohort)
