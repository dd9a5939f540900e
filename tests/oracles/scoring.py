"""Answer parsing and exact scores of the controlled NIAH task, section 7.5.

Marked thinking blocks go, then everything before the last explicit answer or channel marker; the digit
runs of what remains are the answer: no deduplication, no stop at a newline, no look at the gold list.
"""

import re
from collections.abc import Sequence

OPEN, CLOSE = "<think>", "</think>"
MARKERS = (
    re.compile(re.escape("<|channel|>final<|message|>")),
    re.compile(re.escape("<answer>")),
    re.compile(r"^[ \t]*(?:final[ \t]+)?answer[ \t]*:", re.IGNORECASE | re.MULTILINE),
)


def parse_niah(answer: str) -> list[str]:
    """Return the answer's ASCII digit runs in order. An unclosed thinking block means an empty answer.

    A closing tag without an opening one ends a block that the prompt opened: what stands before it goes too.
    """
    kept, depth, at = "", 0, 0
    while at < len(answer):
        if answer.startswith(OPEN, at):
            depth, at = depth + 1, at + len(OPEN)
        elif answer.startswith(CLOSE, at):
            kept = kept + "\n" if depth else ""  # a newline, so that digits on both sides of a block stay apart
            depth, at = max(0, depth - 1), at + len(CLOSE)
        else:
            kept, at = kept + (answer[at] if depth == 0 else ""), at + 1
    if depth:
        return []
    ends = [match.end() for marker in MARKERS for match in marker.finditer(kept)]
    return re.findall(r"[0-9]+", kept[max(ends, default=0) :])


def list_exact(parsed: Sequence[str], gold: Sequence[str]) -> bool:
    """Tell whether the emitted list equals the gold list, in order and multiplicity, as strings."""
    return list(parsed) == list(gold)


def first_value_exact(parsed: Sequence[str], gold: Sequence[str]) -> bool:
    """Tell whether the first emitted value equals the first gold value; later values do not matter."""
    return len(parsed) > 0 and len(gold) > 0 and parsed[0] == gold[0]
