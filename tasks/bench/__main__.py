"""Run every benchmark on the embedded model; nothing else should run on the machine."""

import os

import torch

from cachemend.repair_core import load_model
from cachemend.tasks.bench.executors import bench_executors
from cachemend.tasks.bench.selection import bench_selection
from cachemend.tasks.bench.sharing import bench_sharing


def main() -> None:
    """Print the ratios of this machine."""
    torch.set_num_threads(os.cpu_count() or 1)
    loaded = load_model("smollm2-135m", dtype="float32")
    bench_executors(loaded)
    bench_selection(loaded)
    bench_sharing(loaded)


if __name__ == "__main__":
    main()
