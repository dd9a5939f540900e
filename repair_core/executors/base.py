"""The contract of an executor: recompute given rows of a cache through every layer."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import ClassVar

import torch
from torch import nn

from cachemend.repair_core.caches import Rows


class Executor(ABC):
    """Recomputes the rows at `positions`, each reading fresh rows before it and cached rows elsewhere.

    Attributes:
        repairs: whether the result is that; all that repair have the same result up to rounding.
    """

    repairs: ClassVar[bool] = True

    @abstractmethod
    def run(
        self,
        model: nn.Module,
        rows: Sequence[Rows],
        ids: torch.Tensor,
        positions: torch.Tensor,
        in_place: bool,
    ) -> list[Rows]:
        """Return the layers with fresh K/V at `positions`.

        Args:
            model: a Hugging Face causal language model.
            rows: per layer keys and values [batch, heads, N, head dim]; only written when `in_place`.
            ids: int64 [batch, N], the edited context.
            positions: int64 [batch, B] on the CPU, B > 0, each row sorted and unique.
            in_place: write into `rows` and return them instead of allocating an output.
        """


def per_sequence(
    run: Callable[[list[Rows], torch.Tensor, torch.Tensor], list[Rows]],
    rows: Sequence[Rows],
    ids: torch.Tensor,
    positions: torch.Tensor,
) -> list[Rows]:
    """Apply `run` to the whole batch when its sequences share positions, else to each alone, and join."""
    if (positions == positions[:1]).all():
        return run(list(rows), ids, positions[0])
    parts = [
        run([Rows(k[i : i + 1], v[i : i + 1]) for k, v in rows], ids[i : i + 1], positions[i])
        for i in range(ids.shape[0])
    ]
    return [
        Rows(torch.cat([p.keys for p in layer]), torch.cat([p.values for p in layer]))
        for layer in zip(*parts, strict=True)
    ]


def copy_into(target: Sequence[Rows], source: Sequence[Rows]) -> list[Rows]:
    """Write `source` over `target` and return the latter."""
    for (keys, values), fresh in zip(target, source, strict=True):
        keys.copy_(fresh.keys)
        values.copy_(fresh.values)
    return list(target)
