"""A text rule for where an edit is used: the first unit behind it that names what was written."""

import re

from cachemend.repair_core.context import StaleContext
from cachemend.repair_core.intervals import Interval
from cachemend.repair_core.replacement import changed_span


def edited_words(context: StaleContext) -> str:
    """Return the text of the edit's new tokens, stripped, extended to whole words where tokens are parts of words."""
    text, spans = context.edited_text
    first, stop = changed_span(context.deletion)
    if first == stop:
        return ""
    start, end = spans[first].start, spans[stop - 1].stop
    while start < end and text[start].isspace():
        start += 1
    while start < end and text[end - 1].isspace():
        end -= 1
    while 0 < start < end and _inside_word(text, start):
        start -= 1
    while start < end < len(text) and _inside_word(text, end):
        end += 1
    return text[start:end]


def naming_unit(context: StaleContext) -> Interval | None:
    """Return the positions of the first semantic unit behind the span that names the edited words, None if none does.

    Case does not matter; the words must stand at word boundaries, with any white space between them.
    """
    words = edited_words(context).split()
    if not words:
        return None
    named = re.compile(r"(?<!\w)" + r"\s+".join(map(re.escape, words)) + r"(?!\w)", re.IGNORECASE)
    where = context.deletion.suffix_positions
    for unit, text in zip(*context.segmentation, strict=True):
        if named.search(text):
            return Interval(int(where[unit.start]), int(where[unit.stop - 1]) + 1)
    return None


def _inside_word(text: str, at: int) -> bool:
    return all(c.isalnum() or c == "_" for c in text[at - 1 : at + 1])
