"""Query processing and greedy answers from one cache, or from many at once."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import nn
from transformers.cache_utils import Cache, DynamicCache

from cachemend.repair_core.caches import Rows, in_place_cache, read_rows, set_length
from cachemend.repair_core.errors import InputError
from cachemend.repair_core.forward import run
from cachemend.repair_core.prefilling import as_batch
from cachemend.repair_core.timing import timed

# Caches joined into one decoding batch may take this much memory on top of the caches themselves.
BATCH_BYTES = 2 * 1024**3


class Answer(NamedTuple):
    """What a model says after a query.

    Attributes:
        ids: greedy token ids, up to `max_new_tokens`.
        first: FP64 [vocabulary], the distribution of the first answer token.
        gold_nll: mean negative log-likelihood of the gold answer's tokens in nats; None without a gold answer.
        query_seconds: time of the query forward; None when several caches shared it.
        decode_seconds: time of decoding; None when several caches shared it.
    """

    ids: tuple[int, ...]
    first: npt.NDArray[np.float64]
    gold_nll: float | None
    query_seconds: float | None
    decode_seconds: float | None


def answer(
    model: nn.Module,
    cache: Cache,
    query_ids: Sequence[int],
    max_new_tokens: int = 32,
    stop_ids: Sequence[int] = (),
    gold_ids: Sequence[int] = (),
) -> Answer:
    """Process `query_ids` after the cached context and decode greedily.

    Args:
        model: a Hugging Face causal language model.
        cache: N rows, batch 1; not modified.
        query_ids: what follows the context, including the template's closing and generation tokens.
        max_new_tokens: decoding limit.
        stop_ids: decoding ends after one of these (it is kept); none: never early.
        gold_ids: gold answer whose likelihood is scored by teacher forcing.
    """
    return answer_batch(model, [cache], query_ids, max_new_tokens, stop_ids, gold_ids)[0]


def answer_batch(
    model: nn.Module,
    caches: Sequence[Cache],
    query_ids: Sequence[int],
    max_new_tokens: int = 32,
    stop_ids: Sequence[int] = (),
    gold_ids: Sequence[int] = (),
) -> list[Answer]:
    """Answer the same query from several caches of equal length, decoded together.

    The caches are independent sequences of one batch: in FP32 each answer equals the one from its cache alone.
    """
    if not len(query_ids):
        raise InputError("query_ids is empty; give at least one token after the cached context")
    rows = [read_rows(cache) for cache in caches]
    lengths = sorted({layers[0].keys.shape[-2] for layers in rows})
    if len(lengths) > 1:
        raise InputError(f"caches of one batch must have equal lengths, not {lengths}")
    room = lengths[0] + len(query_ids) + max(max_new_tokens, len(gold_ids))
    size = max(1, BATCH_BYTES // max(1, _bytes_per_row(rows[0]) * room))
    out: list[Answer] = []
    for start in range(0, len(rows), size):
        part = rows[start : start + size]
        out += _decode_together(model, part, lengths[0], room, query_ids, max_new_tokens, stop_ids, gold_ids)
    return out


def _decode_together(
    model: nn.Module,
    rows: Sequence[Sequence[Rows]],
    length: int,
    room: int,
    query_ids: Sequence[int],
    max_new_tokens: int,
    stop_ids: Sequence[int],
    gold_ids: Sequence[int],
) -> list[Answer]:
    cache, batch = _join(rows, room), len(rows)
    device = rows[0][0].keys.device
    seconds: dict[str, float] = {}
    query = as_batch(query_ids, device).expand(batch, -1)
    with timed(seconds, "query", model):
        last = _forward(model, cache, query, length)[:, -1]
    length += query.shape[1]
    nll = _gold_nll(model, cache, last, gold_ids, length) if gold_ids else [None] * batch
    set_length(cache, length)
    with timed(seconds, "decode", model):
        ids = _greedy(model, cache, last, length, max_new_tokens, set(stop_ids))
    if batch > 1:
        seconds = {}
    first = last.double().softmax(-1).cpu().numpy()
    return [Answer(ids[i], first[i], nll[i], seconds.get("query"), seconds.get("decode")) for i in range(batch)]


def _forward(model: nn.Module, cache: DynamicCache, ids: torch.Tensor, start: int) -> torch.Tensor:
    """FP32 logits [batch, n, vocabulary] of `ids` [batch, n] placed at positions start.."""
    positions = torch.arange(start, start + ids.shape[1], device=ids.device)[None]
    return run(model, ids, cache, positions).logits.float()


def _gold_nll(
    model: nn.Module, cache: DynamicCache, last: torch.Tensor, gold_ids: Sequence[int], length: int
) -> list[float | None]:
    gold = as_batch(gold_ids, last.device).expand(last.shape[0], -1)
    logits = last[:, None]
    if gold.shape[1] > 1:
        logits = torch.cat((logits, _forward(model, cache, gold[:, :-1], length)), dim=1)
    picked = logits.double().log_softmax(-1).gather(2, gold[:, :, None])[:, :, 0]
    return [float(value) for value in -picked.mean(dim=1)]


def _greedy(
    model: nn.Module, cache: DynamicCache, logits: torch.Tensor, length: int, limit: int, stop: set[int]
) -> list[tuple[int, ...]]:
    out: list[list[int]] = [[] for _ in range(logits.shape[0])]
    done = [False] * len(out)
    for step in range(limit):
        token = logits.argmax(-1)
        for i, value in enumerate(token.tolist()):
            if not done[i]:
                out[i].append(value)
                done[i] = value in stop
        if all(done) or step == limit - 1:
            break
        logits = _forward(model, cache, token[:, None], length + step)[:, -1]
    return [tuple(ids) for ids in out]


def _join(rows: Sequence[Sequence[Rows]], room: int) -> DynamicCache:
    """Copy the caches into one batch with room for the query and the answer."""
    joined = []
    for layer in zip(*rows, strict=True):
        joined.append(Rows(_stack([r.keys for r in layer], room), _stack([r.values for r in layer], room)))
    return in_place_cache(joined, rows[0][0].keys.shape[-2])


def _stack(parts: Sequence[torch.Tensor], room: int) -> torch.Tensor:
    _, heads, length, width = parts[0].shape
    out = parts[0].new_empty(len(parts), heads, room, width)
    for index, part in enumerate(parts):
        out[index, :, :length] = part[0]
    return out


def _bytes_per_row(rows: Sequence[Rows]) -> int:
    return sum((k[:, :, :1].numel() + v[:, :, :1].numel()) * k.element_size() for k, v in rows)
