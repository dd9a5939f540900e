"""What the arms of one case share: caches, units and scores, each computed once and timed."""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TypeVar

from torch import nn
from transformers import PreTrainedTokenizerBase
from transformers.cache_utils import Cache

from cachemend.repair_core.caches import RepairedCache
from cachemend.repair_core.edits import Deletion
from cachemend.repair_core.prefilling import prefill
from cachemend.repair_core.relevance import Scores, embedding_relevance
from cachemend.repair_core.shifting import shift
from cachemend.repair_core.timing import timed
from cachemend.repair_core.units import Segmentation, semantic_units

T = TypeVar("T")


class RepairContext:
    """One edited context and the query that comes next.

    Everything is computed on first use and kept; `timings` holds the seconds each part took, so that a shared
    signal is timed once and charged to every arm that uses it.

    Args:
        model: a Hugging Face causal language model.
        tokenizer: its tokenizer.
        deletion: the edit.
        query: the bare text of the next query.
        dirty: the cache of p + e + s when it exists already; not modified.
        case_id: seeds the random controls.
        query_ids: the query's tokens, if they are not simply the tokenized query.
    """

    def __init__(
        self,
        model: nn.Module,
        tokenizer: PreTrainedTokenizerBase,
        deletion: Deletion,
        query: str,
        dirty: Cache | None = None,
        case_id: str = "",
        query_ids: Sequence[int] | None = None,
    ) -> None:
        self.model = model
        self.tokenizer = tokenizer
        self.deletion = deletion
        self.query = query
        self.case_id = case_id
        self.timings: dict[str, float] = {}
        self._dirty = dirty
        self._query_ids = None if query_ids is None else tuple(query_ids)

    @cached_property
    def dirty(self) -> Cache:
        """The cache of p + e + s."""
        if self._dirty is not None:
            return self._dirty
        return self._timed("prefill", lambda: prefill(self.model, self.deletion.original_ids))

    @cached_property
    def shifted(self) -> RepairedCache:
        """The position-corrected cache of p + s that every sparse arm starts from."""
        dirty = self.dirty
        return self._timed("shift", lambda: shift(self.model, dirty, self.deletion))

    @cached_property
    def query_ids(self) -> tuple[int, ...]:
        """Tokens of the bare query text, no special tokens."""
        if self._query_ids is not None:
            return self._query_ids
        return tuple(self.tokenizer(self.query, add_special_tokens=False)["input_ids"])

    @cached_property
    def segmentation(self) -> Segmentation:
        """Semantic units of the suffix."""
        return self._timed("units", lambda: semantic_units(self.tokenizer, self.deletion))

    @cached_property
    def relevance(self) -> Scores:
        """Embedding relevance r [S]."""
        return self._timed(
            "embeddings", lambda: embedding_relevance(self.model, self.deletion.suffix_ids, self.query_ids)
        )

    def _timed(self, name: str, compute: Callable[[], T]) -> T:
        with timed(self.timings, name, self.model):
            return compute()
