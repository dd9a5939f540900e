"""The pair viewer of a group: which pairs the page carries, and what its readers should know."""

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from cachemend.warehouse.report.case_data import packed
from cachemend.warehouse.report.formats import plural
from cachemend.warehouse.report.routing.analysis import Decision
from cachemend.warehouse.report.routing.pair_data import pair_data
from cachemend.warehouse.report.routing.rows import PairRow

_KINDS = (
    "invalid, returned by SafeCache",
    "valid, never returned by SafeCache",
    "valid, returned by SafeCache",
    "invalid, never returned by SafeCache",
    "in no replayed test subset",
)


class ShownPair(NamedTuple):
    """A pair that can be chosen: its place on the page, and packed JSON."""

    number: int
    label: str
    data: str


class PairViewer(NamedTuple):
    """The viewer: pairs by kind, those that went wrong first; notes on texts and on what is left out."""

    sections: list[tuple[str, list[ShownPair]]]
    notes: list[str]

    @property
    def pairs(self) -> list[ShownPair]:
        """Every pair of the page, in its order."""
        return [pair for _, pairs in self.sections for pair in pairs]


def pair_viewer(rows: Sequence[PairRow], decisions: Sequence[Decision], room: int) -> PairViewer:
    """Prepare the pairs of a group; `room` is what they may take, in characters."""
    of_pair: defaultdict[str, list[Decision]] = defaultdict(list)
    for decision in decisions:
        of_pair[decision.case_digest].append(decision)
    kinds = {row.case_digest: _kind(row, of_pair[row.case_digest]) for row in rows}
    sections: dict[str, list[ShownPair]] = {}
    shown: list[PairRow] = []
    for row in sorted(rows, key=lambda row: (kinds[row.case_digest], row.case_id, row.case_digest)):
        data = packed(pair_data(row, of_pair[row.case_digest]))
        room -= len(data)
        if room < 0:
            break
        sections.setdefault(_KINDS[kinds[row.case_digest]], []).append(ShownPair(len(shown), _label(row), data))
        shown.append(row)
    return PairViewer(list(sections.items()), _notes(shown, len(rows) - len(shown)))


def _kind(row: PairRow, decisions: Sequence[Decision]) -> int:
    if not decisions:
        return 4
    returned = any(decision.accepted for decision in decisions)
    if row.valid:
        return 2 if returned else 1
    return 0 if returned else 3


def _label(row: PairRow) -> str:
    kind = ", ".join(part for part in (row.source, row.family) if part)
    return f"{row.case_id}: {kind}" if kind else row.case_id


def _notes(shown: Sequence[PairRow], omitted: int) -> list[str]:
    notes = []
    silent = sum(row.q_cache is None for row in shown)
    if silent:
        notes.append(
            f"{plural(silent, 'pair')} without texts and explanation: a run with --set store_text=true adds them."
        )
    if silent < len(shown):
        notes.append("This page holds the texts of its pairs: mind that before you pass it on.")
    if omitted:
        notes.append(f"{plural(omitted, 'further pair')} left out to keep this page small; all are open to SQL.")
    return notes
