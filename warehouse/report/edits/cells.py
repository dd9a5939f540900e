"""The cells of a group: one split, condition and distance, with what was retained and what each arm recovered."""

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

from cachemend.warehouse.edit_evidence import PRIMARY_K, Check, evidence_checks, judged_k, shortfall
from cachemend.warehouse.report.edits.analysis import Recovery
from cachemend.warehouse.report.edits.names import DIAGNOSTICS, SUBJECT, PolicyArm
from cachemend.warehouse.report.edits.rows import EditGroup, EditRow
from cachemend.warehouse.report.formats import plural

_SPLITS = ("held-out", "dev")
_CONDITIONS = ("derived", "direct", "irrelevant")


class CellKey(NamedTuple):
    """A split, a condition and a nominal distance, tokens."""

    split: str
    condition: str
    distance: int

    @property
    def order(self) -> tuple[int, int, int]:
        """A sort key: held-out first, then derived."""
        return _SPLITS.index(self.split), _CONDITIONS.index(self.condition), self.distance

    @property
    def label(self) -> str:
        """Readable name."""
        away = "" if self.condition != "derived" else f", answer {self.distance} tokens after the edit"
        return f"{self.condition} items{away}, {self.split}"


class Cell:
    """What one cell holds; `recovery` and `contrasts` are those over all wordings."""

    def __init__(self, key: CellKey, rows: Sequence[EditRow], group: EditGroup) -> None:
        self.key = key
        self.rows = rows
        mine = [r for r in group.recovery if CellKey(r.split, r.condition, r.distance) == key]
        self.recovery = {r.arm: r for r in sorted(mine, key=lambda r: r.arm.order) if r.family is None}
        self.by_family = [r for r in mine if r.family is not None]
        self.contrasts = [
            found
            for contrast in group.contrasts
            if CellKey(contrast.split, contrast.condition, contrast.distance) == key and contrast.family is None
            for found in (contrast, contrast.reversed)
            if found.policy_a == SUBJECT and found.k in (self.k, None)
        ]

    @cached_property
    def cases(self) -> dict[str, EditRow]:
        """A row of each case, the clean one where there is one, by digest."""
        found: dict[str, EditRow] = {}
        for row in self.rows:
            if row.case_digest not in found or row.policy == "clean":
                found[row.case_digest] = row
        return found

    @cached_property
    def retained(self) -> list[EditRow]:
        """The retained cases."""
        return [row for row in self.cases.values() if row.retained]

    @property
    def ks(self) -> list[int]:
        """Every K that was recomputed, ascending."""
        return sorted({arm.k for arm in self.recovery if arm.k is not None and arm.operator != "transplant"})

    @property
    def k(self) -> int:
        """The K of the tables: 32, or the measured one nearest to it."""
        return min(self.ks, key=lambda k: (abs(k - PRIMARY_K), k), default=PRIMARY_K)

    @property
    def primary(self) -> list[Recovery]:
        """References, arms at that K and rules with their own length."""
        return [r for arm, r in self.recovery.items() if arm.k in (None, self.k) and arm.operator != "transplant"]

    def of(self, policy: str, k: int | None = None) -> Recovery | None:
        """Return what an arm recovered by recomputing."""
        operator = "none" if policy in ("stale", "clean") else "recompute"
        return self.recovery.get(PolicyArm(policy, k, operator))

    @property
    def rivals(self) -> list[Recovery]:
        """Deployable policies other than edit-local at the K of the tables, the best first."""
        found = [
            r
            for r in self.primary
            if r.k == self.k and r.policy != SUBJECT and not r.diagnostic and r.policy not in DIAGNOSTICS
        ]
        return sorted((r for r in found if r.mean is not None), key=lambda r: (-(r.mean or 0.0), r.policy))

    @property
    def checks(self) -> tuple[Check, ...]:
        """The requirements of evidence, of a derived cell."""
        at = (arm.k for arm in self.recovery if arm.policy == "random" and arm.operator == "recompute")
        k = judged_k(k for k in at if k is not None)
        random, span = self.of("random", k), self.of("span")
        return evidence_checks(
            min((row.n_tokens for row in self.retained), default=None),
            len(self.retained),
            len({row.family for row in self.retained}),
            random.mean if random else None,
            span.mean if span else None,
            k,
        )

    @property
    def shortfall(self) -> str | None:
        """Why the cell shows nothing; None where it is evidence. Only a derived cell can show what repair is worth."""
        stored = next((r.evidence for r in self.recovery.values() if r.evidence), None)
        return (shortfall(self.checks) or stored) if self.key.condition == "derived" else stored

    @property
    def counted(self) -> str:
        """How many of the items are retained."""
        return f"{len(self.retained):,} of {plural(len(self.cases), 'item')} retained"


def cells_of(group: EditGroup) -> list[Cell]:
    """Return a group's cells, the headline first."""
    by_key: dict[CellKey, list[EditRow]] = {}
    for row in group.rows:
        by_key.setdefault(CellKey(row.split, row.condition, row.distance), []).append(row)
    return [Cell(key, by_key[key], group) for key in sorted(by_key, key=lambda key: key.order)]


def headline(cells: Sequence[Cell]) -> Cell | None:
    """Return the derived cell with the shortest distance, held-out where there is one; None without a derived item."""
    return next((cell for cell in cells if cell.key.condition == "derived"), None)
