"""Structural: delimiters downstream of the edit (edit paper, Table 1)."""

import re

import numpy as np

from cachemend.repair_core.allocators.base import Signal
from cachemend.repair_core.context import StaleContext
from cachemend.repair_core.drawing import draw
from cachemend.repair_core.policies.base import Choice, Policy, register

# Tokens that are punctuation only, or the marker of a list item or table row.
_DELIMITER = re.compile(r"[.,;:|!?)\]}]+|[-*+•|]|[0-9]+[.)]")


def is_delimiter(text: str) -> bool:
    """Whether a token's text holds a line break, or is a delimiter or a list or row marker between white space."""
    return "\n" in text or _DELIMITER.fullmatch(text.strip()) is not None


@register
class Structural(Policy):
    """The first K delimiters; where there are fewer, positions drawn by the case id fill up."""

    name = "structural"
    signals = (Signal.TEXT,)

    def select(self, context: StaleContext, k: int) -> Choice:
        text, spans = context.edited_text
        marks = np.array([is_delimiter(text[slice(*spans[i])]) for i in context.pool], dtype=bool)
        own, others = np.flatnonzero(marks)[:k], np.flatnonzero(~marks)
        missing = k - own.size
        more = sorted(others.tolist(), key=lambda i: draw(context.case_id, "top-up", i))[:missing]
        return Choice(context.pool[[*own.tolist(), *more]], missing)
