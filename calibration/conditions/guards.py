"""Explicit contradictions between a cached answer and a request: one table of rules (paper equations 2 and 10)."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from cachemend.calibration.candidate import Candidate
from cachemend.calibration.conditions import (
    guards_dialogue,
    guards_form,
    guards_inputs,
    guards_quantities,
    guards_records,
    guards_response,
    guards_setting,
    guards_wording,
)
from cachemend.calibration.conditions.evidence import Clashes, Evidence, compare
from cachemend.calibration.conditions.extracting import Condition, read_side
from cachemend.calibration.conditions.lexicon import Lexicon, load_lexicon

LEVELS = ("rule", "ctx", "own")


class Rule(NamedTuple):
    """A guard.

    Attributes:
        level: one of `LEVELS`.
        name: what it is called in explanations and tables.
        find: finds what clashes.
        of_queries: whether it compares the two requests and nothing else, so that equal ones need no look.
    """

    level: str
    name: str
    find: Callable[[Evidence], Clashes]
    of_queries: bool = False


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
    Rule("own", "other number", guards_quantities.other_number, of_queries=True),
    Rule("own", "other operator", guards_quantities.other_operator, of_queries=True),
    Rule("own", "swapped roles", guards_wording.swapped_roles, of_queries=True),
    Rule("own", "replaced words", guards_wording.replaced_words),
    Rule("own", "other request", guards_wording.other_request, of_queries=True),
    Rule("own", "stated fact", guards_wording.stated_fact),
    Rule("own", "other name", guards_form.other_name, of_queries=True),
    Rule("own", "other form", guards_form.other_form, of_queries=True),
    Rule("own", "cut off", guards_form.cut_off),
    Rule("own", "too long", guards_form.too_long),
    Rule("own", "emptied", guards_dialogue.emptied, of_queries=True),
    Rule("own", "tool answer gone", guards_dialogue.tool_answer_gone),
    Rule("own", "other history", guards_dialogue.other_history),
    Rule("own", "other turn", guards_dialogue.other_turn),
    Rule("own", "other correction", guards_dialogue.other_correction),
    Rule("own", "taken back", guards_dialogue.taken_back, of_queries=True),
    Rule("own", "unfinished", guards_response.unfinished),
    Rule("own", "error message", guards_response.error_message),
    Rule("own", "nothing asked", guards_response.nothing_asked),
    Rule("own", "other persona", guards_setting.other_persona),
    Rule("own", "other attachment", guards_setting.other_attachment),
    Rule("own", "other model", guards_setting.other_model),
)


_RULES = tuple(rule[:3] for rule in RULES)
_RULES_BESIDES = tuple(rule[:3] for rule in RULES if not rule.of_queries)


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
    for level, name, find in _RULES_BESIDES if evidence.cache.query is evidence.request.query else _RULES:
        for found in find(evidence):
            fired.append(Fired(level, name, *found))
    levels = {found.level for found in fired}
    return Conflicts("rule" in levels, "ctx" in levels, "own" in levels, tuple(fired))
