"""The case viewer of a group: what its script needs, and what its readers should know."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from markupsafe import Markup

from cachemend.repair_core.arms import REFERENCES
from cachemend.warehouse.report.case_data import case_data, packed
from cachemend.warehouse.report.figure_frame import embedded
from cachemend.warehouse.report.formats import plural
from cachemend.warehouse.report.labels import SUBJECT, allocator_label, allocator_order, arm_order
from cachemend.warehouse.report.palette import REFERENCE_COLOR, mark
from cachemend.warehouse.report.rows import Identity, Row
from cachemend.warehouse.report.strata import HEADLINE
from cachemend.warehouse.report.texts import Texts

PAGE_BYTES = 5_000_000
"""Packed cases a page may hold, all groups together; the page says how many cases had no room."""

_SHOWN_AT_FIRST = (SUBJECT, "dense-tokens")


class ViewerCase(NamedTuple):
    """A case that can be chosen: its place on the page, and packed JSON."""

    number: int
    label: str
    stratum: str
    data: str


class Viewer(NamedTuple):
    """The viewer: `methods` is JSON that is safe inside a script element, `notes` are sentences of the page."""

    cases: list[ViewerCase]
    budgets: list[float]
    methods: Markup
    notes: list[str]


def viewer(identity: Identity, rows: Sequence[Row], texts: Texts, room: int) -> Viewer:
    """Prepare the cases of a group.

    Args:
        identity: the group.
        rows: all its rows.
        texts: where to look for texts.
        room: characters its packed cases may take; cases that come later in the order are left out.
    """
    names = sorted({row.arm.allocator for row in rows}, key=allocator_order)  # references first
    numbers = {name: number for number, name in enumerate(names)}
    by_case: defaultdict[str, list[Row]] = defaultdict(list)
    for row in rows:
        by_case[row.case_digest].append(row)
    shown: list[ViewerCase] = []
    sources: Counter[str] = Counter()
    for own in sorted(by_case.values(), key=_case_order):
        own.sort(key=lambda row: arm_order(row.arm))
        text = texts.of(identity.experiment, identity.cohort_digest, own[0].case_digest)
        data = packed(case_data(own, text, numbers))
        room -= len(data)
        if room < 0:
            break
        sources[text.source or "none"] += 1
        right = sum(int(row.correct) for row in own)
        label = f"{own[0].case_id}: {right} of {plural(len(own), 'arm')} right"
        shown.append(ViewerCase(len(shown), label, own[0].stratum or "all", data))
    notes = _notes(sources, len(by_case) - len(shown), identity.cohort_digest)
    budgets = sorted({row.budget for row in rows if row.budget is not None})
    return Viewer(shown, budgets, embedded([_method(*item) for item in enumerate(names)]), notes)


def _method(position: int, name: str) -> dict[str, object]:
    reference = name in REFERENCES
    return {
        "label": allocator_label(name),
        "color": REFERENCE_COLOR if reference else mark(name, position).color,
        "reference": reference,
        "shown": name in _SHOWN_AT_FIRST,
    }


def _case_order(rows: Sequence[Row]) -> tuple[bool, str, int, str]:
    first = rows[0]
    return first.stratum != HEADLINE, first.stratum or "", first.length or 0, first.case_id


def _notes(sources: Counter[str], omitted: int, cohort_digest: str) -> list[str]:
    notes = []
    if sources["cases"]:
        notes.append("Texts come from the table cases, where a run stored them.")
    if sources["cohort file"]:
        notes.append(
            f"Texts come from cohorts/{cohort_digest}.json in the results folder; no run stored them in the table "
            "cases. This page now holds them too: mind that before you pass it on."
        )
    if sources["none"]:
        notes.append(
            f"{plural(sources['none'], 'case')} without a text in the table cases or in a readable cohort file of the "
            "results folder: positions are shown without it."
        )
    if omitted:
        notes.append(f"{plural(omitted, 'further case')} left out to keep this page small; all are open to SQL.")
    return notes
