"""Packed refresh replayed from a CUDA graph: one launch instead of one per operation. Experimental.

It needs a CUDA device and has not run on one; it is never chosen unless named. Refreshes of one model may come from
several threads and streams: they follow each other. A capture is made in CUDA's global mode: while it lasts (the first
refresh of a bucket, and the first after the weights have moved) no other thread may allocate or synchronise on the
device, whatever model it runs. A model must not be freed before its last refresh is done on the device.
"""

from collections.abc import Sequence
from contextlib import nullcontext
from typing import ClassVar

import torch
from torch import nn

from cachemend.repair_core.architecture import LENGTH_DEPENDENT_ROPE, rope_types
from cachemend.repair_core.caches import Rows, clone_rows
from cachemend.repair_core.errors import Refused
from cachemend.repair_core.executors.captures import Captures, tensors_of
from cachemend.repair_core.executors.fused_projections import Joined, fused_projections, joining_moves
from cachemend.repair_core.executors.packed import PackedExecutor
from cachemend.repair_core.executors.static_refresh import Bucket, StaticRefresh
from cachemend.repair_core.forward import model_lock

# They plan on the device; FlexAttention lays out its blocks on the host.
STATIC_ATTENTIONS = ("sdpa", "triton", "triton-split", "triton-fused")
WARM_UPS = 3
# Captured refreshes of a model that are kept; each holds a cache of its bucket.
KEPT = 4

_captures: "Captures[_Captured]" = Captures(KEPT)


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
            key = (self.name, self.attention, bucket, rows[0].keys.dtype, rows[0].keys.device)
            captured = _captures.get(
                model,
                key,
                lambda: self._capture(model, rows, bucket),
                moves=joining_moves if self.fuses else None,
            )
            captured.refresh(rows, ids, positions, out)
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

    def _capture(self, model: nn.Module, rows: Sequence[Rows], bucket: Bucket) -> "_Captured":
        static = StaticRefresh(model, rows, bucket, self.attention)
        # Joining moves the weights, which another stream may still read.
        torch.cuda.synchronize(rows[0].keys.device)
        with fused_projections(model) if self.fuses else nullcontext(()) as joined:
            return _Captured(model, static, joined)


class FusedGraphExecutor(GraphExecutor):
    """The same with the query, key and value projections, and gate and up, as one product each."""

    name = "packed-graph-fused"
    fuses = True


class _Captured:
    """A static refresh and the graph of its step. It holds the memory that the graph reads, and no model."""

    def __init__(self, model: nn.Module, static: StaticRefresh, joined: Sequence[Joined]) -> None:
        self._static = static
        self._read = (tensors_of(model), joined)
        self._graph = torch.cuda.CUDAGraph()
        self._done = torch.cuda.Event()
        self._device = device = static.tokens.device
        with torch.cuda.device(device), torch.no_grad():
            side = torch.cuda.Stream(device)
            side.wait_stream(torch.cuda.current_stream(device))
            with torch.cuda.stream(side):
                for _ in range(WARM_UPS):
                    static.step(model)
            torch.cuda.current_stream(device).wait_stream(side)
            try:
                with torch.cuda.graph(self._graph):
                    static.step(model)
            except torch.OutOfMemoryError:
                raise
            except RuntimeError as error:
                reason = str(error).splitlines()[0]
                raise Refused(f"this model's forward cannot be captured in a CUDA graph ({reason})") from error
            self._done.record()

    def refresh(self, rows: Sequence[Rows], ids: torch.Tensor, positions: torch.Tensor, out: Sequence[Rows]) -> None:
        """Replay over `rows` and write the refreshed ones into `out`, on the caller's stream."""
        with torch.cuda.device(self._device):
            # The lock orders the threads only; the buffers may still be in use on another stream.
            self._done.wait()
            try:
                self._static.load(rows, ids, positions)
                self._graph.replay()
                self._static.store(out, positions)
            finally:
                self._done.record()
