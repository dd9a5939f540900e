"""Contradictions between records: the rules behind ``H_rule`` (paper section 3.3 and appendix B).

Every rule returns the values that clash; none for no contradiction. Records that both sides have never take part.
"""

from collections.abc import Iterable

from cachemend.calibration.conditions.evidence import Clash, Clashes, Evidence, Key, clash
from cachemend.calibration.conditions.extracting import Condition, Texts
from cachemend.calibration.conditions.reading import Values
from cachemend.calibration.conditions.response_action import CONFIRM, REFUSE
from cachemend.calibration.conditions.typed_values import IDENTITY_TYPES, agree

_TYPED_SUBJECTS = IDENTITY_TYPES | {"name"}
_TYPED_RELATIONS = frozenset({"is", "field"})
_SCOPE_RELATIONS = ("scope", "redaction")
_SETTLED = ((CONFIRM, ("confirmation", "given")), (REFUSE, ("permission", "granted")))


def changed_value(evidence: Evidence) -> Clashes:
    """One property of one subject with values that share nothing; dates and times clash unless they can agree."""
    return [
        clash(evidence.lost[key], evidence.gained[key])
        for key in evidence.changed
        if _is_plain(key)
        and not _are_opposite(evidence, key)
        and not any(agree(_type_of(key), a, b) for a in evidence.lost[key] for b in evidence.gained[key])
    ]


def opposite_states(evidence: Evidence) -> Clashes:
    """One subject in a state and in its opposite: enabled and disabled, granted and denied."""
    return [
        clash(evidence.lost[key], evidence.gained[key])
        for key in evidence.changed
        if _is_plain(key) and _are_opposite(evidence, key)
    ]


def _is_plain(key: Key) -> bool:
    """Tell whether no narrower rule speaks for a key."""
    return key[0] not in ("scope", "action") and not _is_typed(key)


def _is_typed(key: Key) -> bool:
    return key[0] == "subject" and key[2] in _TYPED_RELATIONS and key[1] in _TYPED_SUBJECTS


def _type_of(key: Key) -> str:
    """Return the type whose values may agree without being equal, from a record's key."""
    if key[0] not in ("time", "dialogue"):
        return ""
    if key[1] in ("as-of", "date", "clock"):
        return key[1]
    pieces = f"{key[1]}_{key[2]}".replace(".", "_").split("_")
    return "clock" if "time" in pieces else "date" if "date" in pieces else ""


def _are_opposite(evidence: Evidence, key: Key) -> bool:
    opposites = evidence.lexicon.opposites.get(key[2], {})
    return any(opposites.get(value) in evidence.gained[key] for value in evidence.lost[key])


def disjoint_ids(evidence: Evidence) -> Clashes:
    """Two sets of ids of one type with nothing in common. Where the cached request names none, its response's count."""
    found = [
        clash(evidence.lost[key], evidence.gained[key])
        for key in evidence.changed
        if _is_typed(key) and not _same_names(evidence, key)
    ]
    ours, theirs = _ids(evidence.ours), _ids(evidence.theirs)
    said = evidence.cache.response.typed if evidence.cache.response is not None else {}
    for kind in sorted(theirs):
        before = ours.get(kind) or said.get(kind)
        if before and not before & theirs[kind]:
            found.append(clash(before, theirs[kind]))
    return list(dict.fromkeys(found))


def _ids(conditions: Iterable[Condition]) -> dict[str, Values]:
    found: dict[str, Values] = {}
    for category, subject, relation, value in conditions:
        if category == "subject" and relation in _TYPED_RELATIONS and subject in IDENTITY_TYPES:
            found[subject] = found.get(subject, frozenset()) | {value}
    return found


def _same_names(evidence: Evidence, key: Key) -> bool:
    """Tell whether a name of the cached side occurs in the request, if only in part or in another case."""
    if key[1] != "name":
        return False
    words = evidence.request.query.words | evidence.request.context.words
    return any(words.issuperset(name.split()) for name in evidence.lost[key]) or any(
        set(a.split()) & set(b.split()) for a in evidence.lost[key] for b in evidence.gained[key]
    )


def scope_flip(evidence: Evidence) -> Clashes:
    """Public became private or the reverse, of anything the two sides share; redaction became due or not due."""
    if not any(key[0] == "scope" for key in evidence.gained):
        return []
    found = []
    for relation in _SCOPE_RELATIONS:
        ours, theirs = (
            {c.value for c in side if c.category == "scope" and c.relation == relation}
            for side in (evidence.ours, evidence.theirs)
        )
        if ours and theirs and not ours & theirs:
            found.append(clash(ours, theirs))
    return found


def new_restriction(evidence: Evidence) -> Clashes:
    """The request states a denial, a ban or a need for secrecy of a kind that the cached side does not state.

    A denial of the same target on both sides is one record and drops out before.
    """
    found = []
    for key in sorted(evidence.gained):
        restricting = evidence.lexicon.restricting.get((key[0], key[2]))
        if restricting and evidence.gained[key] & restricting:
            ours = {c.value for c in evidence.ours if (c.category, c.relation) == (key[0], key[2])}
            if not ours & restricting:
                found.append(clash(ours, evidence.gained[key] & restricting))
    return list(dict.fromkeys(found))


def other_action(evidence: Evidence) -> Clashes:
    """The new context calls for another action than the old one did, and than the cached response took.

    What was asked to be confirmed is confirmed now, or what was refused is permitted now.
    """
    cache, request = evidence.cache, evidence.request
    if request.required not in (cache.required, cache.given):
        return [Clash(cache.given, request.required)]
    return [
        Clash(cache.given, " ".join(state))
        for action, state in _SETTLED
        if cache.given == action and _asserts(request, state) and not _asserts(cache, state)
    ]


def _asserts(side: Texts, state: tuple[str, str]) -> bool:
    return state in side.query.asserted or state in side.context.asserted
