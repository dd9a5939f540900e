"""Direct sequential executor: the interval-wise order without reassembling the cache (paper section 13.3)."""

from collections.abc import Sequence

import torch
from torch import nn

from cachemend.repair_core.caches import Rows, clone_rows, in_place_cache, set_length
from cachemend.repair_core.executors.base import Executor, per_sequence
from cachemend.repair_core.intervals import maximal_intervals
from cachemend.repair_core.prefilling import extend


class DirectExecutor(Executor):
    """Forwards each maximal interval in order; its rows are written straight over the stale ones."""

    def run(
        self,
        model: nn.Module,
        rows: Sequence[Rows],
        ids: torch.Tensor,
        positions: torch.Tensor,
        in_place: bool,
    ) -> list[Rows]:
        def one(layers: list[Rows], tokens: torch.Tensor, where: torch.Tensor) -> list[Rows]:
            cache = in_place_cache(layers, 0)
            for start, stop in maximal_intervals(where.numpy()):
                set_length(cache, start)
                extend(model, cache, tokens[:, start:stop], start)
            return layers

        target = list(rows) if in_place else clone_rows(rows)
        # Slices of a batch are views, so writing to them fills `target`; the joined copy is not needed.
        per_sequence(one, target, ids, positions)
        return target
