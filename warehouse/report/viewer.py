"""The case viewer of a group: what its script needs, and what its readers should know."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from markupsafe import Markup

from cachemend.repair_core.arms import REFERENCES
from cachemend.warehouse.report.case_data import case_data, packed
from cachemend.warehouse.report.figure_frame import embedded
from cachemend.warehouse.report.formats import plural
from cachemend.warehouse.report.labels import SUBJECT, allocator_label, allocator_order, arm_order, budget_label
from cachemend.warehouse.report.palette import REFERENCE_COLOR, mark
from cachemend.warehouse.report.rows import Identity, Row
from cachemend.warehouse.report.strata import HEADLINE
from cachemend.warehouse.report.texts import Texts

PAGE_BYTES = 5_000_000
"""Packed cases a page may hold, all groups together; the page says how many cases had no room."""

_SHOWN_AT_FIRST = (SUBJECT, "dense-tokens")
_COLUMNS = ("Recomputed positions", "Intervals", "Exact", "Gold NLL", "TV to clean", "Leakage", "Answer")
_CAPTION = (
    "Recomputed positions, from the first token of the edited context to the last: grey is the prefix, which stays "
    "valid; the line is the deletion; a block below it marks the value the question asks for. Tick up to three arms "
    "to see their positions in the text."
)


class ViewerCase(NamedTuple):
    """A case that can be chosen: its place on the page, and packed JSON."""

    number: int
    label: str
    stratum: str
    data: str


class Choice(NamedTuple):
    """A budget that can be chosen; `label` names it."""

    value: float
    label: str
    selected: bool


class Viewer(NamedTuple):
    """The viewer.

    Attributes:
        budgets: every budget of the rows, ascending.
        methods: JSON that is safe inside a script element.
        notes: sentences of the page on where texts come from and what is left out.
        chooser: what a budget is called; choices: the budgets that can be chosen.
        columns: heads of the table of arms, after the arm itself.
        caption: what that table shows; lead: what the viewer is.
    """

    cases: list[ViewerCase]
    budgets: list[float]
    methods: Markup
    notes: list[str]
    chooser: str
    choices: list[Choice]
    columns: Sequence[str]
    caption: str
    lead: str


def viewer(
    identity: Identity, rows: Sequence[Row], texts: Texts, room: int, headline_budget: float | None = None
) -> Viewer:
    """Prepare the cases of a group.

    Args:
        identity: the group.
        rows: all its rows.
        texts: where to look for texts.
        room: characters its packed cases may take; cases that come later in the order are left out.
        headline_budget: the budget to show first; None for the smallest.
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
    budgets = sorted({row.budget for row in rows if row.budget is not None})
    first = headline_budget if headline_budget is not None else next(iter(budgets), None)
    return Viewer(
        cases=shown,
        budgets=budgets,
        methods=embedded([_method(*item) for item in enumerate(names)]),
        notes=text_notes(sources, len(by_case) - len(shown), identity.cohort_digest, "cases"),
        chooser="Budget",
        choices=[Choice(budget, budget_label(budget), budget == first) for budget in budgets],
        columns=_COLUMNS,
        caption=_CAPTION,
        lead="Every arm's answer to one case, and the positions it recomputed.",
    )


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


def text_notes(sources: Counter[str], omitted: int, cohort_digest: str, table: str) -> list[str]:
    """Say where texts come from (cases by source; `table` may hold them) and how many cases had no room."""
    notes = []
    if sources["cases"]:
        notes.append(f"Texts come from the table {table}, where a run stored them.")
    if sources["cohort file"]:
        notes.append(
            f"Texts come from cohorts/{cohort_digest}.json in the results folder; no run stored them in the table "
            f"{table}. This page now holds them too: mind that before you pass it on."
        )
    if sources["none"]:
        notes.append(
            f"{plural(sources['none'], 'case')} without a text in the table {table} or in a readable cohort file "
            "of the results folder: positions are shown without it."
        )
    if omitted:
        notes.append(f"{plural(omitted, 'further case')} left out to keep this page small; all are open to SQL.")
    return notes
