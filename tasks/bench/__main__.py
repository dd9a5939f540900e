"""Run every benchmark on the embedded model, on an otherwise idle machine. Exits 1 when a target is missed."""

import os
import sys

import torch

from cachemend.repair_core import load_model
from cachemend.tasks.bench.attention import bench_attention
from cachemend.tasks.bench.edits import bench_edits
from cachemend.tasks.bench.estimate import bench_estimate
from cachemend.tasks.bench.executors import bench_executors
from cachemend.tasks.bench.memory import bench_memory
from cachemend.tasks.bench.selection import bench_selection
from cachemend.tasks.bench.sharing import bench_sharing


def main() -> int:
    """Print the ratios of this machine, and which targets they meet."""
    torch.set_num_threads(os.cpu_count() or 1)
    loaded = load_model("smollm2-135m", dtype="float32")
    benches = (
        bench_executors,
        bench_attention,
        bench_selection,
        bench_edits,
        bench_estimate,
        bench_memory,
        bench_sharing,
    )
    targets = [target for bench in benches for target in bench(loaded)]
    print("\nTargets")
    for target in targets:
        print(f"  {target}")
    return 0 if all(target.met for target in targets) else 1


if __name__ == "__main__":
    sys.exit(main())
