"""A record family whose words have equal lengths under every tokenizer of the tests, and small rosters of it."""

from dataclasses import replace
from typing import Any

from cachemend.datasets.edit_family import Family
from cachemend.datasets.edit_spec import EditRoster, EditSequenceRoster

# Digits alone: three-digit aliases, four-digit values and two-digit notes of digits that do not mix.
DIGITS = Family(
    name="digits",
    direct="Log of {subject}. Lane {note}. The gauge shows {value}.",
    derived="Log of {subject}. Lane {note}. The active gauge is {alias}.",
    carrier="Gauge {alias_1} shows {value_1}. Gauge {alias_2} shows {value_2}.",
    irrelevant="Log of {subject}. Lane {note}. The active gauge is {alias}.",
    question="What does the gauge of {subject} show?",
    closing="\nAnswer: it shows",
    chat_closing="It shows",
    subjects=("Zub", "Qam", "Vop", "Xel", "Jid", "Wug", "Kef", "Yib"),
    aliases=("101", "110", "112", "121", "201", "210", "220", "202", "122", "211"),
    values=("5678", "6587", "7856", "8765", "9678", "6795", "7569", "8957", "9586", "5897"),
    notes=("33", "34", "43", "44"),
)
SECOND = replace(DIGITS, name="second", subjects=("Bix", "Cog", "Hud", "Nep", "Rav", "Tem"), row_order="new-first")

ROSTER = EditRoster(
    name="small",
    split="dev",
    n_tokens=900,
    families=(DIGITS, SECOND),
    distances=(0, 64, 192),
    n_items=2,
    n_candidates=2,
    expand_by=1,
    max_candidates=4,
    first_seed=7_000,
)
SEQUENCES = EditSequenceRoster(
    name="small-sequences",
    split="held-out",
    n_tokens=1200,
    families=(DIGITS, SECOND),
    records=(2, 4),
    cases_per_size=2,
    first_seed=8_000,
)


def small(**changes: Any) -> EditRoster:
    """The small roster with some fields changed; `items` sets all sizes at once."""
    if items := changes.pop("items", None):
        changes |= {"n_items": items, "n_candidates": items, "max_candidates": items}
    return replace(ROSTER, **changes)
