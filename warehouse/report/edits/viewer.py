"""The item viewer of a group: the edit paper's Figure 2a for any item."""

from collections import Counter, defaultdict
from collections.abc import Sequence

from cachemend.warehouse.edit_evidence import PRIMARY_K
from cachemend.warehouse.report.case_data import packed
from cachemend.warehouse.report.edits.case_data import edit_case_data
from cachemend.warehouse.report.edits.cells import CellKey
from cachemend.warehouse.report.edits.names import REFERENCES, SUBJECT, k_label, policy_label, policy_mark, policy_order
from cachemend.warehouse.report.edits.rows import EditRow
from cachemend.warehouse.report.figure_frame import embedded
from cachemend.warehouse.report.formats import number
from cachemend.warehouse.report.palette import REFERENCE_COLOR
from cachemend.warehouse.report.rows import Identity
from cachemend.warehouse.report.texts import Texts
from cachemend.warehouse.report.viewer import Choice, Viewer, ViewerCase, text_notes

_SHOWN_AT_FIRST = (SUBJECT, "attention")
_COLUMNS = ("Recomputed positions", "Intervals", "Flip", "MR", "Margin", "TV to clean", "Answer")
_CAPTION = (
    "Positions recomputed besides the edit span, from the first token of the edited context to the last: grey lies "
    "before the edit and stays valid; the pink block is the edit span; a block below marks the text that holds the "
    "answer. Tick up to three policies to see their positions in the text."
)


def edit_viewer(identity: Identity, rows: Sequence[EditRow], texts: Texts, room: int) -> Viewer:
    """Prepare the items of a group; `room` is what they may take, in characters.

    Transplants are left out: their positions are those of the arm that recomputes them.
    """
    rows = [row for row in rows if row.operator != "transplant"]
    names = sorted({row.policy for row in rows}, key=policy_order)
    numbers = {name: index for index, name in enumerate(names)}
    by_case: defaultdict[str, list[EditRow]] = defaultdict(list)
    for row in rows:
        by_case[row.case_digest].append(row)
    shown: list[ViewerCase] = []
    sources: Counter[str] = Counter()
    for own in sorted(by_case.values(), key=_case_order):
        own.sort(key=lambda row: row.arm.order)
        text = texts.of(identity.experiment, identity.cohort_digest, own[0].case_digest)
        data = packed(edit_case_data(own, text, numbers))
        room -= len(data)
        if room < 0:
            break
        sources[text.source or "none"] += 1
        shown.append(ViewerCase(len(shown), _label(own), _key(own[0]).label, data))
    notes = text_notes(sources, len(by_case) - len(shown), identity.cohort_digest, "edit_cases")
    ks = sorted({row.k for row in rows if row.k is not None})
    nearest = min(ks, key=lambda k: abs(k - PRIMARY_K), default=None)
    return Viewer(
        cases=shown,
        budgets=[float(k) for k in ks],
        methods=embedded([_method(name) for name in names]),
        notes=notes,
        chooser="K",
        choices=[Choice(k, k_label(k), k == nearest) for k in ks],
        columns=_COLUMNS,
        caption=_CAPTION,
        lead="Every arm's answer to one item, and the positions it recomputed.",
    )


def _method(name: str) -> dict[str, object]:
    reference = name in REFERENCES
    return {
        "label": policy_label(name),
        "color": REFERENCE_COLOR if reference else policy_mark(name).color,
        "reference": reference,
        "shown": name in _SHOWN_AT_FIRST,
    }


def _label(rows: Sequence[EditRow]) -> str:
    subject = next((row for row in rows if row.policy == SUBJECT and row.k == PRIMARY_K), None)
    if not any(row.retained for row in rows):
        return f"{rows[0].case_id}: not retained"
    if subject is None or subject.margin_recovery is None:
        return rows[0].case_id
    return f"{rows[0].case_id}: {policy_label(SUBJECT)} {number(subject.margin_recovery, 2)}"


def _key(row: EditRow) -> CellKey:
    return CellKey(row.split, row.condition, row.distance)


def _case_order(rows: Sequence[EditRow]) -> tuple[tuple[int, int, int], bool, str]:
    return _key(rows[0]).order, not any(row.retained for row in rows), rows[0].case_id
