"""Workers on Ray, each with one model, and the loop that keeps every one of them busy.

Ray's own helpers do not fit: an actor pool cannot hand an exception on, and a data pipeline drops a whole block
for one bad case. Here every shard comes back, with measurements or with the reason why not.
"""

import logging
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import ray
from ray.exceptions import OutOfMemoryError, RayActorError, RayTaskError, WorkerCrashedError

from cachemend.repair_core.errors import InputError
from cachemend.tasks.actors import RepairWorker
from cachemend.tasks.failures import outcome_of
from cachemend.tasks.plan import Shard
from cachemend.tasks.sizing import PoolSize
from cachemend.tasks.work import Work
from cachemend.tasks.worker_spec import ModelIdentity, ShardResult, WorkerSpec

logger = logging.getLogger(__name__)

ATTEMPTS = 2
_WAIT_SECONDS = 60.0
_LOW_MEMORY = "running low on memory"  # Ray's own memory monitor; its general text also speaks of an OOM killer


class Finished(NamedTuple):
    """A shard that needs no more work, and the measurements of its arms."""

    shard: Shard
    result: ShardResult


class _Lost(NamedTuple):
    """A call that never came back: how its shard fails if it is not tried again."""

    outcome: str
    reason: str


@dataclass(eq=False)
class _Slot:
    """One actor and what it is doing: loading (no identity yet), a shard, or nothing (no ref)."""

    actor: Any
    ref: Any
    shard: Shard | None = None
    identity: ModelIdentity | None = None


class WorkerPool:
    """A bounded number of workers. Each holds one shard at a time, so a death names the shard that caused it.

    Args:
        spec: the model and how to run it.
        size: how many workers, and what one asks of Ray.
    """

    def __init__(self, spec: WorkerSpec, size: PoolSize) -> None:
        self.spec = spec
        self.size = size
        self._slots: list[_Slot] = []
        self._died_loading = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for slot in self._slots:
            ray.kill(slot.actor)
        self._slots.clear()

    def identify(self) -> ModelIdentity:
        """Start the first worker and return the model as it loaded it.

        Raises:
            InputError: the model cannot be loaded or repaired, or the worker died of it.
        """
        while True:
            for slot in self._slots:
                if slot.identity:
                    return slot.identity
            if not self._slots:
                self._spawn()
            for slot in self._ready():
                self._take(slot)

    def run(self, work: Work, shards: Sequence[Shard], cases: Sequence[Any]) -> Iterator[Finished]:
        """Run all shards and yield each as it finishes, in no fixed order.

        A worker that dies is replaced and its shard tried once more; a shard that costs two workers is given up
        and its arms get the outcome `worker_died`.

        Args:
            work: the kind of work.
            shards: what to run.
            cases: the cohort's cases, which the shards' indices point into.

        Raises:
            InputError: workers die while they load the model.
        """
        queue = deque(shards)
        deaths: Counter[Shard] = Counter()
        while True:
            self._assign(work, queue, cases)
            if not queue and not any(slot.shard for slot in self._slots):
                return
            for slot in self._ready():
                shard = slot.shard
                got = self._take(slot)
                if shard is None or got is None:
                    continue
                if isinstance(got, _Lost):
                    deaths[shard] += 1
                    if deaths[shard] < ATTEMPTS:
                        queue.appendleft(shard)
                        continue
                    case = cases[shard.case_index]
                    got = ShardResult("lost", [row for arm in shard.arms for row in work.failed(case, arm, *got)])
                self._assign(work, queue, cases)  # before the caller writes this shard
                yield Finished(shard, got)

    def _assign(self, work: Work, queue: deque[Shard], cases: Sequence[Any]) -> None:
        """Start workers that are missing and give the idle ones a shard each."""
        busy = sum(slot.shard is not None for slot in self._slots)
        while len(self._slots) < min(self.size.workers, busy + len(queue)):
            self._spawn()
        for slot in self._slots:
            if queue and slot.identity and slot.shard is None:
                slot.shard = queue.popleft()
                slot.ref = slot.actor.run.remote(work.name, cases[slot.shard.case_index], slot.shard.arms)

    def _spawn(self) -> None:
        size = self.size
        actor = (
            ray.remote(RepairWorker)
            .options(num_cpus=size.cpus, num_gpus=size.gpus, max_restarts=0, max_task_retries=0)
            .remote(self.spec, size.threads, size.gpus > 0)
        )
        self._slots.append(_Slot(actor, actor.load.remote()))

    def _ready(self) -> list[_Slot]:
        refs = [slot.ref for slot in self._slots if slot.ref is not None]
        ready, _ = ray.wait(refs, num_returns=1, timeout=_WAIT_SECONDS)
        if not ready and not any(slot.identity for slot in self._slots):
            logger.warning("still waiting for the cluster to start a worker of %s", self.spec.model)
        return [slot for slot in self._slots if slot.ref in ready]

    def _take(self, slot: _Slot) -> ShardResult | _Lost | None:
        """Fetch what a slot has ready; a dead worker's slot is removed. None after loading."""
        ref, shard, slot.ref, slot.shard = slot.ref, slot.shard, None, None
        try:
            got = ray.get(ref)
        except RayTaskError as error:
            if shard is None:
                raise _load_error(error) from error
            return _Lost(*outcome_of(error.cause))
        except (RayActorError, WorkerCrashedError, OutOfMemoryError) as error:
            self._slots.remove(slot)
            ray.kill(slot.actor)  # it may only be out of reach
            return self._lost(shard, error)
        if shard is None:
            slot.identity = got
            self._died_loading = 0
            return None
        result: ShardResult = got
        return result

    def _lost(self, shard: Shard | None, error: Exception) -> _Lost:
        memory = isinstance(error, OutOfMemoryError) or _LOW_MEMORY in str(error)
        if shard is None:
            self._died_loading += 1
            if self._died_loading >= ATTEMPTS:
                why = "the machine runs out of memory" if memory else "see Ray's session logs"
                raise InputError(f"workers die while they load model {self.spec.model!r}: {why}") from error
            return _Lost("worker_died", "died while loading")
        logger.warning("a worker died while it ran case %d", shard.case_index)
        if memory:
            return _Lost("out_of_memory", f"{ATTEMPTS} workers were stopped on this case: {_LOW_MEMORY}")
        return _Lost("worker_died", f"{ATTEMPTS} worker processes died on this case")


def _load_error(error: RayTaskError) -> Exception:
    if isinstance(error.cause, InputError):
        return type(error.cause)(str(error.cause))
    outcome, reason = outcome_of(error.cause)
    return InputError(f"model does not fit this worker ({reason})") if outcome == "out_of_memory" else error
