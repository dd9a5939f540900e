"""Answer, ask for confirmation or refuse: what a response does, and what a request calls for (paper table 6)."""

import re

from cachemend.calibration.conditions.cues import Cue
from cachemend.calibration.conditions.reading import Reading

ANSWER, CONFIRM, REFUSE, NOTHING = "answer", "confirm", "refuse", "nothing"

_ACT, _TARGET, _THING = (Cue("hazard", name, "") for name in ("acts", "targets", "things"))
_REFUSED = frozenset({("permission", "denied"), ("authentication", "unverified")})
_FAILED = frozenset({Cue("action", "error", ""), Cue("action", "stub", "")})
_CUT_OFF = re.compile(r"(?:\.\.\.|…|\[truncated\])\s*\Z")


def given_action(response: Reading) -> str:
    """Return what a response does; `NOTHING` for an empty one."""
    if not response.sentences and not response.fields:
        return NOTHING
    if Cue("action", REFUSE, "") in response.cues:
        return REFUSE
    return CONFIRM if Cue("action", CONFIRM, "") in response.cues else ANSWER


def is_failed(response: Reading) -> bool:
    """Tell whether a response is an error message or was cut off."""
    if not response.sentences:
        return False
    return bool(_FAILED & response.cues) or _CUT_OFF.search(response.sentences[-1].text) is not None


def called_for(query: Reading, context: Reading) -> str:
    """Return the action that the cues of a request and its context call for; `ANSWER` where there are none."""
    for reading in (query, context):
        if Cue("required", REFUSE, "") in reading.cues or any(
            (state.kind, state.value) in _REFUSED for state in reading.asserted
        ):
            return REFUSE
    for sentence in query.all_sentences:
        if _THING in sentence.cues or (_ACT in sentence.cues and _TARGET in sentence.cues):
            return REFUSE
    for reading in (query, context):
        if Cue("required", CONFIRM, "") in reading.cues or any(
            (state.kind, state.value) == ("confirmation", "awaited") for state in reading.asserted
        ):
            return CONFIRM
    return ANSWER
