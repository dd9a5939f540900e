"""What did not end well: outcome counts, failed arms, and parts that could not be read."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from cachemend.warehouse.report.labels import ArmKey, arm_order
from cachemend.warehouse.report.rows import Row
from cachemend.warehouse.scanning import CorruptPart, scan
from cachemend.warehouse.schemas import TABLES

SHOWN = 200
"""Failed arms listed per group; the page says how many there are in all."""


class Failure(NamedTuple):
    """One arm of one case that did not end ok."""

    case_id: str
    arm: ArmKey
    outcome: str
    error: str


class Failures(NamedTuple):
    """Outcomes of all rows, and the failed ones; `listed` holds at most `SHOWN` of `total`."""

    outcomes: tuple[tuple[str, int], ...]
    listed: tuple[Failure, ...]
    total: int


def failures(rows: Iterable[Row]) -> Failures:
    """Collect the failures of a group."""
    found = list(rows)
    counts = Counter(row.outcome for row in found)
    outcomes = sorted(counts.items(), key=lambda item: (item[0] != "ok", item[0]))
    failed = sorted((row for row in found if not row.ok), key=lambda row: (row.case_id, arm_order(row.arm)))
    listed = [Failure(row.case_id, row.arm, row.outcome, row.error or "") for row in failed[:SHOWN]]
    return Failures(tuple(outcomes), tuple(listed), len(failed))


def corrupt_parts(results: Path) -> list[CorruptPart]:
    """Return every part that is not counted, damage behind an intact footer included."""
    return [part for name in TABLES for part in scan(results, name, deep=True).corrupt]
