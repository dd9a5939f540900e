"""What the guards decide for each kind of pair of the seed set, or of any pairs whose rule names a kind."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from cachemend.calibration.conditions import CandidateSignals
from cachemend.datasets.pair import Pair


class GuardRow(NamedTuple):
    """Pairs of one kind and how many of them the guards stop.

    Attributes:
        kind: the pairs' `rule`.
        valid: whether they are valid, so that a stop is a false one.
        n: pairs.
        paper: stopped by the paper's H.
        own: stopped by a guard of ours.
        either: stopped by one or the other.
    """

    kind: str
    valid: bool
    n: int
    paper: int
    own: int
    either: int


def guard_rows(pairs: Sequence[Pair], signals: CandidateSignals) -> list[GuardRow]:
    """Count stops by kind: invalid kinds first, then valid ones, each in alphabetical order."""
    paper, own = signals.h_rule | signals.h_ctx, signals.h_own
    kinds = sorted({(bool(pair.label), pair.rule) for pair in pairs})
    rows = []
    for valid, kind in kinds:
        at = np.array([(bool(pair.label), pair.rule) == (valid, kind) for pair in pairs])
        counts = (int(flags[at].sum()) for flags in (paper, own, paper | own))
        rows.append(GuardRow(kind, valid, int(at.sum()), *counts))
    return rows


def guard_table(rows: Sequence[GuardRow]) -> str:
    """Return the rows as text with a total of the invalid and of the valid pairs, ready to print."""
    lines = [f"{'kind':<36} {'pairs':>5} {'H':>5} {'own':>5} {'either':>6}"]
    for valid in (False, True):
        part = [row for row in rows if row.valid is valid]
        counts = np.sum([row[2:] for row in part], axis=0, dtype=int).tolist() if part else [0, 0, 0, 0]
        total = GuardRow("all valid" if valid else "all invalid", valid, *counts)
        lines += [f"{row.kind:<36} {row.n:>5} {row.paper:>5} {row.own:>5} {row.either:>6}" for row in (*part, total)]
    return "\n".join(lines)
