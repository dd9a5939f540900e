"""A packed refresh over buffers that stay where they are, so that a CUDA graph can replay it."""

from collections.abc import Sequence

import torch
from torch import nn

from cachemend.repair_core.architecture import layer_windows
from cachemend.repair_core.caches import Rows
from cachemend.repair_core.executors.backends import plan_class
from cachemend.repair_core.executors.packed import traverse

SMALLEST_ROWS = 16
KEYS_STEP = 1024


class Bucket(tuple[int, int]):
    """(rows, keys) that a refresh is padded to."""

    @classmethod
    def of(cls, rows: int, keys: int) -> "Bucket":
        """The next power of two of rows, from 16 on, and the next multiple of 1,024 keys."""
        return cls((max(SMALLEST_ROWS, 1 << (rows - 1).bit_length()), -(-keys // KEYS_STEP) * KEYS_STEP))


class StaticRefresh:
    """Tokens, positions and K/V rows of one bucket, and the step that refreshes them.

    Fewer rows are filled up by copies of the last one. What the copies compute goes to a row behind the keys that
    nothing sees: they may round otherwise than the row itself, and would be written by several programs to one place.

    Args:
        model: a Hugging Face causal language model; it is not kept.
        like: rows of one sequence, for shapes, formats and places.
        bucket: (rows, keys) of the buffers.
        attention: a backend that needs nothing from the host, see `graphed.STATIC_ATTENTIONS`.
    """

    def __init__(self, model: nn.Module, like: Sequence[Rows], bucket: tuple[int, int], attention: str) -> None:
        count, self.keys = bucket
        device = like[0].keys.device
        self.kind = plan_class(attention)
        self.windows = layer_windows(model)
        self.tokens = torch.zeros(1, count, dtype=torch.int64, device=device)
        self.positions = torch.zeros(1, count, dtype=torch.int64, device=device)
        self.targets = torch.zeros(1, count, dtype=torch.int64, device=device)
        self.rows = [Rows(*(t.new_zeros(1, t.shape[1], self.keys + 1, t.shape[3]) for t in layer)) for layer in like]

    def load(self, rows: Sequence[Rows], ids: torch.Tensor, positions: torch.Tensor) -> None:
        """Take over a cache of N rows, the ids [1, N] of its context and the positions [1, B] to refresh."""
        short = self.positions.shape[1] - positions.shape[1]
        where = torch.cat((positions, positions[:, -1:].expand(-1, short)), dim=1).to(self.positions.device)
        self.positions.copy_(where)
        self.targets.copy_(where)
        self.targets[:, positions.shape[1] :] = self.keys
        self.tokens.copy_(ids.gather(1, where))
        for mine, given in zip(self.rows, rows, strict=True):
            for target, source in zip(mine, given, strict=True):
                target[:, :, : source.shape[2]].copy_(source)
                # A weight of zero times what an earlier context left there is no zero where that was not finite.
                target[:, :, source.shape[2] :].zero_()

    def step(self, model: nn.Module) -> None:
        """Refresh the buffers' rows at their positions. The plan is made of device tensors, inside the step."""
        plan = self.kind.build_static(self.targets, self.positions, self.windows, self.keys)
        traverse(model, plan, self.rows, self.tokens, self.positions, in_place=True)

    def store(self, rows: Sequence[Rows], positions: torch.Tensor) -> None:
        """Write the refreshed rows at `positions` [1, B] into `rows`."""
        for mine, given in zip(self.rows, rows, strict=True):
            for source, target in zip(mine, given, strict=True):
                index = positions[0].to(target.device)
                target.index_copy_(2, index, source.index_select(2, index))
