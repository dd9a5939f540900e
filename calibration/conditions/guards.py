"""Explicit contradictions between a cached answer and a request: one table of rules (paper equations 2 and 10)."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from cachemend.calibration.candidate import Candidate
from cachemend.calibration.conditions import guards_inputs, guards_records, guards_wording
from cachemend.calibration.conditions.evidence import Clashes, Evidence, compare
from cachemend.calibration.conditions.extracting import Condition, read_side
from cachemend.calibration.conditions.lexicon import Lexicon, load_lexicon

LEVELS = ("rule", "ctx", "own")


class Rule(NamedTuple):
    """A guard: its level (one of `LEVELS`), its name, and the function that finds what clashes."""

    level: str
    name: str
    find: Callable[[Evidence], Clashes]


RULES = (
    Rule("rule", "changed value", guards_records.changed_value),
    Rule("rule", "opposite states", guards_records.opposite_states),
    Rule("rule", "disjoint ids", guards_records.disjoint_ids),
    Rule("rule", "scope flip", guards_records.scope_flip),
    Rule("rule", "new restriction", guards_records.new_restriction),
    Rule("rule", "other action", guards_records.other_action),
    Rule("ctx", "state flip", guards_inputs.state_flip),
    Rule("ctx", "correction", guards_inputs.correction),
    Rule("ctx", "other date", guards_inputs.other_date),
    Rule("ctx", "other authorisation", guards_inputs.other_authorisation),
    Rule("ctx", "other outcome", guards_inputs.other_outcome),
    Rule("own", "negation", guards_wording.negation),
    Rule("own", "other number", guards_wording.other_number),
    Rule("own", "swapped roles", guards_wording.swapped_roles),
    Rule("own", "replaced words", guards_wording.replaced_words),
    Rule("own", "other request", guards_wording.other_request),
    Rule("own", "stated fact", guards_wording.stated_fact),
)


class Fired(NamedTuple):
    """A rule that found a contradiction, and the values that clash ("" for what one side lacks)."""

    level: str
    rule: str
    cache_value: str
    request_value: str


class Conflicts(NamedTuple):
    """Contradictions of one candidate.

    Attributes:
        h_rule: whether records contradict each other.
        h_ctx: whether the texts do. The paper's ``H`` is `h_rule` or `h_ctx`.
        h_own: whether one of our further rules found something.
        fired: every contradiction found, in the order of `RULES`.
    """

    h_rule: bool
    h_ctx: bool
    h_own: bool
    fired: tuple[Fired, ...]


def detect_conflicts(
    candidate: Candidate,
    cache_conditions: Sequence[Condition],
    request_conditions: Sequence[Condition],
    *,
    lexicon: Lexicon | None = None,
) -> Conflicts:
    """Look for explicit contradictions.

    Args:
        candidate: the texts.
        cache_conditions: the cached answer's conditions, as `extract_conditions` finds them.
        request_conditions: the request's.
        lexicon: the words to go by, the same as at extraction; None for the packaged ones.
    """
    words = lexicon or load_lexicon()
    cache = read_side(candidate.q_cache, candidate.context_cache, candidate.r_cache, lexicon=words)
    request = read_side(candidate.q_probe, candidate.context_probe, lexicon=words)
    return conflicts_of(compare(cache, request, cache_conditions, request_conditions, words))


def conflicts_of(evidence: Evidence) -> Conflicts:
    """Apply all rules."""
    fired = []
    for level, name, find in RULES:
        for found in find(evidence):
            fired.append(Fired(level, name, *found))
    levels = {found.level for found in fired}
    return Conflicts("rule" in levels, "ctx" in levels, "own" in levels, tuple(fired))
