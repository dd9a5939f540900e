"""Interval-wise executor: the reference (paper section 7.1, "Sparse refresh reads mixed history")."""

from collections.abc import Sequence

import torch
from torch import nn
from transformers.cache_utils import DynamicCache

from cachemend.repair_core.caches import Rows, plain_cache, read_rows
from cachemend.repair_core.executors.base import Executor, copy_into, per_sequence
from cachemend.repair_core.intervals import maximal_intervals
from cachemend.repair_core.prefilling import extend


class IntervalExecutor(Executor):
    """Forwards each maximal interval on a copy of the prefix before it, then reassembles the cache.

    It uses ordinary model forwards and tensor concatenation only, and shares no attention, mask or cache code
    with the packed executor.
    """

    def run(
        self,
        model: nn.Module,
        rows: Sequence[Rows],
        ids: torch.Tensor,
        positions: torch.Tensor,
        in_place: bool,
    ) -> list[Rows]:
        def one(layers: list[Rows], tokens: torch.Tensor, where: torch.Tensor) -> list[Rows]:
            for start, stop in maximal_intervals(where.numpy()):
                layers = _replace(model, layers, tokens, start, stop)
            return layers

        fresh = per_sequence(one, rows, ids, positions)
        return copy_into(rows, fresh) if in_place else fresh


def _replace(model: nn.Module, layers: list[Rows], ids: torch.Tensor, start: int, stop: int) -> list[Rows]:
    prefix = plain_cache([Rows(k[:, :, :start].clone(), v[:, :, :start].clone()) for k, v in layers])
    cache = prefix if start else DynamicCache()
    extend(model, cache, ids[:, start:stop], start)
    return [
        Rows(
            torch.cat((old.keys[:, :, :start], new.keys[:, :, start:], old.keys[:, :, stop:]), dim=-2),
            torch.cat((old.values[:, :, :start], new.values[:, :, start:], old.values[:, :, stop:]), dim=-2),
        )
        for old, new in zip(layers, read_rows(cache), strict=True)
    ]
