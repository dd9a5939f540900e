"""Independent counts of work: torch's own FLOP counter, a closed form, and the allocations torch reports."""

import json
import tempfile
from collections.abc import Callable
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile
from torch.utils.flop_counter import FlopCounterMode


def counted(function: Callable[[], object]) -> int:
    """FLOPs of the matrix products that `function` runs, as torch counts them while they run."""
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        function()
    return int(counter.get_total_flops())


def gated_row(hidden: int, heads: int, kv_heads: int, head_dim: int, intermediate: int, layers: int) -> int:
    """FLOPs of one row through the projections of a decoder with grouped queries and a gated MLP."""
    query_and_output = 2 * hidden * heads * head_dim
    key_and_value = 2 * hidden * kv_heads * head_dim
    return 2 * layers * (query_and_output + key_and_value + 3 * hidden * intermediate)


def peak_allocated(function: Callable[[], object]) -> int:
    """Peak bytes that torch allocated on the CPU while `function` ran, its result included."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        result = function()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(path))
        events = json.loads(path.read_text(encoding="utf-8"))["traceEvents"]
    del result
    current = peak = 0
    for event in sorted((e for e in events if e.get("name") == "[memory]"), key=lambda e: e["ts"]):
        current += event["args"]["Bytes"]
        peak = max(peak, current)
    return peak
