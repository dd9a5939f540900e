"""The Ray actor: one loaded model that runs the arms of one case after another, whatever kind of work they are."""

import gc
import logging
import os
import socket
from collections.abc import Sequence
from typing import Any

import torch

from cachemend.repair_core import LoadedModel, load_model
from cachemend.repair_core.executors.backends import require_attention
from cachemend.tasks.failures import outcome_of
from cachemend.tasks.provenance import hardware
from cachemend.tasks.work import Place, get_work
from cachemend.tasks.worker_spec import ModelIdentity, ShardResult, WorkerSpec

logger = logging.getLogger(__name__)


class RepairWorker:
    """Runs shards on one loaded model. Made an actor by the pool; a plain object otherwise.

    Args:
        spec: the model and how to run it.
        threads: CPU threads of this worker, so that several on a machine do not oversubscribe it.
        on_gpu: whether this worker was given a GPU.
    """

    def __init__(self, spec: WorkerSpec, threads: int, on_gpu: bool) -> None:
        torch.set_num_threads(threads)
        self._spec = spec
        self._on_gpu = on_gpu
        self._model: LoadedModel | None = None
        self._auxiliary: LoadedModel | None = None
        self._name = f"{socket.gethostname()}:{os.getpid()}"

    def load(self) -> ModelIdentity:
        """Load the model, once.

        Not in the constructor: an actor whose constructor raises is dead, and its error a text.

        Raises:
            InputError: the model cannot be loaded or repaired, or the attention backend cannot run here; the line
                names why.
        """
        model = self._loaded()
        table = model.model.get_input_embeddings().weight  # type: ignore[operator]
        # Records name the backend, so none may run under another's name.
        require_attention(self._spec.attention, table.device, table.dtype)
        logger.info("worker %s loaded %s (%s)", self._name, model.name, model.dtype)
        auxiliary = self._auxiliary.fingerprint if self._auxiliary is not None else "target"
        return ModelIdentity(model.fingerprint, model.dtype, model.revision, auxiliary, hardware())

    def run(self, work_name: str, case: Any, arms: Sequence[Any]) -> ShardResult:
        """Run the arms of a case; a failure becomes rows that name it, never an exception."""
        work = get_work(work_name)
        try:
            measured = work.run(Place(self._loaded(), self._auxiliary, self._spec), case, arms)
        except Exception as error:
            logger.exception("case %s failed on worker %s", case.case_id, self._name)
            measured = [row for arm in arms for row in work.failed(case, arm, *outcome_of(error))]
        if any(row.get("outcome") == "out_of_memory" for _, row in measured):
            _release_memory()
        return ShardResult(self._name, measured)

    def _loaded(self) -> LoadedModel:
        if self._model is None:
            spec = self._spec
            placed = spec.device_map is not None
            options: dict[str, Any] = {"device_map": spec.device_map} if placed else {}
            device = "cuda" if self._on_gpu else "cpu"
            # The auxiliary model first: a worker without it must not look loaded.
            if spec.auxiliary is not None:
                self._auxiliary = load_model(spec.auxiliary, dtype=spec.dtype, device=device)
            self._model = load_model(
                spec.model,
                dtype=spec.dtype,
                device=None if placed else device,
                revision=spec.revision,
                trust_remote_code=spec.trust_remote_code,
                **options,
            )
        return self._model


def _release_memory() -> None:
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
