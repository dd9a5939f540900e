"""A spot check: re-prefill a sampled share of the repairs and say how far each is from the clean cache."""

import hashlib
from collections.abc import Sequence
from numbers import Real
from typing import NamedTuple

import numpy as np
from torch import nn
from transformers.cache_utils import Cache

from cachemend.repair_core.answering import answer_batch
from cachemend.repair_core.caches import read_rows
from cachemend.repair_core.diagnostics import Distribution, total_variation
from cachemend.repair_core.edits import token_ids
from cachemend.repair_core.errors import InputError
from cachemend.repair_core.prefilling import prefill


class SpotCheck(NamedTuple):
    """A repaired cache beside the clean one, at the first token after a query.

    Attributes:
        tv: total variation between the two distributions, 0 to 1.
        margin_clean: logit of the clean cache's first token minus its best rival's, in the clean cache; at least 0.
        margin_repaired: the same token against its best rival in the repaired cache; below 0 where the repaired cache
            says another token first.
    """

    tv: float
    margin_clean: float
    margin_repaired: float


def sampled(case_id: str, fraction: float, seed: int) -> bool:
    """Whether the spot check looks at this case.

    A case's draw is SHA-256 of seed and case id: the same in every process, and a case sampled at one fraction is
    sampled at every larger one.

    Args:
        case_id: identifies the repair.
        fraction: share of all cases to look at, 0 to 1.
        seed: another seed samples other cases.

    Raises:
        InputError: a fraction that is no number or outside 0 to 1, a case id that UTF-8 cannot write.
    """
    if isinstance(fraction, bool) or not isinstance(fraction, Real):
        raise InputError(f"fraction {fraction!r} is no number; give the share of repairs to check, 0 to 1")
    if not 0 <= fraction <= 1:
        raise InputError(f"fraction {fraction} is outside 0 to 1; give the share of repairs to check")
    try:
        digest = hashlib.sha256(f"{seed}|{case_id}".encode()).digest()
    except UnicodeEncodeError as error:
        raise InputError(f"case_id {case_id!r} cannot be written as UTF-8; give valid text") from error
    # 53 bits: exact as a float, and below 1.
    return (int.from_bytes(digest[:8], "big") >> 11) / 2**53 < float(fraction)


def spot_check(model: nn.Module, repaired: Cache, edited_ids: Sequence[int], query_ids: Sequence[int]) -> SpotCheck:
    """Prefill the edited context and compare what both caches say first after the query.

    Args:
        model: a Hugging Face causal language model.
        repaired: the repaired cache of the edited context, batch 1; not modified.
        edited_ids: the edited context, N token ids.
        query_ids: what follows it, including the template's closing and generation tokens.

    Raises:
        InputError: a cache of another length than the context or of several sequences, no query, ids that are none.
        Refused: a model that repair does not support, or a cache with rows that were never computed.
    """
    edited_ids, query_ids = token_ids("edited_ids", edited_ids), token_ids("query_ids", query_ids)
    batch, _, length, _ = read_rows(repaired)[0].keys.shape
    if (batch, length) != (1, len(edited_ids)):
        raise InputError(
            f"the cache holds {batch} x {length} rows; the edited context has 1 x {len(edited_ids)} tokens"
        )
    clean = prefill(model, edited_ids)
    ours, reference = (a.first for a in answer_batch(model, [repaired, clean], query_ids, max_new_tokens=1))
    said = int(reference.argmax())
    return SpotCheck(total_variation(ours, reference), _margin(reference, said), _margin(ours, said))


def _margin(first: Distribution, token: int) -> float:
    """Logit of `token` minus the best other one's: the difference of their log-probabilities."""
    rival = np.delete(first, token).max()
    # A probability that underflowed to 0 counts as the smallest number there is.
    least = np.nextafter(0.0, 1.0)
    return float(np.log(max(first[token], least)) - np.log(max(rival, least)))
