"""The document block that holds an edit, read off the text."""

import re

from cachemend.repair_core.context import StaleContext
from cachemend.repair_core.replacement import changed_span

_BLANK_LINE = re.compile(r"^[^\S\n]*\n", re.MULTILINE)


def block_stop(context: StaleContext) -> int:
    """Return the token position after the document block that holds the edit.

    The block ends where the first blank line behind the span begins, or with the context; its tokens are those whose
    text begins before that. So the line break before the blank line belongs to it.
    """
    text, spans = context.edited_text
    stop = changed_span(context.deletion).stop
    end = spans[stop - 1].stop if stop else 0
    blank = _BLANK_LINE.search(text, text.rfind("\n", 0, end) + 1)
    if blank is None:
        return len(spans)
    return next((i for i in range(stop, len(spans)) if spans[i].start >= blank.start()), len(spans))
