"""From a command line to a checked request, and the ways to carry it out."""

import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pydantic import ValidationError

from cachemend.flows.experiments import Experiment, get_experiment
from cachemend.flows.overrides import as_assignments, build_config
from cachemend.flows.results_folder import check_writable
from cachemend.flows.settings import DEFAULTS
from cachemend.repair_core.errors import InputError
from cachemend.tasks.addresses import check_reachable

if TYPE_CHECKING:
    from cachemend.flows.ended import Ended
    from cachemend.flows.model_config import ModelConfig


class Request(NamedTuple):
    """An experiment with checked settings and a results folder that can be written, absolute."""

    experiment: Experiment
    config: "ModelConfig"
    results: Path


def prepare(
    experiment: str,
    *,
    model: str | None,
    file: Path | None,
    assignments: Sequence[str],
    results: Path,
    address: str | None = None,
    cron: str | None = None,
    elsewhere: bool = False,
) -> Request:
    """Check everything that can be checked before any work starts; the results folder comes last, as it is made.

    Args:
        elsewhere: the run is to be a job: model and results folder are those of the cluster's head, which checks
            them itself.

    Raises:
        InputError: one line on what is wrong; nothing is written.
    """
    chosen = get_experiment(experiment)
    config = build_config(chosen.load_config(), file=file, assignments=assignments, options={"model": model})
    folder = results.expanduser().absolute()
    if elsewhere:
        return Request(chosen, config, folder)
    config.check_model()
    if cron is not None:
        check_cron(cron)
    if address is not None:
        check_reachable(address)
    check_writable(folder)
    return Request(chosen, config, folder)


def run_here(request: Request, *, limit: int | None, address: str | None) -> "Ended":
    """Run in this process. Prefect's history goes to the API the user has set, else to a server of our own."""
    from cachemend.flows.local_server import prefect_api

    with prefect_api():
        flow = request.experiment.load_flow()
        if os.environ.get("PREFECT_LOGGING_LEVEL") == DEFAULTS["PREFECT_LOGGING_LEVEL"]:
            _quiet_prefect()
        summary: Ended = flow(request.config, str(request.results), limit, address)
    return summary


def submit_there(request: Request, *, limit: int | None, address: str) -> int:
    """Run as a job of a Ray cluster and follow it; returns the run's exit code."""
    from cachemend.tasks.submit_job import submit_job

    arguments = ["run", request.experiment.name, "--results", str(request.results), "--address", "auto"]
    for text in as_assignments(movable(request.config)):
        arguments += ["--set", text]
    if limit is not None:
        arguments += ["--limit", str(limit)]
    return submit_job("cachemend.flows.cli", arguments, address)


def check_cron(expression: str) -> None:
    """Check a cron expression as Prefect reads it.

    Raises:
        InputError: it is none.
    """
    from prefect.client.schemas.schedules import CronSchedule

    try:
        CronSchedule(cron=expression)
    except ValidationError as error:
        raise InputError(f"cron expression {expression!r} is not valid; five fields such as '0 3 * * *'") from error


def movable(config: "ModelConfig") -> "ModelConfig":
    """Make a model folder's path absolute: a job or a scheduled run starts in another folder."""
    from cachemend.repair_core.embedded import EMBEDDED

    path = Path(config.model).expanduser()
    if config.model in EMBEDDED or not path.is_dir():
        return config
    return config.model_copy(update={"model": str(path.absolute())})


def _quiet_prefect() -> None:
    """Keep Prefect's own lines off the terminal: every error reaches the user as an exception anyway."""
    for handler in logging.getLogger().handlers:
        handler.addFilter(lambda record: not record.name.startswith("prefect"))
