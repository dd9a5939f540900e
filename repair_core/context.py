"""What the arms of one case share: caches, units and scores, each computed once and timed."""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import NamedTuple, TypeVar

from torch import nn
from transformers import PreTrainedTokenizerBase
from transformers.cache_utils import Cache

from cachemend.repair_core.caches import RepairedCache, Rows, require_computed
from cachemend.repair_core.edits import Edit, require_edit
from cachemend.repair_core.intervals import Positions
from cachemend.repair_core.models import LoadedModel
from cachemend.repair_core.prefilling import as_batch, prefill
from cachemend.repair_core.refreshing import refresh
from cachemend.repair_core.relevance import Scores, embedding_relevance
from cachemend.repair_core.replacement import downstream_pool, is_in_place
from cachemend.repair_core.shifting import read_original, shift
from cachemend.repair_core.signals.dirty_replay import deleted_mass
from cachemend.repair_core.signals.hidden_norms import hidden_norms
from cachemend.repair_core.signals.query_attention import QueryAttention, query_attention, shallow_query_attention
from cachemend.repair_core.signals.shallow import shallow_prefill
from cachemend.repair_core.signals.spectrum import low_pass_strength
from cachemend.repair_core.text import Span, TokenText, require_text, token_text
from cachemend.repair_core.timing import timed
from cachemend.repair_core.units import Segmentation, semantic_units

T = TypeVar("T")


class AuxiliaryScores(NamedTuple):
    """Hidden-state norms of an auxiliary model over the suffix text.

    Attributes:
        scores: FP64 [m], one per auxiliary token that reaches into the suffix.
        spans: their characters in the edited context's text.
        target_spans: the characters of the suffix tokens in the same text; `spans` itself where the model scores its
            own tokens.
    """

    scores: Scores
    spans: tuple[Span, ...]
    target_spans: tuple[Span, ...]


class StaleContext:
    """One edited context and the query that comes next: all that a rule may know when it has to be deployed.

    It cannot say what a clean cache holds. Everything is computed on first use and kept; `timings` holds the seconds
    each part took, so that a shared signal is timed once and charged to every arm that uses it.

    Args:
        model: a Hugging Face causal language model.
        tokenizer: its tokenizer.
        deletion: the edit.
        query: the bare text of the next query.
        dirty: the cache of p + e + s when it exists already; not modified.
        case_id: seeds the random controls.
        query_ids: the query's tokens, if they are not simply the tokenized query.
        auxiliary: the model whose states SpecCache scores; None for `model` itself.

    Raises:
        InputError: no edit, or a query that is no text.
    """

    def __init__(
        self,
        model: nn.Module,
        tokenizer: PreTrainedTokenizerBase,
        deletion: Edit,
        query: str,
        dirty: Cache | None = None,
        case_id: str = "",
        query_ids: Sequence[int] | None = None,
        auxiliary: LoadedModel | None = None,
    ) -> None:
        require_edit("deletion", deletion)
        require_text("query", query, "the next query")
        self.model = model
        self.tokenizer = tokenizer
        self.deletion = deletion
        self.query = query
        self.case_id = case_id
        self.auxiliary = auxiliary
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
    def computed(self) -> RepairedCache:
        """The shifted cache with the rows of inserted tokens computed; without insertions, the shifted cache.

        Raises:
            Refused: rows that an earlier edit inserted were never computed.
        """
        shifted, inserted = self.shifted, self.deletion.inserted_positions
        if not len(inserted):
            require_computed(shifted, "this signal")
            return shifted
        ids = self.deletion.edited_ids
        return self._timed("insertions", lambda: refresh(self.model, shifted, ids, inserted))

    @cached_property
    def query_ids(self) -> tuple[int, ...]:
        """Tokens of the bare query text, no special tokens.

        Raises:
            InputError: a token id outside the model's vocabulary.
        """
        ids = self._query_ids
        if ids is None:
            ids = tuple(self.tokenizer(self.query, add_special_tokens=False)["input_ids"])
        if ids:
            as_batch(self.model, ids)
        return ids

    @cached_property
    def pool(self) -> Positions:
        """The positions a policy may choose from, see `downstream_pool`."""
        return downstream_pool(self.deletion)

    @cached_property
    def edited_text(self) -> TokenText:
        """The text of the edited context and the characters of each token."""
        return self._timed("text", lambda: token_text(self.tokenizer, self.deletion.edited_ids))

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

    @cached_property
    def query_attention(self) -> QueryAttention:
        """Attention of the query on the cache before repair, per position of the edited context.

        After an edit in place that is the stale cache itself, replaced tokens included (edit paper, "Cost
        accounting"); otherwise the shifted cache with inserted tokens computed.
        """
        cache, query_ids = self._scored_cache(), self.query_ids
        return self._timed("query-attention", lambda: query_attention(self.model, cache, query_ids))

    def _scored_cache(self) -> Cache:
        if not is_in_place(self.deletion):
            return self.computed
        read_original(self.dirty, self.deletion)
        return self.dirty

    @cached_property
    def deleted_mass(self) -> Scores:
        """Attention mass [S] of the suffix on the deleted tokens."""
        dirty = self.dirty
        return self._timed("dirty-replay", lambda: deleted_mass(self.model, dirty, self.deletion))

    @cached_property
    def shallow(self) -> list[Rows]:
        """Layers 0 and 1 of the edited context, freshly computed."""
        return self._timed("shallow-prefill", lambda: shallow_prefill(self.model, self.deletion.edited_ids))

    @cached_property
    def shallow_query_attention(self) -> Scores:
        """Attention of the query in layer 1 of `shallow`, per position of the edited context."""
        shallow, query_ids = self.shallow, self.query_ids
        return self._timed("shallow-query", lambda: shallow_query_attention(self.model, shallow, query_ids))

    @cached_property
    def low_pass_strength(self) -> Scores:
        """Low-frequency strength [S] of the shifted keys and values."""
        shifted = self.shifted
        return self._timed("spectrum", lambda: low_pass_strength(self.model, shifted, self.deletion))

    @cached_property
    def auxiliary_scores(self) -> AuxiliaryScores:
        """Hidden-state norms of the auxiliary model."""
        return self._timed("auxiliary-model", self._auxiliary_scores)

    def _auxiliary_scores(self) -> AuxiliaryScores:
        own = token_text(self.tokenizer, self.deletion.edited_ids)
        where = self.deletion.suffix_positions
        targets = tuple(own.spans[i] for i in where)
        if self.auxiliary is None:
            return AuxiliaryScores(hidden_norms(self.model, self.deletion.edited_ids)[where], targets, targets)
        encoded = self.auxiliary.tokenizer(own.text, add_special_tokens=False, return_offsets_mapping=True)
        other = TokenText(own.text, tuple(Span(*pair) for pair in encoded["offset_mapping"]))
        begin = targets[0].start if targets else len(own.text)
        reach = [i for i, span in enumerate(other.spans) if span.stop > begin]
        norms = hidden_norms(self.auxiliary.model, encoded["input_ids"])[reach]
        return AuxiliaryScores(norms, tuple(other.spans[i] for i in reach), targets)

    def _timed(self, name: str, compute: Callable[[], T]) -> T:
        with timed(self.timings, name, self.model):
            return compute()


class RepairContext(StaleContext):
    """A context that also knows the clean cache, for privileged references and for measurement."""

    @cached_property
    def clean(self) -> Cache:
        """The cache of a fresh prefill of the edited context."""
        return self._timed("clean-cache", lambda: prefill(self.model, self.deletion.edited_ids))
