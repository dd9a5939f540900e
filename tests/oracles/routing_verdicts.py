"""The verifier's words and its budget, paper "Beyond Query Similarity", section 3.4 and appendices D and H."""

import json
import math
from collections.abc import Sequence
from fractions import Fraction

from oracles.routing_bounds import Number, exact

INSTRUCTION = (
    "Judge whether r_cache remains valid, safe, and useful for q_probe under context_probe, considering q_cache and "
    "context_cache. Output exactly one token: VALID, INVALID, or UNCERTAIN."
)
FIELDS = ("q_cache", "r_cache", "context_cache", "q_probe", "context_probe")


def accepts(output: object) -> bool:
    """Tell whether the output returns the cached response: only the text VALID does, with nothing around it."""
    return isinstance(output, str) and output == "VALID"


def reading(output: object) -> str:
    """Return the verdict's name, "malformed" for any other text, "failure" for what is no text."""
    if not isinstance(output, str):
        return "failure"
    return output if output in ("VALID", "INVALID", "UNCERTAIN") else "malformed"


def is_message(text: str, values: dict[str, str]) -> bool:
    """Tell whether the text is compact JSON of the five fields in their fixed order, none of them changed."""
    wanted = {name: values[name] for name in FIELDS}
    return text in [json.dumps(wanted, separators=(",", ":"), ensure_ascii=plain) for plain in (True, False)]


def agreement(true_accept: int, true_reject: int, false_accept: int, false_reject: int) -> Fraction:
    """Return the share of calls whose verdict is the label's."""
    return Fraction(true_accept + true_reject, true_accept + true_reject + false_accept + false_reject)


def window_grants(wants: Sequence[bool], budget: Number, window: int | None = None) -> list[bool]:
    """Tell who is called: at most floor(B N_W) in each run of `window` candidates, the last as long as it is."""
    size = window or max(1, len(wants))
    granted = []
    for at in range(0, len(wants), size):
        part = wants[at : at + size]
        left = math.floor(exact(budget) * len(part))
        for want in part:
            granted.append(want and left > 0)
            left -= want and left > 0
    return granted


def bucket_grants(wants: Sequence[bool], budget: Number, capacity: Number, start: Number = 0) -> list[bool]:
    """Tell who is called when each candidate first adds B tokens, up to the capacity, and a call costs one."""
    level, granted = exact(start), []
    for want in wants:
        level = min(exact(capacity), level + exact(budget))
        granted.append(want and level >= 1)
        level -= want and level >= 1
    return granted
