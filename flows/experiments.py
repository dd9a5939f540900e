"""The experiments that can be run: a name, one line, and where the settings and the flow are."""

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from cachemend.repair_core.errors import InputError, nearest

if TYPE_CHECKING:
    from cachemend.flows.model_config import ModelConfig


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """One experiment. Its parts are named, not imported: `cachemend list` must not load Prefect.

    Attributes:
        name: as the command takes it.
        summary: one line for `cachemend list`.
        config: "module:class" of its settings.
        flow: "module:function" of its Prefect flow, `flow(config, results, limit, address)`.
    """

    name: str
    summary: str
    config: str
    flow: str

    def load_config(self) -> "type[ModelConfig]":
        """Import the class of the experiment's settings."""
        kind: type[ModelConfig] = _load(self.config)
        return kind

    def load_flow(self) -> Any:
        """Import the experiment's Prefect flow."""
        return _load(self.flow)


EXPERIMENTS = {
    experiment.name: experiment
    for experiment in (
        Experiment(
            name="erasing-niah",
            summary="delete one of two same-key facts, repair the cache within a budget, ask for the other",
            config="cachemend.flows.config:ErasingNiahConfig",
            flow="cachemend.flows.erasing_niah:erasing_niah",
        ),
        Experiment(
            name="numerical-controls",
            summary="repeat builds and decodes, hold executors against each other, measure the residual bound",
            config="cachemend.flows.numerical_config:NumericalConfig",
            flow="cachemend.flows.numerical_controls:numerical_controls",
        ),
        Experiment(
            name="edit-repair",
            summary="rewrite a fact in place, recompute K positions downstream of it, ask what follows from it",
            config="cachemend.flows.edit_config:EditRepairConfig",
            flow="cachemend.flows.edit_repair:edit_repair",
        ),
        Experiment(
            name="response-routing",
            summary="decide whether a cached answer is reused, verified or regenerated for a similar request",
            config="cachemend.flows.routing_config:ResponseRoutingConfig",
            flow="cachemend.flows.response_routing:response_routing",
        ),
        Experiment(
            name="execution-bench",
            summary="time refresh by every executor, attention by every backend, and recovery beside Replay",
            config="cachemend.flows.execution_config:ExecutionBenchConfig",
            flow="cachemend.flows.execution_bench:execution_bench",
        ),
    )
}


def get_experiment(name: str) -> Experiment:
    """Return the experiment called `name`.

    Raises:
        InputError: there is none; the line gives the nearest.
    """
    if name not in EXPERIMENTS:
        raise InputError(f"experiment {name!r} is unknown; {nearest(name, EXPERIMENTS)}")
    return EXPERIMENTS[name]


def _load(place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)
