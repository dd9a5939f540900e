"""Replay: keep the prefix and recompute everything behind it (paper section 7.1)."""

from collections.abc import Sequence

from torch import nn
from transformers.cache_utils import Cache, DynamicCache

from cachemend.repair_core.caches import RepairedCache, Rows, ledger_of, marked_cache, plain_cache, read_rows
from cachemend.repair_core.edits import Edit, require_equal_lengths
from cachemend.repair_core.errors import InputError
from cachemend.repair_core.ledger import RowState
from cachemend.repair_core.pinning import check_same_frequencies, pinned_frequencies
from cachemend.repair_core.prefilling import as_batch, extend
from cachemend.repair_core.shifting import read_original


def replay(model: nn.Module, cache: Cache, edit: Edit | Sequence[Edit]) -> RepairedCache:
    """Return the cache of the edited context: prefix rows copied, all others computed in one forward.

    Args:
        model: a Hugging Face causal language model.
        cache: the cache of the original context; not modified. One without marks is taken for a clean prefill. In a
            repaired one, prefix rows keep what is known of them, and the others are VALID only if all of those are.
        edit: what was done; for a batch, one per sequence, with equal lengths and positions.

    Raises:
        Refused: the prefix holds rows of inserted tokens that were never computed.
        InputError: the cache's length or batch is not that of the edits, their lengths differ, or a token id is outside
            the vocabulary.
    """
    edits = list(edit) if isinstance(edit, Sequence) else [edit]
    require_equal_lengths(edits)
    prefix, length = edits[0].prefix_length, len(edits[0].edited_ids)
    rows = read_original(cache, edits[0])
    batch = rows[0].keys.shape[0]
    if len(edits) != batch:
        raise InputError(f"the cache holds {batch} sequences; give one edit for each, not {len(edits)}")
    check_same_frequencies(model, len(edits[0].original_ids), length)
    known = ledger_of(cache, batch, len(edits[0].original_ids), unmarked=RowState.VALID).cut(prefix)
    known.require_computed("replay")
    kept = [Rows(keys[:, :, :prefix].clone(), values[:, :, :prefix].clone()) for keys, values in rows]
    fresh = plain_cache(kept) if prefix else DynamicCache()
    if prefix < length:
        ids = as_batch(model, [e.edited_ids[prefix:] for e in edits], rows[0].keys.device)
        with pinned_frequencies(model, length):
            extend(model, fresh, ids, prefix)
    return marked_cache(read_rows(fresh), known.appended(length))
