"""The evaluation pool of response reuse, rebuilt from its published description, and its hard arm.

The published rows cannot be recovered; this is a reconstruction with the published sources and numbers (paper
appendix A, table 5: 3,225 pairs, 1,667 valid and 1,558 invalid). A source that is absent or falls short leaves a
shortage, which the manifest states.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from cachemend.datasets.cohort import Cohort
from cachemend.datasets.inventory import inventory
from cachemend.datasets.pair import Pair
from cachemend.datasets.pair_build import SEED, Built
from cachemend.datasets.pair_clusters import cluster_pairs
from cachemend.repair_core.errors import InputError

BUILDER_VERSION = 1
_SCORE_RULE = "label: 1 where the cached response may be returned for the new request, 0 where it may not"
_DECODING = "none: the responses are the sources' own"


class PoolSource(NamedTuple):
    """A source of pairs and what the pool wants of it.

    Attributes:
        name: the source's name in the pairs.
        data: its name in the data inventory; "" for one that needs no files.
        module: the module of its builder, under ``cachemend.datasets``; imported only when it is built.
        function: the builder.
        valid, invalid: the numbers of pairs wanted.
    """

    name: str
    data: str
    module: str
    function: str
    valid: int
    invalid: int


# The published totals per source; the labels are split evenly but for Schema-Guided Dialogue, whose 826 valid and 716
# invalid pairs bring the pool to the published 1,667 and 1,558 (XSTest's number is odd).
POOL: tuple[PoolSource, ...] = (
    PoolSource("sgd", "Schema-Guided Dialogue dev", "pairs_sgd", "build_sgd", 826, 716),
    PoolSource("tau-bench", "tau-bench", "pairs_tau", "build_tau", 312, 312),
    PoolSource("situatedqa", "SituatedQA temp dev", "pairs_situated", "build_situated", 150, 150),
    PoolSource("xstest", "XSTest", "pairs_xstest", "build_xstest", 199, 200),
    PoolSource("seed", "", "pairs_seed", "build_seed", 180, 180),
)
HARD: tuple[PoolSource, ...] = (
    PoolSource("sgd", "Schema-Guided Dialogue dev", "pairs_hard", "build_sgd_hard", 200, 200),
    PoolSource("situatedqa", "SituatedQA temp dev", "pairs_hard", "build_situated_hard", 120, 120),
)


def build_pool(folder: Path, *, seed: int = SEED) -> Cohort:
    """Assemble the pool from the sources under a data folder.

    Returns:
        A cohort of `Pair`. Its manifest holds, beside the usual entries: counts by source, family, rule and label; per
        source what was wanted, what came, what is short, which files are missing and what was turned down; the
        clusters; the seed.

    Raises:
        InputError: a source's files are there but faulty, or no source gives a pair.
    """
    return assemble("reuse-pool", folder, POOL, seed=seed)


def build_hard_arm(folder: Path, *, seed: int = SEED) -> Cohort:
    """Assemble the hard arm; result and errors are those of `build_pool`."""
    return assemble("reuse-hard-arm", folder, HARD, seed=seed)


def assemble(name: str, folder: Path, sources: Sequence[PoolSource], *, seed: int) -> Cohort:
    """Build the given sources, drop repeated pairs, make the clusters final and write it all down."""
    present = {source.name: source for source in inventory(folder)}
    built: dict[str, Built] = {}
    missing: dict[str, tuple[str, ...]] = {}
    for source in sources:
        missing[source.name] = present[source.data].missing if source.data else ()
        built[source.name] = Built((), {}) if missing[source.name] else _build(source, folder, seed)
    distinct = _distinct([pair for one in built.values() for pair in one.pairs])
    if not distinct.pairs:
        lacking = "; ".join(f"{source}: {', '.join(files)}" for source, files in missing.items() if files)
        raise InputError(f"{name}: no pairs under {folder}; missing files: {lacking or 'none'}")
    clustered = cluster_pairs(distinct.pairs, seed=seed)
    pairs = clustered.pairs
    sizes = Counter(pair.cluster for pair in pairs)
    return Cohort.of(
        name,
        pairs,
        score_rule=_SCORE_RULE,
        decoding=_DECODING,
        builder_version=BUILDER_VERSION,
        reconstruction=True,
        seed=seed,
        sources={
            source.name: _account(source, pairs, missing[source.name], built[source.name].rejects) for source in sources
        },
        counts={
            field: dict(sorted(Counter(str(getattr(pair, field)) for pair in pairs).items()))
            for field in ("source", "family", "rule", "label")
        },
        rejects=distinct.rejects | clustered.rejects,
        clusters={
            "n": len(sizes),
            "largest": max(sizes.values()),
            "largest_share": max(sizes.values()) / len(pairs),
            "joined": clustered.n_joined,
        },
    )


def _build(source: PoolSource, folder: Path, seed: int) -> Built:
    builder = getattr(import_module(f"cachemend.datasets.{source.module}"), source.function)
    made: Built = builder(folder, n=source.valid + source.invalid, seed=seed) if source.data else builder(seed=seed)
    return made


def _distinct(pairs: Iterable[Pair]) -> Built:
    """Pairs of different texts; texts that came with both labels are dropped altogether."""
    by_texts: dict[tuple[str, ...], list[Pair]] = {}
    for pair in pairs:
        texts = (pair.q_cache, pair.r_cache, pair.context_cache, pair.q_probe, pair.context_probe)
        by_texts.setdefault(texts, []).append(pair)
    rejects: Counter[str] = Counter()
    kept = []
    for same in by_texts.values():
        if len({pair.label for pair in same}) > 1:
            rejects["the same texts with both labels"] += len(same)
        else:
            kept.append(same[0])
            rejects["the same texts as another pair"] += len(same) - 1
    return Built(tuple(kept), dict(+rejects))


def _account(
    source: PoolSource, pairs: Sequence[Pair], missing: tuple[str, ...], rejects: dict[str, int]
) -> dict[str, Any]:
    """What the manifest says of one source."""
    got = Counter(pair.label for pair in pairs if pair.source == source.name)
    wanted = {"valid": source.valid, "invalid": source.invalid}
    came = {"valid": got[1], "invalid": got[0]}
    return {
        "wanted": wanted,
        "got": came,
        "short": {label: max(0, wanted[label] - came[label]) for label in wanted},
        "missing_files": list(missing),
        "rejects": rejects,
    }
