"""The actors of a routing run: the sentence encoder, and the local model where it is asked."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import ray
from pydantic import SecretStr
from ray.exceptions import RayTaskError

from cachemend.calibration.baselines.cache_me import QUERY_PAIR
from cachemend.calibration.candidate import Candidate
from cachemend.calibration.verdicts import Question, Verdict
from cachemend.repair_core.errors import InputError
from cachemend.tasks.encoding import Encoder, Vectors, load_encoder
from cachemend.tasks.routing.identity import NOT_ASKED
from cachemend.tasks.routing.measuring import Instruments
from cachemend.tasks.sizing import PoolSize
from cachemend.tasks.verifying.actors import ModelActors
from cachemend.tasks.verifying.endpoint import Endpoint
from cachemend.tasks.verifying.local import local_verdicts
from cachemend.tasks.verifying.recorded import RecordedVerdicts
from cachemend.tasks.verifying.remote import EndpointVerifier
from cachemend.tasks.verifying.source import VerdictSource
from cachemend.tasks.verifying.stored import StoredVerdicts
from cachemend.tasks.worker_spec import WorkerSpec


class EncodingWorker:
    """Holds the encoder. Made an actor by `staff`; a plain object otherwise."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._encoder: Encoder | None = None

    def load(self) -> str:
        """Load the encoder, once; its identity.

        Raises:
            InputError: it cannot be loaded.
        """
        self._encoder = load_encoder(self._name)
        return self._encoder.identity

    def encode(self, texts: Sequence[str]) -> Vectors:
        """As `Encoder.encode`."""
        if self._encoder is None:
            raise RuntimeError("the encoder is not loaded yet; call load first")
        return self._encoder.encode(texts)


class RouteStaff(NamedTuple):
    """Who measures a run's pairs.

    Attributes:
        instruments: what measures.
        encoder: name and fingerprint of the encoder.
        verifier: fingerprint of what gives verdicts.
        language_model: fingerprint of what answers baselines.
    """

    instruments: Instruments
    encoder: str
    verifier: str
    language_model: str


class VerifierChoice(NamedTuple):
    """Where verdicts come from: one of the two, or neither for the local model or none at all."""

    kind: str
    endpoint: Endpoint | None = None
    key: SecretStr | None = None
    recorded: Path | None = None


@contextmanager
def staff(
    results: Path,
    choice: VerifierChoice,
    encoder: str,
    spec: WorkerSpec | None,
    size: PoolSize | None,
    *,
    language_baselines: bool,
) -> Iterator[RouteStaff]:
    """Start the actors, and stop them at the end of the block.

    Args:
        results: results folder; verdicts are remembered there.
        choice: where verdicts come from.
        encoder: name or folder of the encoder.
        spec, size: the local model and its workers; None where it is not needed.
        language_baselines: whether the local model also answers what baselines ask.

    Raises:
        InputError: a model that cannot be loaded, or a file of verdicts that cannot be read.
    """
    with ExitStack() as stack:
        # It asks for no core: it works while the model waits, and a small cluster has none to spare.
        actor = ray.remote(EncodingWorker).options(num_cpus=0).remote(encoder)
        stack.callback(ray.kill, actor)
        identity = _get(actor.load.remote())
        local: ModelActors | None = None
        if spec is not None and size is not None:
            local = stack.enter_context(ModelActors(spec, size))
        verifier = _verifier(choice, local)
        stored = None if verifier is None else _remembered(verifier, results)
        asked = local if language_baselines else None
        instruments = Instruments(
            encode=lambda texts: _get(actor.encode.remote(list(texts))),
            verifier=stored,
            query_filter=None if asked is None else StoredVerdicts(_Asking(asked, QUERY_PAIR), results),
            likelihoods=None if asked is None else asked.likelihoods,
        )
        yield RouteStaff(
            instruments,
            identity,
            verifier=NOT_ASKED if verifier is None else verifier.fingerprint,
            language_model=NOT_ASKED if asked is None else asked.fingerprint,
        )


def _verifier(choice: VerifierChoice, local: ModelActors | None) -> VerdictSource | None:
    if choice.endpoint is not None:
        return EndpointVerifier(choice.endpoint, choice.key)
    if choice.recorded is not None:
        return RecordedVerdicts(choice.recorded)
    return local if choice.kind == "local" else None


def _remembered(verifier: VerdictSource, results: Path) -> VerdictSource:
    return verifier if isinstance(verifier, RecordedVerdicts) else StoredVerdicts(verifier, results)


@dataclass(frozen=True)
class _Asking:
    """The same actors, asked something else."""

    actors: ModelActors
    question: Question

    @property
    def fingerprint(self) -> str:
        return self.actors.fingerprint

    @property
    def decoding(self) -> str:
        return self.actors.decoding

    def verdicts(self, candidates: Sequence[Candidate]) -> list[Verdict]:
        return self.actors.map(partial(local_verdicts, question=self.question), candidates, Verdict.FAILED)


def _get(reference: Any) -> Any:
    try:
        return ray.get(reference)
    except RayTaskError as error:
        cause = error.cause
        raise (InputError(str(cause)) if isinstance(cause, InputError) else error) from error
