"""Query processing and greedy answers from one cache, or from many at once."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import nn
from transformers.cache_utils import Cache

from cachemend.repair_core.architecture import caches_latents
from cachemend.repair_core.batches import Batch, JoinedBatch, SharedBatch
from cachemend.repair_core.caches import Rows, clone_rows, plain_cache, read_rows, require_computed
from cachemend.repair_core.deltas import Delta, apply_delta
from cachemend.repair_core.errors import InputError
from cachemend.repair_core.memory import batch_bytes
from cachemend.repair_core.prefilling import as_batch
from cachemend.repair_core.timing import timed


class Answer(NamedTuple):
    """What a model says after a query.

    Attributes:
        ids: greedy token ids, up to `max_new_tokens`.
        first: FP64 [vocabulary], the distribution of the first answer token.
        logprobs: mean log-probability per token, in nats, of each continuation that was asked for.
        query_seconds: time of the query forward; None when several caches shared it.
        decode_seconds: time of decoding; None when several caches shared it.
        logits: FP32 [vocabulary], what `first` is the softmax of.
    """

    ids: tuple[int, ...]
    first: npt.NDArray[np.float64]
    logprobs: tuple[float, ...]
    query_seconds: float | None
    decode_seconds: float | None
    logits: npt.NDArray[np.float32]


def answer(
    model: nn.Module,
    cache: Cache,
    query_ids: Sequence[int],
    max_new_tokens: int = 32,
    stop_ids: Sequence[int] = (),
    continuations: Sequence[Sequence[int]] = (),
) -> Answer:
    """Process `query_ids` after the cached context and decode greedily.

    Args:
        model: a Hugging Face causal language model.
        cache: N rows, batch 1; not modified.
        query_ids: what follows the context, including the template's closing and generation tokens.
        max_new_tokens: decoding limit.
        stop_ids: decoding ends after one of these (it is kept); none: never early.
        continuations: token ids of possible answers, scored by teacher forcing.
    """
    return answer_batch(model, [cache], query_ids, max_new_tokens, stop_ids, continuations)[0]


def answer_batch(
    model: nn.Module,
    caches: Sequence[Cache],
    query_ids: Sequence[int],
    max_new_tokens: int = 32,
    stop_ids: Sequence[int] = (),
    continuations: Sequence[Sequence[int]] = (),
) -> list[Answer]:
    """Answer the same query from several caches of equal length, decoded together.

    The caches are independent sequences of one batch: in FP32 each answer equals the one from its cache alone. A
    batch takes at most a quarter of the free memory; more caches are answered in several batches.

    Raises:
        InputError: no query, an empty continuation, a token id outside the vocabulary, or caches of different lengths.
        Refused: a cache holds rows of inserted tokens that were never computed.
    """
    _check(model, query_ids, continuations)
    for cache in caches:
        require_computed(cache, "this answer")
    rows = [read_rows(cache) for cache in caches]
    if not rows:
        return []
    lengths = sorted({layers[0].keys.shape[-2] for layers in rows})
    if len(lengths) > 1:
        raise InputError(f"caches of one batch must have equal lengths, not {lengths}")
    room = len(query_ids) + max([max_new_tokens, *map(len, continuations)])
    size = max(1, batch_bytes(rows[0][0].keys.device) // (_bytes_per_row(rows[0]) * (lengths[0] + room)))
    out: list[Answer] = []
    for start in range(0, len(rows), size):
        batch = JoinedBatch(model, rows[start : start + size], room)
        out += _answers(batch, query_ids, max_new_tokens, stop_ids, continuations)
    return out


def answer_deltas(
    model: nn.Module,
    base: Sequence[Rows],
    deltas: Sequence[Delta],
    query_ids: Sequence[int],
    max_new_tokens: int = 32,
    stop_ids: Sequence[int] = (),
    continuations: Sequence[Sequence[int]] = (),
) -> list[Answer]:
    """Answer the same query from several caches that differ from `base` (batch 1) in a few rows each.

    Equal to `answer_batch` over the whole caches, in FP32 up to rounding, without making them.
    """
    _check(model, query_ids, continuations)
    if caches_latents(model):
        return _answer_whole(model, base, deltas, query_ids, max_new_tokens, stop_ids, continuations)
    room = len(query_ids) + max([max_new_tokens, *map(len, continuations)])
    order = sorted(range(len(deltas)), key=lambda index: len(deltas[index].positions))
    out: dict[int, Answer] = {}
    free, per_row = batch_bytes(base[0].keys.device), _bytes_per_row(base)
    while order:
        together = [order.pop(0)]
        held = per_row * (room + len(deltas[together[0]].positions))
        while order and held + (more := per_row * (room + len(deltas[order[0]].positions))) <= free:
            together.append(order.pop(0))
            held += more
        batch = SharedBatch(model, base, [deltas[index] for index in together], room)
        answers = _answers(batch, query_ids, max_new_tokens, stop_ids, continuations)
        out |= dict(zip(together, answers, strict=True))
    return [out[index] for index in range(len(deltas))]


def _answer_whole(model: nn.Module, base: Sequence[Rows], deltas: Sequence[Delta], *options: Any) -> list[Answer]:
    """The same over whole caches: what latent attention caches is not what it attends to."""
    size = max(1, batch_bytes(base[0].keys.device) // sum(keys.nbytes + values.nbytes for keys, values in base))
    out: list[Answer] = []
    for start in range(0, len(deltas), size):
        caches = []
        for delta in deltas[start : start + size]:
            rows = clone_rows(base)
            apply_delta(rows, delta, 0)
            caches.append(plain_cache(rows))
        out += answer_batch(model, caches, *options)
    return out


def _check(model: nn.Module, query_ids: Sequence[int], continuations: Sequence[Sequence[int]]) -> None:
    if not len(query_ids):
        raise InputError("query_ids is empty; give at least one token after the cached context")
    if not all(len(ids) for ids in continuations):
        raise InputError("a continuation is empty; give at least one token to score")
    for ids in (query_ids, *continuations):
        as_batch(model, ids)


def _answers(
    batch: Batch,
    query_ids: Sequence[int],
    max_new_tokens: int,
    stop_ids: Sequence[int],
    continuations: Sequence[Sequence[int]],
) -> list[Answer]:
    seconds: dict[str, float] = {}
    query = as_batch(batch.model, query_ids, batch.device).expand(batch.size, -1)
    with timed(seconds, "query", batch.model):
        last = batch.forward(query, batch.length, last_only=True)[:, -1]
    after = batch.length + query.shape[1]
    scores = [_mean_logprob(batch, last, ids, after) for ids in continuations]
    with timed(seconds, "decode", batch.model):
        ids = _greedy(batch, last, after, max_new_tokens, set(stop_ids))
    if batch.size > 1:
        seconds = {}
    first, logits = last.double().softmax(-1).cpu().numpy(), last.cpu().numpy()
    return [
        Answer(ids[i], first[i], tuple(s[i] for s in scores), seconds.get("query"), seconds.get("decode"), logits[i])
        for i in range(batch.size)
    ]


def _mean_logprob(batch: Batch, last: torch.Tensor, wanted: Sequence[int], after: int) -> list[float]:
    ids = as_batch(batch.model, wanted, last.device).expand(batch.size, -1)
    logits = last[:, None]
    if ids.shape[1] > 1:
        logits = torch.cat((logits, batch.forward(ids[:, :-1], after)), dim=1)
    picked = logits.gather(2, ids[:, :, None])[:, :, 0] - logits.logsumexp(-1)
    return list(picked.double().mean(dim=1).tolist())


def _greedy(batch: Batch, logits: torch.Tensor, after: int, limit: int, stop: set[int]) -> list[tuple[int, ...]]:
    out: list[list[int]] = [[] for _ in range(batch.size)]
    done = [False] * len(out)
    for step in range(limit):
        token = logits.argmax(-1)
        for i, value in enumerate(token.tolist()):
            if not done[i]:
                out[i].append(value)
                done[i] = value in stop
        if all(done) or step == limit - 1:
            break
        logits = batch.forward(token[:, None], after + step)[:, -1]
    return [tuple(ids) for ids in out]


def _bytes_per_row(rows: Sequence[Rows]) -> int:
    return sum((k[:, :, :1].numel() + v[:, :, :1].numel()) * k.element_size() for k, v in rows)
