"""One case of an in-place edit: a context, a rewritten span, a question and its old and new answer."""

import hashlib
import json
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

from cachemend.datasets.edit_background import SPLITS
from cachemend.datasets.edit_family import CONDITIONS
from cachemend.repair_core.errors import InputError
from cachemend.repair_core.intervals import Interval
from cachemend.repair_core.replacement import Replacement


def digest_of(case: Any) -> str:
    """SHA-256 hex digest over all fields of a case."""
    text = json.dumps(_fields(case), default=_fields, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def _fields(value: Any) -> dict[str, Any]:
    """The fields of a dataclass as they are: copying thousands of token ids one by one takes longer than hashing."""
    return {field.name: getattr(value, field.name) for field in fields(value)}


def check_range(case_id: str, name: str, span: Interval, length: int) -> None:
    """Raise InputError unless `span` is a range of at least one token of `length`."""
    if not 0 <= span.start < span.stop <= length:
        raise InputError(f"case {case_id}: {name} {span.start}..{span.stop} is no range of its {length} tokens")


@dataclass(frozen=True, kw_only=True)
class EditCase:
    """A length-preserving edit of a record among background documents (edit paper, "Paired edit benchmark").

    Positions are those of the context's tokens, the same before and after the edit; ranges are half-open.

    Attributes:
        case_id: unique in its cohort; names roster, family, seed, condition and distance.
        item_id: what the cases of one item share: its documents, insertion point, names and question.
        split: "dev" or "held-out".
        condition: "direct" (the answer is rewritten), "derived" (an alias that selects the row with the answer is),
            "irrelevant" (a field that the question does not depend on is: `new_answer` was right before, too, and
            `old_answer` is the other row's).
        distance: nominal tokens from the edit to the carrier; 0 where both are in one document.
        actual_distance: carrier start - span stop in tokens; 0 for direct.
        family: the wording's name.
        seed: the item's seed.
        original_ids, edited_ids: the context before and after the edit; template opening included.
        span: the tokens of the rewritten field.
        carrier: the tokens of the text that holds the answer; the span itself for direct.
        block_stop: the token after the document that holds the edit.
        query_ids: everything after the cached context: question, template closing, beginning of the answer.
        relevance_ids: the bare question's tokens, for relevance and attention signals.
        query_text: the bare question.
        context_text: the edited context as rendered.
        old_span_text, new_span_text: the rewritten field's text before and after.
        old_answer, new_answer: the answer the original context gives and the one the edited context gives.
        old_ids, new_ids: the tokens of either answer, to be appended to `query_ids`.
    """

    case_id: str
    item_id: str
    split: str
    condition: str
    distance: int
    actual_distance: int
    family: str
    seed: int
    original_ids: tuple[int, ...]
    edited_ids: tuple[int, ...]
    span: Interval
    carrier: Interval
    block_stop: int
    query_ids: tuple[int, ...]
    relevance_ids: tuple[int, ...]
    query_text: str
    context_text: str
    old_span_text: str
    new_span_text: str
    old_answer: str
    new_answer: str
    old_ids: tuple[int, ...]
    new_ids: tuple[int, ...]

    def __post_init__(self) -> None:
        for name in ("original_ids", "edited_ids", "query_ids", "relevance_ids", "old_ids", "new_ids"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
            if not getattr(self, name):
                raise InputError(f"case {self.case_id}: {name} must not be empty")
        for name in ("span", "carrier"):
            object.__setattr__(self, name, Interval(*getattr(self, name)))
            check_range(self.case_id, name, getattr(self, name), self.n_tokens)
        if self.condition not in CONDITIONS:
            raise InputError(f"case {self.case_id}: condition {self.condition!r} is none of {', '.join(CONDITIONS)}")
        if self.split not in SPLITS:
            raise InputError(f"case {self.case_id}: split {self.split!r} is none of {', '.join(SPLITS)}")
        if not self.span.stop <= self.block_stop <= self.n_tokens:
            raise InputError(f"case {self.case_id}: block_stop {self.block_stop} is not between span and context end")
        start, stop = self.span
        outside = (
            self.original_ids[:start] + self.original_ids[stop:],
            self.edited_ids[:start] + self.edited_ids[stop:],
        )
        if outside[0] != outside[1] or self.original_ids == self.edited_ids:
            raise InputError(f"case {self.case_id}: original and edited context must differ, in the span only")

    @property
    def replacement(self) -> Replacement:
        """The edit as the repair takes it."""
        start, stop = self.span
        return Replacement(
            original_ids=self.original_ids, start=start, stop=stop, replacement_ids=self.edited_ids[start:stop]
        )

    @property
    def n_tokens(self) -> int:
        """Length of the context in tokens."""
        return len(self.edited_ids)

    @property
    def gold(self) -> tuple[str]:
        """The right answer to the edited context."""
        return (self.new_answer,)

    @cached_property
    def digest(self) -> str:
        """SHA-256 hex digest over all fields."""
        return digest_of(self)
