"""Reuse of cached responses: conditions in batch and online, selection of a policy, and the cluster bootstrap."""

from collections.abc import Callable
from functools import partial

import numpy as np

from cachemend.calibration.cluster_tests import cluster_bootstrap
from cachemend.calibration.intervals import REPLICATES
from cachemend.datasets.pairs_seed import build_seed
from cachemend.tasks.bench.routing_choice import bench_choice
from cachemend.tasks.bench.routing_conditions import bench_batch, bench_online
from cachemend.tasks.bench.sampling import interleaved
from cachemend.tasks.bench.target import Target

# The repeated test subsets of the paper's evaluation (appendix A).
EXPOSURES, CLUSTERS = 13_911, 562


def bench_routing() -> list[Target]:
    """Print the times of every part and return the targets; no model is needed."""
    candidates = [pair.candidate for pair in build_seed().pairs]
    return [*bench_batch(candidates), *bench_online(candidates), *bench_choice(), *bench_bootstrap()]


def bench_bootstrap(
    exposures: int = EXPOSURES, clusters: int = CLUSTERS, replicates: int = REPLICATES, repeats: int = 3
) -> list[Target]:
    """Time the cluster bootstrap of two methods beside the draws of its clusters alone, and return the target."""
    rng = np.random.default_rng(0)
    valid, a, b = (rng.random(exposures) < share for share in (0.5, 0.4, 0.5))
    members = rng.integers(0, clusters, exposures)
    functions: dict[str, Callable[[], object]] = {
        "bootstrap": partial(cluster_bootstrap, a, b, valid, members, replicates=replicates),
        "draws": lambda: rng.integers(0, clusters, size=(replicates, clusters)),
    }
    times = interleaved(functions, repeats, warmups=1)
    print(f"\nCluster bootstrap, {exposures} exposures in {clusters} clusters, {replicates} draws, one thread")
    print(f"  bootstrap   {times['bootstrap']}\n  floor: draws of the clusters alone   {times['draws']}")
    return [Target(f"seconds for {replicates} draws of {clusters} clusters", times["bootstrap"].median, at_most=10)]
