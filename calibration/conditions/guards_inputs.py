"""Contradictions between the texts themselves: the rules behind ``H_ctx`` (paper section 3.3 and appendix B).

They read both requests and both contexts, never the response, and catch what records may have lost.
"""

from collections.abc import Mapping

from cachemend.calibration.conditions.evidence import Clash, Clashes, Evidence, clash
from cachemend.calibration.conditions.reading import Reading, Values
from cachemend.calibration.conditions.typed_values import agree

_AUTHORISATION = frozenset({"permission", "authentication"})
_OUTCOME = frozenset({"outcome"})
_OTHERS = _AUTHORISATION | _OUTCOME
_TOOL_SPEAKERS = frozenset({"tool", "function"})
_TOOL_TURN = frozenset({"tool_result", "tool_output", "observation", "tool_response", "result", "results"})
_NONE: Values = frozenset()


def state_flip(evidence: Evidence) -> Clashes:
    """A kind of state with other values than before, whatever it is the state of."""
    return [
        flip
        for before, now in evidence.layers
        if before is not now and before.states and now.states
        for flip in _flips(before.states, now.states, before.states.keys() - _OTHERS)
    ]


def _flips(before: Mapping[str, Values], now: Mapping[str, Values], names: frozenset[str] | set[str]) -> list[Clash]:
    """Return the values of the given names that both sides have and that share nothing."""
    if not before or not now:
        return []
    return [
        clash(before[name], now[name])
        for name in sorted(names & before.keys() & now.keys())
        if not before[name] & now[name]
    ]


def correction(evidence: Evidence) -> Clashes:
    """The request takes something back ("no, I meant ..."), and the cached one does not."""
    before, now = (
        {
            cue.name
            for reading in (side.query, side.context)
            if "correction" in reading.cue_kinds
            for cue in reading.cues
            if cue.kind == "correction"
        }
        for side in (evidence.cache, evidence.request)
    )
    return [clash(before, now)] if now and not before else []


def other_date(evidence: Evidence) -> Clashes:
    """Dates or times of which none of one side can be one of the other: of the requests, then of everything."""
    (query, new_query), (context, new_context) = evidence.layers
    if not (query.typed or context.typed) or not (new_query.typed or new_context.typed):
        return []
    found = []
    for kind in ("date", "clock"):
        ours, theirs = _times(query, kind), _times(new_query, kind)
        old, new = _times(context, kind), _times(new_context, kind)
        if not (ours or old) or not (theirs or new):
            continue
        for before, now in ((ours, theirs), (old, new), (ours | old, theirs | new)):
            if before and now and not any(agree(kind, a, b) for a in before for b in now):
                found.append(clash(before, now))
    return list(dict.fromkeys(found))


def _times(reading: Reading, kind: str) -> Values:
    found = reading.typed.get(kind, _NONE)
    return found | reading.typed.get("as-of", _NONE) if kind == "date" else found


def other_authorisation(evidence: Evidence) -> Clashes:
    """What is permitted differs, or who acts: another user, tenant or role."""
    return [
        flip
        for before, now in evidence.layers
        if before is not now
        for flip in (
            *_flips(before.states, now.states, _AUTHORISATION),
            *_flips(before.principals, now.principals, set(before.principals)),
        )
    ]


def other_outcome(evidence: Evidence) -> Clashes:
    """A tool's outcome differs, or a tool has answered since."""
    found = [
        flip
        for before, now in evidence.layers
        if before is not now
        for flip in _flips(before.states, now.states, _OUTCOME)
    ]
    before, now = (tool_turns(side.context) for side in (evidence.cache, evidence.request))
    if now and not before:
        found.append(clash(before, now))
    return found


def tool_turns(context: Reading) -> Values:
    """Return the keys of a context under which a tool's answer stands; after "tool" it is more than the tool's name."""
    found = _TOOL_TURN & context.keys
    if _TOOL_SPEAKERS.isdisjoint(context.keys):
        return found
    return found | {f.field.path[-1] for f in context.fields if f.sentence and f.field.path[-1] in _TOOL_SPEAKERS}
