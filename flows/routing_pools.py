"""The pools of a routing run: built, named where data is missing, and written as cohorts."""

from pathlib import Path
from typing import Any, NamedTuple

from cachemend.datasets.cohort import Cohort, write_cohort
from cachemend.datasets.pair import Pair
from cachemend.datasets.pair_build import SEED
from cachemend.datasets.pair_pool import POOL, assemble, build_hard_arm, build_pool
from cachemend.datasets.stress_search import Encode
from cachemend.datasets.stress_set import StressInput, build_stress
from cachemend.flows.routing_config import RUN_POOLS
from cachemend.repair_core.errors import InputError

STRESS = "stress"
_SEED_SET = tuple(source for source in POOL if not source.data)


class Pool(NamedTuple):
    """A pool to run: its name, its pairs as a cohort, and the cohort's file."""

    name: str
    cohort: Cohort
    file: Path


class Pools(NamedTuple):
    """The pools of a run, and a line for each that was left out or falls short."""

    pools: list[Pool]
    notes: list[str]


def build_pools(wanted: tuple[str, ...] | None, data: Path, results: Path, limit: int | None) -> Pools:
    """Build the pools that were asked for, or every one whose data is complete, and write them.

    The stress set needs the encoder and is built later, see `stress_pool`.

    Raises:
        InputError: a pool that was asked for has no data at all, or data that cannot be read; nothing is written.
    """
    built: list[tuple[str, Cohort]] = []
    notes: list[str] = []
    for name in wanted or RUN_POOLS:
        if name == STRESS:
            continue
        cohort = _cohort(name, data)
        lacking = {source: each["missing_files"] for source, each in cohort.manifest["sources"].items()}
        missing = ", ".join(sorted({file for files in lacking.values() for file in files}))
        if missing and wanted is None:
            notes.append(f"note: pool {name} is left out, {data} lacks {missing}; `cachemend data` says more")
            continue
        if missing and all(files for source, files in lacking.items() if source != _SEED_SET[0].name):
            raise InputError(f"pool {name!r} needs files that {data} lacks: {missing}; see `cachemend data`")
        if missing:
            notes.append(f"note: pool {name} is not whole, {data} lacks {missing}")
        built.append((name, cohort.prefix(limit)))
    return Pools([_written(name, cohort, results) for name, cohort in built], notes)


def stress_pool(data: Path, results: Path, encode: Encode, encoder: str, limit: int | None) -> Pool:
    """Search the stress set's suffixes, or read those searched before, and write the pool.

    Raises:
        InputError: the query pairs are missing or faulty, or no input comes near its cached request.
    """
    made = build_stress(data, encode, encoder=encoder, record=results / "stress-suffixes.json", n=limit)
    if not made.inputs:
        raise InputError(f"pool 'stress': none of {made.searched} inputs comes near its cached request")
    cohort = Cohort.of(
        "reuse-stress",
        [_stressed(each) for each in made.inputs],
        score_rule="label: 0, every input needs another tool than the cached response called",
        decoding="none",
        seed=SEED,
        searched=made.searched,
        below=made.below,
        close=made.close,
        encoded=made.encoded,
    )
    return _written(STRESS, cohort, results)


def _cohort(name: str, data: Path) -> Cohort:
    if name == "reconstruction":
        return build_pool(data)
    if name == "hard":
        return build_hard_arm(data)
    return assemble("reuse-seed-set", data, _SEED_SET, seed=SEED)


def _stressed(found: StressInput) -> Pair:
    texts: dict[str, Any] = {name: getattr(found.candidate, name) for name in found.candidate.__slots__}
    return Pair(
        pair_id=found.input_id,
        pool=STRESS,
        source="cacheattack",
        family="",
        cluster=found.input_id,
        rule="another tool",
        label=0,
        **texts,
    )


def _written(name: str, cohort: Cohort, results: Path) -> Pool:
    file = results / "cohorts" / f"routing-{name}-{cohort.digest[:12]}-{len(cohort.cases)}.json"
    return Pool(name, cohort, write_cohort(cohort, file))
