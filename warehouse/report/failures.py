"""What did not end well: outcome counts, failed arms, and parts that could not be read."""

from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

from cachemend.warehouse.scanning import CorruptPart, scan
from cachemend.warehouse.schemas import TABLES

SHOWN = 200
"""Failed arms listed per group; the page says how many there are in all."""


class Labelled(Protocol):
    """An arm with a readable name."""

    @property
    def label(self) -> str:
        """The name."""


class Ended(Protocol):
    """A record: a case, an arm, and how it ended."""

    @property
    def case_id(self) -> str:
        """The case."""

    @property
    def arm(self) -> Labelled:
        """The arm."""

    @property
    def outcome(self) -> str:
        """How it ended."""

    @property
    def error(self) -> str | None:
        """Why it failed."""


E = TypeVar("E", bound=Ended)


class Failure(NamedTuple):
    """One arm of one case that did not end ok."""

    case_id: str
    arm: Labelled
    outcome: str
    error: str


class Failures(NamedTuple):
    """Outcomes of all rows, and the failed ones; `listed` holds at most `SHOWN` of `total`."""

    outcomes: tuple[tuple[str, int], ...]
    listed: tuple[Failure, ...]
    total: int


def failures(rows: Iterable[E], order: Callable[[E], Any]) -> Failures:
    """Collect the failures of a group; `order` sorts those of a case."""
    found = list(rows)
    counts = Counter(row.outcome for row in found)
    outcomes = sorted(counts.items(), key=lambda item: (item[0] != "ok", item[0]))
    failed = sorted((row for row in found if row.outcome != "ok"), key=lambda row: (row.case_id, order(row)))
    listed = [Failure(row.case_id, row.arm, row.outcome, row.error or "") for row in failed[:SHOWN]]
    return Failures(tuple(outcomes), tuple(listed), len(failed))


def corrupt_parts(results: Path) -> list[CorruptPart]:
    """Return every part that is not counted, damage behind an intact footer included."""
    return [part for name in TABLES for part in scan(results, name, deep=True).corrupt]
