"""What is known of an edit before its repair: features read off the edit, the texts and the query alone."""

import re
from typing import NamedTuple

from cachemend.repair_core.context import StaleContext
from cachemend.repair_core.errors import InputError
from cachemend.repair_core.policies.blocks import block_stop
from cachemend.repair_core.policies.naming import naming_unit
from cachemend.repair_core.relevance import terms
from cachemend.repair_core.replacement import changed_span

NAMED = ("in-block", "beyond", "nowhere")
NO_REACH = "none"
REACHES = ("<=16", "<=32", "<=64", "more", NO_REACH)
_BOUNDS = (16, 32, 64)
_BLANK_LINES = re.compile(r"\r?\n[ \t]*\r?\n")
# Words of questions that say nothing of their subject. No word of a document is judged by this list.
_FUNCTION_WORDS = frozenset(
    terms(
        "a an and any are as at be been but by can could did do does for from had has have how i in is it its me my of "
        "on or our please s say should tell that the their them there these they this those to was we were what when "
        "where which who whom whose why will with would you your"
    )
)


class EditFeatures(NamedTuple):
    """A cell of the decision table.

    Attributes:
        named: where the first unit behind the edit stands that names the new words: "in-block" if it begins in the
            document block of the edit, "beyond" behind it, "nowhere" if there is none.
        reach: tokens from the span's end to the end of that unit, in bands of `REACHES`; "none" if there is none.
        query_overlap: whether a content word of the query occurs in the edit's own block.
    """

    named: str
    reach: str
    query_overlap: bool


FEATURES = EditFeatures._fields


def edit_features(context: StaleContext) -> EditFeatures:
    """Read the features off an edit of one place. No model runs and no cache is looked at.

    Raises:
        InputError: no context, or an edit that changes several places.
    """
    if not isinstance(context, StaleContext):
        raise InputError(f"context is a {type(context).__name__}; give a StaleContext")
    span, stop = changed_span(context.deletion), block_stop(context)
    unit = naming_unit(context)
    overlap = bool(content_words(context.query) & set(terms(_block_text(context, span.start, stop))))
    if unit is None:
        return EditFeatures("nowhere", NO_REACH, overlap)
    return EditFeatures("in-block" if unit.start < stop else "beyond", reach_band(unit.stop - span.stop), overlap)


def reach_band(tokens: int) -> str:
    """The band of a distance in tokens."""
    return next((f"<={bound}" for bound in _BOUNDS if tokens <= bound), "more")


def content_words(query: str) -> set[str]:
    """The lowercased terms of a query that are no function words of English."""
    return set(terms(query)) - _FUNCTION_WORDS


def _block_text(context: StaleContext, start: int, stop: int) -> str:
    """The text of the block that holds position `start` and ends before token `stop`."""
    text, spans = context.edited_text
    inside = spans[start].start if start < len(spans) else len(text)
    begin = max((blank.end() for blank in _BLANK_LINES.finditer(text, 0, inside)), default=0)
    return text[begin : spans[stop - 1].stop if stop else 0]
