"""What a backend of packed attention must do: say once where the rows stand, then serve every layer."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from functools import cached_property
from typing import Self

import torch

from cachemend.repair_core.architecture import Window


@dataclass(eq=False)
class AttentionPlan(ABC):
    """Which keys each packed row sees (paper Eq. 22) and where the rows are written (Eq. 21), for one refresh.

    Attributes:
        positions: int64 [1 or batch, B], sorted, where the rows stand in the cache; one row when every sequence
            selected the same positions.
        last_seen: int64, [1 or batch, B] and sorted, the last key that each row sees.
        windows: per layer, its window or None for full attention.
        static_keys: keys of a cache whose plan is made again on its device, whatever the positions are by then;
            None where the plan was made of positions on the CPU.
    """

    positions: torch.Tensor
    last_seen: torch.Tensor
    windows: tuple[Window | None, ...]
    static_keys: int | None = None
    _rows: dict[torch.device, torch.Tensor] = field(default_factory=dict)

    @classmethod
    def build(
        cls, positions: torch.Tensor, windows: tuple[Window | None, ...], last_seen: torch.Tensor | None = None
    ) -> Self:
        """Plan for `positions` [batch, B] on the CPU; a row sees the keys up to its own position unless told."""
        # A copy: what becomes of the caller's tensor must not reach a plan already made.
        where = (positions[:1] if (positions == positions[:1]).all() else positions).clone()
        plan = cls(positions=where, last_seen=where if last_seen is None else last_seen.clone(), windows=windows)
        for window in set(windows):
            plan.prepare(window)
        return plan

    @classmethod
    def build_static(
        cls, positions: torch.Tensor, last_seen: torch.Tensor, windows: tuple[Window | None, ...], keys: int
    ) -> Self:
        """Plan for rows at `positions` [1, B] that see up to `last_seen` [1, B] of a cache of at least `keys`.

        Both stay where they are; the host reads nothing of them.
        """
        plan = cls(positions=positions, last_seen=last_seen, windows=windows, static_keys=keys)
        for window in set(windows):
            plan.prepare(window)
        return plan

    def rows_on(self, device: torch.device) -> torch.Tensor:
        """`positions` on `device`."""
        if device not in self._rows:
            self._rows[device] = self.positions.to(device)
        return self._rows[device]

    def require_fit(self, query: torch.Tensor, key: torch.Tensor) -> None:
        """Check that query [batch, heads, B, d] and key [batch, kv heads, N, d] are those that were planned for.

        Raises:
            ValueError: another number of rows or sequences, or fewer keys than a row sees. A plan holds for one choice
                of positions; another choice needs another plan.
        """
        batch, heads, rows, _ = query.shape
        planned, count = self.positions.shape
        kv_batch, kv_heads, keys = key.shape[:3]
        if rows != count or planned not in (1, batch) or kv_batch != batch or heads % kv_heads:
            raise ValueError(
                f"the plan is for {count} rows of {planned} sequences; got query {tuple(query.shape)}, "
                f"key {tuple(key.shape)}: build a new plan"
            )
        if keys < self.keys_needed:
            raise ValueError(f"the plan reads {self.keys_needed} keys; the cache holds {keys}: build a new plan")

    @cached_property
    def keys_needed(self) -> int:
        """The fewest keys a cache must hold."""
        return self.static_keys or int(self.last_seen[:, -1].max()) + 1

    def write(self, target: torch.Tensor, fresh: torch.Tensor) -> None:
        """Put `fresh` [batch, kv heads, B, d] over the rows of `target` [batch, kv heads, N, d]."""
        index = self.rows_on(target.device)
        if index.shape[0] == 1:
            target.index_copy_(2, index[0], fresh)
        else:
            target.scatter_(2, index[:, None, :, None].expand(-1, target.shape[1], -1, target.shape[3]), fresh)

    def write_both(
        self, keys: torch.Tensor, values: torch.Tensor, fresh_keys: torch.Tensor, fresh_values: torch.Tensor
    ) -> None:
        """Put fresh keys and values over the rows of a layer."""
        self.write(keys, fresh_keys)
        self.write(values, fresh_values)

    @abstractmethod
    def prepare(self, window: Window | None) -> None:
        """Work out once what all layers with this window share."""

    @abstractmethod
    def attend(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        layer: int,
        scale: float,
        softcap: float | None = None,
        sinks: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Return softmax(scale * Q K[0:u]^T) V[0:u] row by row. [batch, B, heads, value dim].

        Args:
            query: [batch, heads, B, d].
            key, value: [batch, kv heads, N, d]; heads is a multiple of kv heads.
            layer: decides the window.
            scale: factor of the logits.
            softcap: logits become softcap * tanh(logits / softcap).
            sinks: [heads], one extra logit per head that takes probability and gives nothing.

        Raises:
            ValueError: rows, sequences or keys that were not planned for.
        """
