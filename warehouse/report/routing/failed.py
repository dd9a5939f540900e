"""Pairs without a verdict they should have, and how all pairs ended."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from cachemend.warehouse.report.failures import SHOWN
from cachemend.warehouse.report.routing.rows import PairRow


class FailedPairs(NamedTuple):
    """Outcomes of all pairs, and those that failed; `listed` holds at most `SHOWN` of `total`."""

    outcomes: list[tuple[str, int]]
    listed: list[PairRow]
    total: int


def failed_pairs(rows: Sequence[PairRow]) -> FailedPairs:
    """Collect the failures of a group."""
    counts = Counter(row.outcome for row in rows)
    failed = sorted((row for row in rows if row.outcome != "ok"), key=lambda row: row.case_id)
    outcomes = sorted(counts.items(), key=lambda item: (item[0] != "ok", item[0]))
    return FailedPairs(outcomes, failed[:SHOWN], len(failed))
