"""Run every benchmark, most on the embedded model, on an otherwise idle machine. Exits 1 when a target is missed."""

import os
import sys
from collections.abc import Callable, Mapping, Sequence

import torch

from cachemend.repair_core import LoadedModel, load_model
from cachemend.repair_core.errors import nearest
from cachemend.tasks.bench.attention import bench_attention
from cachemend.tasks.bench.edits import bench_edits
from cachemend.tasks.bench.estimate import bench_estimate
from cachemend.tasks.bench.executors import bench_executors
from cachemend.tasks.bench.memory import bench_memory
from cachemend.tasks.bench.overlap import bench_overlap
from cachemend.tasks.bench.routing import bench_routing
from cachemend.tasks.bench.selection import bench_selection
from cachemend.tasks.bench.sharing import bench_sharing
from cachemend.tasks.bench.target import Target

SECTIONS: Mapping[str, Callable[[LoadedModel], list[Target]]] = {
    "executors": bench_executors,
    "attention": bench_attention,
    "selection": bench_selection,
    "overlap": bench_overlap,
    "edits": bench_edits,
    "estimate": bench_estimate,
    "memory": bench_memory,
    "sharing": bench_sharing,
    "routing": lambda _: bench_routing(),  # needs no model
}


def main(wanted: Sequence[str]) -> int:
    """Print the ratios of this machine, and which targets they meet.

    Args:
        wanted: sections to run; none for all.
    """
    unknown = [name for name in wanted if name not in SECTIONS]
    if unknown:
        print(f"error: section {unknown[0]!r} is unknown; {nearest(unknown[0], SECTIONS)}", file=sys.stderr)
        return 2
    torch.set_num_threads(os.cpu_count() or 1)
    loaded = load_model("smollm2-135m", dtype="float32")
    targets = [target for name in wanted or SECTIONS for target in SECTIONS[name](loaded)]
    print("\nTargets")
    for target in targets:
        print(f"  {target}")
    return 0 if all(target.met for target in targets) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
