"""Selection policies and both operators of an in-place edit of equal length, paper "Contiguity, Not Importance".

n context tokens; the edit replaces [a, b); the query comes after the context and is never cached. Positions are
absolute and returned in increasing order. Cache rows are lists with one (K, V) pair of [1, kv_heads, n, dim] tensors
per layer, keys rotated; results are FP64. Models run as FP64 copies with the models' own eager attention: their
norms, rotary angles and softmax still round to FP32.
"""

import itertools
import math
import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from oracles import adapted
from oracles.adapted import CacheRows, Ids
from oracles.intervals import intervals

Rows = list[tuple[torch.Tensor, torch.Tensor]]

PUNCTUATION = re.compile(r"[.,;:|!?)\]}]+")
LIST_MARKER = re.compile(r"[-*+•]|[0-9]+[.)]")  # a row's marker is the |, which is punctuation already


class Structure(NamedTuple):
    """What the structural rule fixes, and how many random positions of the pool must join it."""

    fixed: list[int]
    topup: int


class TwoStage(NamedTuple):
    """The positions of both passes, and the cache after the second."""

    first: list[int]
    second: list[int]
    kv: Rows


def pool(a: int, b: int, n: int) -> list[int]:
    """Return D = [b, n - 1): all after the edit but the context's last token."""
    if not 0 <= a < b <= n:
        raise ValueError(f"a, b, n = {a}, {b}, {n}: expected 0 <= a < b <= n")
    return list(range(b, n - 1))


def edit_local(b: int, n: int, k: int) -> list[int]:
    """Return [b, b + k)."""
    enough(k, n - 1 - b)
    return list(range(b, b + k))


def edit_local_boundary(token_texts: Sequence[str], b: int, n: int) -> list[int]:
    """Return b, b + 1, ... to the end of the block: its last token holds its last line's final character.

    A block ends where a blank line begins, a line of nothing but white space that is closed after the edit; the
    newline that ends the line before it still belongs to the block. Without one it ends with the pool.
    """
    starts = list(itertools.accumulate((len(text) for text in token_texts[:n]), initial=0))
    line_start = 0
    for line in "".join(token_texts[:n]).split("\n")[:-1]:  # what follows the last newline is not closed
        line_end = line_start + len(line) + 1
        if line.strip() == "" and line_end > starts[b]:
            return [i for i in range(b, n - 1) if starts[i] < line_start]
        line_start = line_end
    return list(range(b, n - 1))


def is_structural(text: str) -> bool:
    """Tell whether a token holds a newline or, stripped, is only closing punctuation or one list marker."""
    bare = text.strip()
    return "\n" in text or bool(PUNCTUATION.fullmatch(bare) or LIST_MARKER.fullmatch(bare))


def structural(token_texts: Sequence[str], b: int, n: int, k: int) -> Structure:
    """Return the first k structural tokens of the pool, and k less their number."""
    enough(k, n - 1 - b)
    fixed = [i for i in range(b, n - 1) if is_structural(token_texts[i])][:k]
    return Structure(fixed, k - len(fixed))


def carrier_window(carrier: int, b: int, n: int, k: int) -> list[int]:
    """Return the k positions from the carrier's first token, or the pool's last k where fewer follow it."""
    enough(k, n - 1 - b)
    if not b <= carrier < n - 1:
        raise ValueError(f"carrier = {carrier}: lies outside the pool [{b}, {n - 1})")
    start = min(carrier, n - 1 - k)
    return list(range(start, start + k))


def top_k(scores: Sequence[float] | np.ndarray, pool: Sequence[int], k: int) -> list[int]:
    """Return the k pool positions of largest score, the earlier one on ties. scores: one per context position."""
    enough(k, len(pool))
    return sorted(sorted(pool, key=lambda i: (-float(scores[i]), i))[:k])


def attention_scores(model: nn.Module, stale_kv: CacheRows, query_ids: Ids) -> np.ndarray:
    """Return each context position's mean attention over layers, heads and query tokens, [n].

    The softmax runs over the context and the query tokens before; the mean is not renormalised over the pool.
    """
    n = stale_kv[0][0].shape[2]
    a = adapted.visible_attention(model, stale_kv, query_ids, n)
    layers, heads, rows, _ = a.shape
    return np.array([math.fsum(a[:, :, :, i].ravel()) / (layers * heads * rows) for i in range(n)])


def cacheblend_scores(model: nn.Module, old_ids: Ids, new_ids: Ids) -> np.ndarray:
    """Return |dK|^2 + |dV|^2 of the second decoder layer, old against new full prefill, [n]."""
    same_length(old_ids, new_ids)
    (old_k, old_v), (new_k, new_v) = (adapted.arrays(adapted.fresh_rows(model, ids))[1] for ids in (old_ids, new_ids))
    return np.array(
        [
            math.fsum(((old_k[:, i] - new_k[:, i]) ** 2).ravel())
            + math.fsum(((old_v[:, i] - new_v[:, i]) ** 2).ravel())
            for i in range(len(new_ids))
        ]
    )


def refresh_rows(model: nn.Module, stale_kv: CacheRows, new_ids: Ids, positions: Iterable[int]) -> Rows:
    """Recompute positions from the edited tokens: every maximal run, in order, after all rows before it.

    Rows written by an earlier run are read by the later ones; rows of no run stay as they are.
    """
    plain, kv = adapted.eager_copy(model), copied(stale_kv)
    same_length(range(kv[0][0].shape[2]), new_ids)
    for start, stop in intervals(positions):
        before = [(k[:, :, :start], v[:, :, :start]) for k, v in kv]
        _, cache = adapted.forward(plain, before if start else [], new_ids[start:stop], start)
        for (k, v), layer in zip(kv, cache.layers, strict=True):
            k[:, :, start:stop] = layer.keys[:, :, start:stop]
            v[:, :, start:stop] = layer.values[:, :, start:stop]
    return kv


def transplant(kv: CacheRows, clean_kv: CacheRows, positions: Iterable[int]) -> Rows:
    """Copy rows of the clean cache into a copy of kv."""
    mixed = copied(kv)
    for i in positions:
        for (k, v), (clean_k, clean_v) in zip(mixed, clean_kv, strict=True):
            k[:, :, i], v[:, :, i] = clean_k[:, :, i].double(), clean_v[:, :, i].double()
    return mixed


def mean_log_probability(model: nn.Module, kv: CacheRows, query_ids: Ids, answer_ids: Ids) -> float:
    """Return the teacher-forced log probability of an answer after context and query, per answer token, in nats."""
    if not len(query_ids) or not len(answer_ids):
        raise ValueError("query and answer must each have a token")
    ids = [*query_ids, *answer_ids]
    output, _ = adapted.forward(adapted.eager_copy(model), kv, ids, kv[0][0].shape[2])
    log_p = torch.log_softmax(output.logits[0].double(), dim=-1)
    rows = range(len(query_ids) - 1, len(ids) - 1)  # the row before a token predicts it
    return math.fsum(float(log_p[row, ids[row + 1]]) for row in rows) / len(answer_ids)


def margin(model: nn.Module, kv: CacheRows, query_ids: Ids, old: Ids, new: Ids) -> float:
    """Return m: the new answer's mean log probability per token less the old one's."""
    new_mean = mean_log_probability(model, kv, query_ids, new)
    return new_mean - mean_log_probability(model, kv, query_ids, old)


def causal_effects(
    model: nn.Module,
    base_kv: CacheRows,
    clean_kv: CacheRows,
    positions: Sequence[int],
    query_ids: Ids,
    old_ids: Ids,
    new_ids: Ids,
) -> list[float]:
    """Return m(base with clean row i) - m(base) for each position i on its own, in the order given.

    base_kv: the stale cache after refresh of the span. old_ids, new_ids: the two answers.
    """
    base = margin(model, base_kv, query_ids, old_ids, new_ids)
    return [margin(model, transplant(base_kv, clean_kv, [i]), query_ids, old_ids, new_ids) - base for i in positions]


def two_stage(
    model: nn.Module, stale_kv: CacheRows, new_ids: Ids, query_ids: Ids, a: int, b: int, k1: int, k2: int
) -> TwoStage:
    """Refresh the span with the k1 best by attention, score the result anew, refresh the k2 best of the rest.

    The second pass recomputes its own k2 positions only: k1 + k2 rows in all, beside the span.
    """
    candidates = pool(a, b, len(new_ids))
    first = top_k(attention_scores(model, stale_kv, query_ids), candidates, k1)
    kv = refresh_rows(model, stale_kv, new_ids, [*range(a, b), *first])
    rest = [i for i in candidates if i not in first]
    second = top_k(attention_scores(model, kv, query_ids), rest, k2)
    return TwoStage(first, second, refresh_rows(model, kv, new_ids, second))


def copied(kv: CacheRows) -> Rows:
    """Return FP64 copies of all rows."""
    return [(k.to(torch.float64, copy=True), v.to(torch.float64, copy=True)) for k, v in kv]


def same_length(one: Sequence[Any], other: Sequence[Any]) -> None:
    """Refuse an edit that changes the length."""
    if len(one) != len(other):
        raise ValueError(f"{len(one)} against {len(other)} tokens: the edit must keep the length")


def enough(k: int, size: int) -> None:
    """Refuse a budget that the pool cannot give exactly."""
    if not 0 <= k <= size:
        raise ValueError(f"k = {k}: must lie between 0 and the {max(0, size)} candidates")
