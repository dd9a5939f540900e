"""Packed refresh replayed from a CUDA graph: one launch instead of one per operation. Experimental.

It needs a CUDA device and has not run on one; it is never chosen unless named.
"""

from collections import OrderedDict
from collections.abc import Sequence
from contextlib import nullcontext
from typing import ClassVar
from weakref import WeakKeyDictionary

import torch
from torch import nn

from cachemend.repair_core.architecture import LENGTH_DEPENDENT_ROPE, rope_types
from cachemend.repair_core.caches import Rows, clone_rows
from cachemend.repair_core.errors import Refused
from cachemend.repair_core.executors.fused_projections import fused_projections
from cachemend.repair_core.executors.packed import PackedExecutor
from cachemend.repair_core.executors.static_refresh import Bucket, StaticRefresh
from cachemend.repair_core.forward import model_lock

# They plan on the device; FlexAttention lays out its blocks on the host.
STATIC_ATTENTIONS = ("sdpa", "triton", "triton-split", "triton-fused")
WARM_UPS = 3
# Captured refreshes of a model that are kept; each holds a cache of its bucket.
KEPT = 4

_captured: "WeakKeyDictionary[nn.Module, OrderedDict[tuple[object, ...], _Captured]]" = WeakKeyDictionary()


class GraphExecutor(PackedExecutor):
    """One CUDA graph per bucket of rows and keys, one sequence at a time."""

    name: ClassVar[str] = "packed-graph"
    fuses: ClassVar[bool] = False

    def run(
        self,
        model: nn.Module,
        rows: Sequence[Rows],
        ids: torch.Tensor,
        positions: torch.Tensor,
        in_place: bool,
    ) -> list[Rows]:
        self._check(model, rows)
        out = list(rows) if in_place else clone_rows(rows)
        with model_lock(model):
            bucket = Bucket.of(positions.shape[1], ids.shape[1])
            captured = self._captured(model, rows, bucket)
            captured.static.load(rows, ids, positions)
            captured.graph.replay()
            captured.static.store(out, positions)
        return out

    def _check(self, model: nn.Module, rows: Sequence[Rows]) -> None:
        devices = {layer.keys.device for layer in rows}
        if any(device.type != "cuda" for device in devices):
            raise Refused(f"executor {self.name!r} needs a CUDA device; the cache is on {rows[0].keys.device}")
        if len(devices) > 1:
            raise Refused(f"executor {self.name!r} needs the model on one device; the cache is on {len(devices)}")
        if rows[0].keys.shape[0] != 1:
            raise Refused(f"executor {self.name!r} takes one sequence; the cache holds {rows[0].keys.shape[0]}")
        if self.attention not in STATIC_ATTENTIONS:
            raise Refused(f"executor {self.name!r} cannot run attention backend {self.attention!r}")
        changing = [kind for kind in rope_types(model) if kind in LENGTH_DEPENDENT_ROPE]
        if changing:
            raise Refused(f"executor {self.name!r}: rope_type {changing[0]!r} changes with the context's length")

    def _captured(self, model: nn.Module, rows: Sequence[Rows], bucket: Bucket) -> "_Captured":
        kept = _captured.setdefault(model, OrderedDict())
        key = (self.name, self.attention, bucket, rows[0].keys.dtype, rows[0].keys.device)
        if key not in kept:
            static = StaticRefresh(model, rows, bucket, self.attention)
            with fused_projections(model) if self.fuses else nullcontext():
                kept[key] = _Captured(static)
            if len(kept) > KEPT:
                kept.popitem(last=False)
        kept.move_to_end(key)
        return kept[key]


class FusedGraphExecutor(GraphExecutor):
    """The same with the query, key and value projections, and gate and up, as one product each."""

    name = "packed-graph-fused"
    fuses = True


class _Captured:
    """A static refresh and the graph of its step."""

    def __init__(self, static: StaticRefresh) -> None:
        self.static = static
        self.graph = torch.cuda.CUDAGraph()
        device = static.tokens.device
        with torch.cuda.device(device), torch.no_grad():
            side = torch.cuda.Stream(device)
            side.wait_stream(torch.cuda.current_stream(device))
            with torch.cuda.stream(side):
                for _ in range(WARM_UPS):
                    static.step()
            torch.cuda.current_stream(device).wait_stream(side)
            try:
                with torch.cuda.graph(self.graph):
                    static.step()
            except torch.OutOfMemoryError:
                raise
            except RuntimeError as error:
                reason = str(error).splitlines()[0]
                raise Refused(f"this model's forward cannot be captured in a CUDA graph ({reason})") from error
