"""The checked orderings as CSV beside the page, so that documents can quote what a command wrote."""

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import asdict, fields

from cachemend.warehouse.report.orderings import Ordering
from cachemend.warehouse.report.rows import Identity
from cachemend.warehouse.report.strata import HEADLINE

COLUMNS = (
    *(field.name for field in fields(Identity)),
    "stratum",
    "budget",
    "subject",
    "relation",
    "other",
    "place",
    "paper_above",
    "paper_equal",
    "paper_below",
    "n",
    "n_excluded",
    "subject_right",
    "other_right",
    "repaired",
    "regressed",
    "points",
    "points_low",
    "points_high",
    "p",
    "holm_p",
    "verdict",
)


def orderings_csv(groups: Iterable[tuple[Identity, Sequence[Ordering]]]) -> str:
    """Return one line per ordering of every group below a header; `points` are percentage points, 95 % interval."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for identity, found in groups:
        writer.writerows(asdict(identity) | _line(ordering) for ordering in found)
    return text.getvalue()


def _line(ordering: Ordering) -> dict[str, object]:
    claim, paper, measured, verdict = ordering
    assert measured.difference is not None, "an ordering has common cases"
    return {
        "stratum": HEADLINE,
        "budget": claim.budget,
        "subject": measured.subject.allocator,
        "relation": claim.relation,
        "other": measured.other.allocator,
        "place": claim.place,
        "paper_above": paper.above,
        "paper_equal": paper.equal,
        "paper_below": paper.below,
        "n": measured.n,
        "n_excluded": measured.n_excluded,
        "subject_right": measured.subject_right,
        "other_right": measured.other_right,
        "repaired": measured.repaired,
        "regressed": measured.regressed,
        "points": measured.difference.point,
        "points_low": measured.difference.low,
        "points_high": measured.difference.high,
        "p": measured.p,
        "holm_p": measured.adjusted,
        "verdict": verdict,
    }
