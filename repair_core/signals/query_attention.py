"""How strongly the next query attends to each suffix token (paper Table 1: ProphetKV, InfoFlow, A3)."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import nn
from transformers.cache_utils import Cache

from cachemend.repair_core.caches import Rows, read_rows, require_computed
from cachemend.repair_core.forward import input_device
from cachemend.repair_core.prefilling import as_batch
from cachemend.repair_core.relevance import Scores
from cachemend.repair_core.signals.observing import Observer, observe, passing_cache


class QueryAttention(NamedTuple):
    """Attention of the query on every cached position, over all layers, heads and query tokens.

    Attributes:
        mean: FP64 [N], mean probability.
        norm: FP64 [N], square root of the summed squares.
    """

    mean: Scores
    norm: Scores


class _Columns(Observer):
    """Sums and squares of probabilities per cached key."""

    def __init__(self, model: nn.Module, start: int, last_layer: int | None = None) -> None:
        super().__init__(model, start, last_layer)
        self.total = torch.zeros(start, dtype=torch.float64)
        self.squares = torch.zeros(start, dtype=torch.float64)

    def see(self, probabilities: torch.Tensor, first_key: int) -> None:
        stop = min(self.start, first_key + probabilities.shape[-1])
        if first_key >= stop:
            return
        seen = probabilities[..., : stop - first_key].double()
        self.total[first_key:stop] += seen.sum(dim=(0, 1, 2, 3)).cpu()
        self.squares[first_key:stop] += seen.square_().sum(dim=(0, 1, 2, 3)).cpu()


def query_attention(model: nn.Module, shifted: Cache, query_ids: Sequence[int]) -> QueryAttention:
    """Forward the query against the shifted cache (batch 1; not modified) and collect its attention.

    The softmax covers everything a query token sees; it is not renormalised over the suffix.

    Raises:
        Refused: rows of inserted tokens were never computed.
    """
    require_computed(shifted, "this signal")
    rows = read_rows(shifted)
    length = rows[0].keys.shape[-2]
    observer = _Columns(model, length)
    if query_ids:
        observe(model, passing_cache(rows), as_batch(model, query_ids, input_device(model)), observer, length)
    return QueryAttention((observer.total / max(1, observer.cells)).numpy(), observer.squares.sqrt().numpy())


def shallow_query_attention(model: nn.Module, shallow: Sequence[Rows], query_ids: Sequence[int]) -> Scores:
    """Attention of the query in layer 1 over freshly computed rows, summed over heads and query tokens. FP64 [N].

    Args:
        shallow: layers 0 and 1 of the edited context's clean cache.
    """
    length = shallow[0].keys.shape[-2]
    observer = _Columns(model, length, last_layer=len(shallow) - 1)
    if query_ids:
        observe(model, passing_cache(shallow), as_batch(model, query_ids, input_device(model)), observer, length)
    return observer.total.numpy()
