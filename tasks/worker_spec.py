"""What a worker is told at its start, and what it says about itself: plain data, no Ray."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from cachemend.tasks.work import Measured


@dataclass(frozen=True, kw_only=True)
class WorkerSpec:
    """The model a worker loads and how it runs a case.

    Attributes:
        model, revision, dtype, device_map, trust_remote_code: as `load_model` takes them.
        device: "cpu", "cuda", or None for a GPU where the cluster has one.
        executor, attention: how chosen rows are recomputed.
        auxiliary: the model whose states SpecCache scores, by name; None for `model` itself.
        max_new_tokens: greedy tokens of an answer.
        score_rule: how an answer is read.
        min_gap: nats per token that the clean margin of an edited item must exceed the stale one by, to be retained.
    """

    model: str
    revision: str | None = None
    dtype: str = "auto"
    device: str | None = None
    device_map: str | dict[str, Any] | None = None
    trust_remote_code: bool = False
    executor: str = "packed"
    attention: str = "sdpa"
    auxiliary: str | None = None
    max_new_tokens: int
    score_rule: str
    min_gap: float = 0.0


class ModelIdentity(NamedTuple):
    """The model as it was loaded, and the machine it runs on.

    Attributes:
        fingerprint: digest of configuration and weights.
        dtype: precision of the weights, e.g. "float32".
        revision: hub commit; None for local folders.
        auxiliary: fingerprint of the auxiliary model; "target" where the model scores itself.
        hardware: processor, accelerator and driver of the worker's machine.
    """

    fingerprint: str
    dtype: str
    revision: str | None
    auxiliary: str
    hardware: dict[str, Any]


class ShardResult(NamedTuple):
    """What was measured in one shard, and the worker that did it.

    Attributes:
        worker: the worker.
        measured: (arm, columns) pairs; see `Work.run`.
    """

    worker: str
    measured: "list[Measured]"
