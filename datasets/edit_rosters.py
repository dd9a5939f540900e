"""The named rosters of in-place edits: sizes, lengths, distances and seeds of each, in one place.

Wordings were chosen on the "embedded-dev" seeds, never on reported ones. The "paper" rosters have the edit paper's
sizes; give them its background, a file of HotpotQA paragraphs, as `background`.
"""

from dataclasses import replace

from cachemend.datasets.edit_families import FAMILIES
from cachemend.datasets.edit_spec import EditRoster, EditSequenceRoster

_ALL = tuple(FAMILIES.values())

EMBEDDED = EditRoster(
    name="embedded",
    split="held-out",
    n_tokens=2100,
    families=_ALL,
    distances=(0, 64, 192),
    n_items=40,
    n_others=14,
    n_candidates=16,
    expand_by=4,
    max_candidates=80,
    first_seed=12_000_000,
)
EMBEDDED_DEV = replace(
    EMBEDDED,
    name="embedded-dev",
    split="dev",
    n_items=18,
    n_others=10,
    n_candidates=10,
    max_candidates=18,
    first_seed=11_000_000,
)
EMBEDDED_SEVERITY = replace(
    EMBEDDED,
    name="embedded-severity",
    distances=(0,),
    n_items=60,
    n_others=60,
    n_candidates=60,
    max_candidates=60,
    first_seed=13_000_000,
)

PAPER = EditRoster(
    name="paper",
    split="held-out",
    n_tokens=5000,
    families=_ALL,
    conditions=("direct", "derived"),
    n_items=75,
    n_candidates=80,
    expand_by=40,
    max_candidates=240,
    first_seed=22_000_000,
    style="chat",
)
PAPER_DEV = replace(
    PAPER, name="paper-dev", split="dev", n_items=100, n_candidates=100, max_candidates=100, first_seed=21_000_000
)
# 366 items at three distances: as many cases, within one, as the distance-controlled variant of the edit paper.
PAPER_DISTANCE = replace(
    PAPER,
    name="paper-distance",
    conditions=("derived",),
    distances=(0, 250, 1500),
    n_items=366,
    n_candidates=366,
    expand_by=1,
    max_candidates=366,
    first_seed=23_000_000,
)
PAPER_SEVERITY = replace(
    PAPER,
    name="paper-severity",
    conditions=("direct", "derived", "irrelevant"),
    n_items=175,
    n_candidates=175,
    max_candidates=175,
    first_seed=24_000_000,
)

EDIT_ROSTERS: dict[str, EditRoster] = {
    roster.name: roster
    for roster in (EMBEDDED, EMBEDDED_DEV, EMBEDDED_SEVERITY, PAPER, PAPER_DEV, PAPER_DISTANCE, PAPER_SEVERITY)
}

EMBEDDED_SEQUENCES = EditSequenceRoster(
    name="embedded-sequences",
    split="held-out",
    n_tokens=2100,
    families=_ALL,
    cases_per_size=8,
    first_seed=32_000_000,
)
EMBEDDED_SEQUENCES_DEV = replace(
    EMBEDDED_SEQUENCES, name="embedded-sequences-dev", split="dev", cases_per_size=2, first_seed=31_000_000
)
PAPER_SEQUENCES = replace(
    EMBEDDED_SEQUENCES,
    name="paper-sequences",
    n_tokens=5000,
    cases_per_size=25,
    first_seed=33_000_000,
    style="chat",
)

EDIT_SEQUENCE_ROSTERS: dict[str, EditSequenceRoster] = {
    roster.name: roster for roster in (EMBEDDED_SEQUENCES, EMBEDDED_SEQUENCES_DEV, PAPER_SEQUENCES)
}
