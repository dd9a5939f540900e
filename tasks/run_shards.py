"""The stage that computes: shards go to workers, and each that returns is written at once."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from cachemend.datasets.cohort import read_cohort
from cachemend.tasks.identity import Identity
from cachemend.tasks.plan import Shard
from cachemend.tasks.pool import WorkerPool
from cachemend.tasks.progress import progress
from cachemend.tasks.records import record_rows
from cachemend.tasks.stage import stage
from cachemend.tasks.work import get_work
from cachemend.warehouse.parts import write_part


class Written(NamedTuple):
    """How many records a run wrote, and how many of them are not ok."""

    n_records: int
    n_failed: int


@stage(name="run shards")
def run_shards(
    work_name: str,
    pool: WorkerPool,
    shards: Sequence[Shard],
    *,
    results: Path,
    cohort_file: Path,
    identity: Identity,
    run_id: str,
) -> Written:
    """Run all shards and write one part for each as soon as it returns.

    This process writes, not the workers: when it is killed, only what was in flight is lost.

    Raises:
        InputError: workers cannot load the model, or the results folder cannot be written.
    """
    work = get_work(work_name)
    cases = read_cohort(cohort_file, work.case_type).cases
    outcomes: Counter[str] = Counter()
    with progress(sum(len(shard.arms) for shard in shards), identity.experiment) as advance:
        for shard, result in pool.run(work, shards, cases):
            case = cases[shard.case_index]
            rows = record_rows(work, identity, run_id, case, result.worker, result.measured)
            if rows:
                write_part(results, work.table, rows)
            # A timing has no outcome of its own: one that fails ends the run.
            outcomes.update(row.get("outcome", "ok") for row in rows)
            advance(len(shard.arms))
    return Written(outcomes.total(), outcomes.total() - outcomes["ok"])
