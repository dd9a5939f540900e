"""What the guards decide on every kind of change of the seed set, as far as it is claimed; and what they do not see."""

import hashlib
from collections.abc import Sequence

import numpy as np
import pytest

from cachemend.calibration.conditions import EXTRACTOR_VERSION, CandidateSignals, candidate_signals, load_lexicon
from cachemend.datasets.pair import Pair
from cachemend.datasets.pairs_seed import build_seed
from cachemend.datasets.seed_kinds import Change, Wording

from support.guard_table import GuardRow, guard_rows, guard_table

# Of the pairs of each kind, at least so many are stopped by the paper's H, and by it or a guard of ours.
AT_LEAST = {
    Change.ACCESS_GRANTED: (2, 2),
    Change.ACCESS_REVOKED: (2, 2),
    Change.AFTER_TOOL_RESULT: (4, 4),
    Change.BEFORE_TOOL_RESULT: (0, 4),
    Change.BOILERPLATE: (0, 4),
    Change.CACHED_ERROR: (2, 2),
    Change.CHANGED_FORMAT: (0, 3),
    Change.CHANGED_NUMBER: (0, 4),
    Change.CHANGED_REFERENT: (0, 4),
    Change.CHANGED_ROLE: (4, 4),
    Change.CHANGED_SUBJECT: (0, 5),
    Change.CORRECTED_SLOT: (1, 2),
    Change.EARLIER_TIME_WINDOW: (7, 7),
    Change.EMPTY_REQUEST: (0, 4),
    Change.HISTORY_PRESENT: (0, 3),
    Change.LATER_TIME_WINDOW: (8, 8),
    Change.MISSING_HISTORY: (0, 3),
    Change.NEGATED_REQUEST: (0, 7),
    Change.NEWER_DOCUMENT: (6, 6),
    Change.NO_LONGER_EMPTY: (0, 4),
    Change.NOW_FAILING: (0, 2),
    Change.OLDER_DOCUMENT: (5, 5),
    Change.OTHER_ATTACHMENT: (8, 8),
    Change.OTHER_EMBEDDING_MODEL: (4, 4),
    Change.OTHER_GROUND: (2, 2),
    Change.OTHER_PRINCIPAL: (11, 11),
    Change.REDACTION_LIFTED: (4, 4),
    Change.REDACTION_REQUIRED: (4, 4),
    Change.REFUSAL_DUE: (8, 8),
    Change.REFUSAL_NO_LONGER_DUE: (8, 8),
    Change.SWAPPED_ROLES: (0, 4),
    Change.TIGHTER_LIMIT: (0, 3),
    Change.TOOLS_ALLOWED: (3, 3),
    Change.TOOLS_FORBIDDEN: (4, 4),
    Change.TRUNCATED_STUB: (0, 3),
    Change.WRITE_ALLOWED: (6, 6),
    Change.WRITE_REFUSED: (6, 6),
}
# Who reads the answer stands in a field of the context that no list names: no rule fires on it.
NOT_SEEN = {Change.CHANGED_PERSONA}
# Of the valid pairs of each wording, at most so many are stopped by the paper's H, and by a guard of ours. Most of the
# former are other users, days, files and teams that do not matter to the answer: differences the paper's rules count.
AT_MOST = {
    Wording.IDENTICAL: (0, 0),
    Wording.OTHER_BLANKS: (0, 0),
    Wording.REWORDED: (0, 0),
    Wording.OTHER_CONTEXT: (21, 0),
    Wording.REWORDED_ELSEWHERE: (26, 2),
    Wording.SHORTER: (7, 1),
}


@pytest.fixture(scope="module")
def pairs() -> Sequence[Pair]:
    return sorted(build_seed().pairs, key=lambda pair: pair.pair_id)


@pytest.fixture(scope="module")
def signals(pairs: Sequence[Pair]) -> CandidateSignals:
    return candidate_signals([pair.candidate for pair in pairs])


@pytest.fixture(scope="module")
def rows(pairs: Sequence[Pair], signals: CandidateSignals) -> dict[str, GuardRow]:
    return {row.kind: row for row in guard_rows(pairs, signals)}


def test_invalid_kinds_are_stopped(rows: dict[str, GuardRow]) -> None:
    assert set(AT_LEAST) | NOT_SEEN == {row.kind for row in rows.values() if not row.valid}
    short = {
        kind: row for kind, least in AT_LEAST.items() if (row := rows[kind]).paper < least[0] or row.either < least[1]
    }
    assert not short


def test_valid_kinds_are_let_through(rows: dict[str, GuardRow]) -> None:
    assert set(AT_MOST) == {row.kind for row in rows.values() if row.valid}
    over = {kind: row for kind, most in AT_MOST.items() if (row := rows[kind]).paper > most[0] or row.own > most[1]}
    assert not over


def test_rows_count_what_the_signals_say(
    rows: dict[str, GuardRow], pairs: Sequence[Pair], signals: CandidateSignals
) -> None:
    paper, own = signals.h_rule | signals.h_ctx, signals.h_own
    assert sum(row.n for row in rows.values()) == len(pairs)
    assert sum(row.paper for row in rows.values()) == paper.sum()
    assert sum(row.either for row in rows.values()) == (paper | own).sum()
    assert sum(row.own for row in rows.values() if row.valid) == sum(
        bool(flag) for pair, flag in zip(pairs, own, strict=True) if pair.label
    )
    lines = guard_table(list(rows.values())).splitlines()
    assert lines[-1].split() == ["all", "valid", "180", *map(str, np.sum([r[3:] for r in rows.values() if r.valid], 0))]


def test_other_signals_are_another_version(signals: CandidateSignals) -> None:
    numbers = np.column_stack([signals.d_match, signals.u_match]).round(9) + 0.0
    flags = np.column_stack([signals.h_rule, signals.h_ctx, signals.h_own, signals.n_cache, signals.n_request])
    found = hashlib.sha256(numbers.tobytes() + flags.astype(np.int64).tobytes()).hexdigest()[:16]
    # A change here asks for a higher EXTRACTOR_VERSION (or another lexicon version, if the words changed) and a higher
    # ENGINE_VERSION of the routing records; then for the new value.
    assert (load_lexicon().version, EXTRACTOR_VERSION, found) == ("3", 3, "523512d4356643f1")
