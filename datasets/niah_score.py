"""Reading an Erasing-NIAH answer and scoring it (paper section 7.5); gold values never guide the reading."""

import re
from collections.abc import Callable, Collection, Sequence

from cachemend.repair_core.errors import InputError, nearest

_THINKING = re.compile(r"<(/?)(?:think|thinking|thought|reasoning)>|\[(/?)THINK\]", re.IGNORECASE)
_MARKER = re.compile(
    r"<\|channel\|>final<\|message\|>|<answer>|^[ \t]*(?:final[ \t]+)?answer[ \t]*:",
    re.IGNORECASE | re.MULTILINE,
)
_DIGITS = re.compile(r"[0-9]+")
_LIST_NUMBER = re.compile(r"(?<![0-9])[0-9]{1,2}[.)](?=\s)")


def visible_ids(answer_ids: Sequence[int], end_ids: Collection[int]) -> tuple[int, ...]:
    """Return the generated ids before the first end-of-turn id.

    Generation runs to its full length; what follows the end of the turn is not part of the answer.
    """
    end = next((i for i, token in enumerate(answer_ids) if token in end_ids), len(answer_ids))
    return tuple(answer_ids[:end])


def _without_thinking(text: str) -> str:
    """Cut thinking blocks, nested ones too; "" for an unclosed one.

    A closing tag alone ends a block that the prompt opened, so everything before it goes.
    """
    kept, depth, at = "", 0, 0
    for tag in _THINKING.finditer(text):
        if depth == 0:
            kept += text[at : tag.start()]
        if tag[1] or tag[2]:
            kept = f"{kept}\n" if depth else ""  # a newline keeps digits on both sides of a block apart
            depth = max(0, depth - 1)
        else:
            depth += 1
        at = tag.end()
    return "" if depth else kept + text[at:]


def visible_answer(answer_text: str) -> str:
    """Return the part of an answer that is read: no thinking, nothing before an explicit answer marker.

    Thinking blocks are removed; one that is never closed leaves no answer at all. Of several markers the last
    one counts. Decode with special tokens kept, or the channel markers are lost before this sees them.
    """
    text = _without_thinking(answer_text)
    markers = list(_MARKER.finditer(text))
    return text[markers[-1].end() :] if markers else text


def parse_values(answer_text: str) -> list[str]:
    """Return every run of digits of the visible answer, in order and with multiplicity."""
    return _DIGITS.findall(visible_answer(answer_text))


def _whole_list(answer_text: str) -> list[str]:
    return parse_values(answer_text)


def _first_value(answer_text: str) -> list[str]:
    """At most one value: the first listed. "1." and "2)" number the items of a list and are not values."""
    return _DIGITS.findall(_LIST_NUMBER.sub(" ", visible_answer(answer_text)))[:1]


SCORE_RULES: dict[str, Callable[[str], list[str]]] = {
    "niah-list-v1": _whole_list,
    "niah-first-value-v1": _first_value,
}
"""What each rule reads from an answer; the score is equality with as much of the gold list as it reads.

``niah-list-v1`` is the paper's: the whole list. ``niah-first-value-v1`` is for very small models, which
recall a value and then repeat list items.
"""


def read_values(answer_text: str, rule: str) -> list[str]:
    """Return the values a score rule reads from an answer.

    Raises:
        InputError: an unknown rule.
    """
    if rule not in SCORE_RULES:
        raise InputError(f"score rule {rule!r} is unknown; {nearest(rule, SCORE_RULES)}")
    return SCORE_RULES[rule](answer_text)


def exact_match(answer_text: str, gold: Sequence[str], rule: str) -> float:
    """Return 1.0 when the values read equal the gold list in order and multiplicity, else 0.0.

    Under ``niah-first-value-v1`` the first value read must equal the first gold value.
    """
    wanted = list(gold[:1]) if rule == "niah-first-value-v1" else list(gold)
    return float(read_values(answer_text, rule) == wanted)
