"""Ray actors that each hold one model and apply a plain function to it and to chunks of candidates."""

import logging
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Self, TypeVar

import ray
from ray.exceptions import RayActorError, RayTaskError

from cachemend.calibration.candidate import Candidate
from cachemend.calibration.verdicts import RESPONSE_VALIDITY, Question, Verdict
from cachemend.repair_core import LoadedModel
from cachemend.repair_core.errors import InputError
from cachemend.tasks.actors import RepairWorker
from cachemend.tasks.sizing import PoolSize
from cachemend.tasks.verifying.likelihoods import response_likelihoods
from cachemend.tasks.verifying.local import DECODING, local_verdicts
from cachemend.tasks.worker_spec import ModelIdentity, WorkerSpec

logger = logging.getLogger(__name__)

Result = TypeVar("Result")

_CHUNK = 32
_TRIES_AFTER_DEATH = 1


class ModelWorker(RepairWorker):
    """A worker that applies functions to its model instead of running arms."""

    def apply(self, function: Callable[[LoadedModel, Sequence[Candidate]], Any], chunk: Sequence[Candidate]) -> Any:
        return function(self._loaded(), chunk)


class ModelActors:
    """A source of verdicts, and of likelihoods, that runs on several workers; a context manager.

    A worker that dies is started again and its chunk tried once more. The candidates of a chunk that costs two
    workers are `FAILED`.

    Args:
        spec: the model and where it runs.
        size: how many workers, and what one asks of Ray.
        question: what the model is asked.

    Raises:
        InputError: on entering: the model cannot be loaded.
    """

    decoding = DECODING

    def __init__(self, spec: WorkerSpec, size: PoolSize, question: Question = RESPONSE_VALIDITY) -> None:
        self.question = question
        self._spec = spec
        self._size = size
        self._actors: list[Any] = []
        self._identity: ModelIdentity | None = None

    def __enter__(self) -> Self:
        size = self._size
        options = {"num_cpus": size.cpus, "num_gpus": size.gpus, "max_restarts": -1}
        made = ray.remote(ModelWorker).options(**options, max_task_retries=_TRIES_AFTER_DEATH)
        self._actors = [made.remote(self._spec, size.threads, size.gpus > 0) for _ in range(size.workers)]
        try:
            self._identity = ray.get([actor.load.remote() for actor in self._actors])[0]
        except (RayTaskError, RayActorError) as error:
            self.__exit__()
            if isinstance(error, RayTaskError):
                raise _cause(error) from error
            raise InputError(f"workers die while they load model {self._spec.model!r}; see Ray's logs") from error
        return self

    def __exit__(self, *_: object) -> None:
        for actor in self._actors:
            ray.kill(actor)
        self._actors.clear()

    @property
    def fingerprint(self) -> str:
        if self._identity is None:
            raise RuntimeError("the workers have no model yet; enter the context manager first")
        return f"{self._identity.fingerprint}-{self._identity.dtype}"

    def verdicts(self, candidates: Sequence[Candidate]) -> list[Verdict]:
        return self.map(partial(local_verdicts, question=self.question), candidates, Verdict.FAILED)

    def likelihoods(self, candidates: Sequence[Candidate]) -> list[float]:
        """As `response_likelihoods`."""
        return self.map(response_likelihoods, candidates, float("nan"))

    def map(
        self,
        function: Callable[[LoadedModel, Sequence[Candidate]], Iterable[Result]],
        candidates: Sequence[Candidate],
        failed: Result,
    ) -> list[Result]:
        """Apply `function` to chunks of candidates of similar lengths and return its results in their order."""
        results: list[Result] = [failed] * len(candidates)
        order = sorted(range(len(candidates)), key=lambda index: -_characters(candidates[index]))
        chunks = deque(order[start : start + _CHUNK] for start in range(0, len(order), _CHUNK))
        idle = list(self._actors)
        busy: dict[Any, tuple[list[int], Any]] = {}
        while chunks or busy:
            while chunks and idle:
                chunk, actor = chunks.popleft(), idle.pop()
                busy[actor.apply.remote(function, [candidates[index] for index in chunk])] = chunk, actor
            (ready,), _ = ray.wait(list(busy), num_returns=1)
            chunk, actor = busy.pop(ready)
            idle.append(actor)
            try:
                for index, result in zip(chunk, ray.get(ready), strict=True):
                    results[index] = result
            except RayActorError as error:
                logger.warning("%d candidates cost two workers (%s)", len(chunk), type(error).__name__)
            except RayTaskError as error:
                raise _cause(error) from error
        return results


def _cause(error: RayTaskError) -> Exception:
    return type(error.cause)(str(error.cause)) if isinstance(error.cause, InputError) else error


def _characters(candidate: Candidate) -> int:
    texts = (candidate.q_cache, candidate.r_cache, candidate.context_cache, candidate.q_probe, candidate.context_probe)
    return sum(map(len, texts))
