"""One Erasing-NIAH case: a context, a deletion, a question and the ordered gold values."""

import hashlib
import json
from dataclasses import asdict, dataclass
from functools import cached_property

from cachemend.repair_core.edits import Deletion
from cachemend.repair_core.errors import InputError

STRATA = ("first-deleted", "second-deleted")
_ID_FIELDS = ("prefix_ids", "deleted_ids", "suffix_ids", "query_ids", "relevance_ids", "gold_ids", "deleted_value_ids")


@dataclass(frozen=True, kw_only=True)
class NiahCase:
    """A same-key deletion case (paper sections 4.2 and 7.5).

    Attributes:
        case_id: unique in its cohort; names roster, stratum, length and seed.
        stratum: "first-deleted" (the needed fact lies in the stale suffix) or "second-deleted" (control).
        length: nominal length of the edited context in tokens; `n_tokens` is at most this.
        seed: the candidate's seed.
        prefix_ids, deleted_ids, suffix_ids: p, e and s; the template's opening tokens belong to p.
        query_ids: everything after the cached context: question, template closing, answer prefill.
        relevance_ids: the bare question's tokens, for relevance and attention signals.
        context_text: the edited context as rendered; the text of p + s.
        deleted_text: the text of e: the blank before the fact and the fact.
        query_text: the bare question.
        gold: the values the edited context still holds, in order.
        gold_ids: the tokens of the canonical answer, to be appended to `query_ids`.
        deleted_value_ids: the tokens of an answer that gives the deleted value, likewise.
    """

    case_id: str
    stratum: str
    length: int
    seed: int
    prefix_ids: tuple[int, ...]
    deleted_ids: tuple[int, ...]
    suffix_ids: tuple[int, ...]
    query_ids: tuple[int, ...]
    relevance_ids: tuple[int, ...]
    context_text: str
    deleted_text: str
    query_text: str
    gold: tuple[str, ...]
    gold_ids: tuple[int, ...]
    deleted_value_ids: tuple[int, ...]

    def __post_init__(self) -> None:
        for name in (*_ID_FIELDS, "gold"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        if self.stratum not in STRATA:
            raise InputError(f"case {self.case_id}: stratum {self.stratum!r} is none of {', '.join(STRATA)}")
        empty = [name for name in (*_ID_FIELDS, "gold") if not getattr(self, name)]
        if empty:
            raise InputError(f"case {self.case_id}: {', '.join(empty)} must not be empty")
        if self.n_tokens > self.length:
            raise InputError(f"case {self.case_id}: {self.n_tokens} tokens exceed its nominal length {self.length}")

    @property
    def deletion(self) -> Deletion:
        return Deletion(prefix_ids=self.prefix_ids, deleted_ids=self.deleted_ids, suffix_ids=self.suffix_ids)

    @property
    def n_tokens(self) -> int:
        """N = P + S, the length of the edited context in tokens."""
        return len(self.prefix_ids) + len(self.suffix_ids)

    @cached_property
    def digest(self) -> str:
        """SHA-256 hex digest over all fields."""
        text = json.dumps(asdict(self), sort_keys=True, ensure_ascii=True, separators=(",", ":"))
        return hashlib.sha256(text.encode("ascii")).hexdigest()
