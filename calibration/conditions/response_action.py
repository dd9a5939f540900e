"""Answer, ask for confirmation or refuse: what a response does, and what a request calls for (paper table 6)."""

import re

from cachemend.calibration.conditions.cues import Cue
from cachemend.calibration.conditions.reading import Reading

ANSWER, CONFIRM, REFUSE, NOTHING = "answer", "confirm", "refuse", "nothing"

_ACT, _TARGET, _THING = (Cue("hazard", name, "") for name in ("acts", "targets", "things"))
_TO_REFUSE, _TO_CONFIRM = Cue("required", REFUSE, ""), Cue("required", CONFIRM, "")
_REFUSING, _CONFIRMING = Cue("action", REFUSE, ""), Cue("action", CONFIRM, "")
_REFUSED = frozenset({("permission", "denied"), ("authentication", "unverified")})
_FAILED = frozenset({Cue("action", "error", ""), Cue("action", "stub", "")})
_CUT_OFF = re.compile(r"(?:\.\.\.|…|\[truncated\])\s*\Z")


def given_action(response: Reading) -> str:
    """Return what a response does; `NOTHING` for an empty one."""
    if not response.sentences and not response.fields:
        return NOTHING
    if _REFUSING in response.cues:
        return REFUSE
    return CONFIRM if _CONFIRMING in response.cues else ANSWER


def is_failed(response: Reading) -> bool:
    """Tell whether a response is an error message or was cut off."""
    if not response.sentences:
        return False
    return bool(_FAILED & response.cues) or _CUT_OFF.search(response.sentences[-1].text) is not None


def called_for(query: Reading, context: Reading) -> str:
    """Return the action that the cues of a request and its context call for; `ANSWER` where there are none."""
    for reading in (query, context):
        if _TO_REFUSE in reading.cues or not _REFUSED.isdisjoint(reading.asserted):
            return REFUSE
    for sentence in query.all_sentences:
        if _THING in sentence.cues or (_ACT in sentence.cues and _TARGET in sentence.cues):
            return REFUSE
    for reading in (query, context):
        if _TO_CONFIRM in reading.cues or ("confirmation", "awaited") in reading.asserted:
            return CONFIRM
    return ANSWER
