"""What every experiment's flow does around its own work: the run's name, its workers, and the log of how it went."""

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from prefect.runtime import flow_run

from cachemend.flows.results_folder import kept
from cachemend.flows.settings import Settings, load_settings
from cachemend.tasks.cluster import connected
from cachemend.tasks.identify import identify_model
from cachemend.tasks.plan import plan_shards
from cachemend.tasks.pool import WorkerPool
from cachemend.tasks.provenance import GitState, git_state
from cachemend.tasks.run_rows import RunLog
from cachemend.tasks.run_shards import Written, run_shards
from cachemend.tasks.sizing import PoolSize, pool_size, weight_bytes
from cachemend.tasks.worker_spec import ModelIdentity, WorkerSpec


class SomeFailed(RuntimeError):
    """A scheduled run ended with failed records; the state of the flow run must say so."""


class RunName(NamedTuple):
    """A run and the time it belongs to."""

    run_id: str
    nominal: datetime


class Staff(NamedTuple):
    """Workers, the model as they loaded it, and how many there are."""

    pool: WorkerPool
    model: ModelIdentity
    size: PoolSize


def run_name() -> RunName:
    """Name the flow run that is in progress."""
    # A scheduled run belongs to the time it was scheduled for, however late it starts.
    nominal = flow_run.scheduled_start_time.astimezone(UTC)
    return RunName(f"{nominal:%Y%m%dT%H%M%S}-{str(flow_run.id)[-8:]}", nominal)


@contextmanager
def staffed(
    spec: WorkerSpec, address: str | None, *, workers: int | None = None, threads: int | None = None
) -> Iterator[Staff]:
    """Connect to Ray, start the first worker, and stop them all at the end of the block.

    Args:
        spec: what workers are told.
        address: a running Ray cluster; None for one of our own.
        workers, threads: the user's choice; None for that of the environment, or to fit the machine.

    Raises:
        InputError: no such cluster, or a model that cannot be loaded or repaired.
    """
    settings = load_settings()
    workers, threads = workers or settings.workers, threads or settings.threads
    with connected(address, cores(workers, threads)) as have:
        size = pool_size(have, spec, workers=workers, threads=threads, model_bytes=weight_bytes(spec))
        with WorkerPool(spec, size) as pool:
            yield Staff(pool, identify_model(pool), size)


class Tally:
    """Records written by the stages of one run."""

    def __init__(self) -> None:
        self.written = Written(0, 0)

    def add(self, written: Written) -> None:
        """Count what one stage wrote."""
        self.written = Written(*(a + b for a, b in zip(self.written, written, strict=True)))


@contextmanager
def logged(log: RunLog) -> Iterator[Tally]:
    """Write the run's row at the start and at the end of the block, however it ends."""
    log.write("running")
    tally = Tally()
    try:
        yield tally
    except BaseException:
        log.write("failed")
        print(kept(log.results, log.run_id, log.work.table), file=sys.stderr)
        raise
    log.write("done", tally.written)


def compute(log: RunLog, staff: Staff, cohort_file: Path, arms_of: Mapping[int, Sequence[Any]], tally: Tally) -> None:
    """Run on the workers what is missing of the arms of some cases; parts that were set aside are named.

    Args:
        log: of the run; says the kind of work, where results belong and what their rows share.
        staff: its workers.
        cohort_file: the cohort.
        arms_of: the arms of a case, by its place in the cohort.
        tally: counts what is written.
    """
    plan = plan_shards(log.work.name, log.results, cohort_file, tuple(arms_of), arms_of.__getitem__, log.identity)
    for line in plan.corrupt:
        print(f"warning: {line}", file=sys.stderr)
    written = run_shards(
        log.work.name,
        staff.pool,
        plan.shards,
        results=log.results,
        cohort_file=cohort_file,
        identity=log.identity,
        run_id=log.run_id,
    )
    tally.add(written)


def code_state(settings: Settings | None = None) -> GitState:
    """The state of the code: what a job was told, or that of the checkout."""
    settings = settings or load_settings()
    if settings.git_commit is not None:
        return GitState(settings.git_commit, settings.git_dirty)
    return git_state()


def cores(workers: int | None, threads: int | None) -> int | None:
    """Cores our own cluster must report for what the user asks; None for the machine's."""
    wanted = (workers or 0) * (threads or 1)
    return wanted if wanted > (os.cpu_count() or 1) else None
