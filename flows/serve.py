"""Running an experiment on a schedule: a Prefect deployment served by this process."""

import hashlib
import json
from pathlib import Path
from typing import Any

from cachemend.flows.launch import Request, movable
from cachemend.flows.local_server import prefect_api


def serve_schedule(request: Request, cron: str, *, limit: int | None, address: str | None) -> None:
    """Serve the experiment until this process is stopped; each run resumes what the last one left.

    Without a Prefect API of the user's, a server of our own runs on 127.0.0.1 meanwhile.

    Raises:
        InputError: there is no Prefect API.
    """
    with prefect_api(scheduler=True) as url:
        from prefect import serve
        from prefect.types.entrypoint import EntrypointType

        parameters: dict[str, Any] = {
            "config": movable(request.config).model_dump(mode="json", exclude_defaults=True),
            "results": str(request.results),
            "limit": limit,
            "address": address,
        }
        flow = request.experiment.load_flow()
        flow.validate_parameters(parameters)
        deployment = flow.to_deployment(
            deployment_name(request.config.model, parameters),
            cron=cron,
            parameters=parameters,
            # A file path would load the module a second time, under another name.
            entrypoint_type=EntrypointType.MODULE_PATH,
        )
        print(f"serving {request.experiment.name}/{deployment.name} at '{cron}', Prefect API {url}", flush=True)
        # The schedule outlives this process, and two runs at once would only compete for the workers.
        serve(deployment, pause_on_shutdown=False, print_starting_message=False, limit=1)


def deployment_name(model: str, parameters: dict[str, Any]) -> str:
    """A name that is the same for the same request and another for any other."""
    digest = hashlib.sha256(json.dumps(parameters, sort_keys=True).encode()).hexdigest()[:8]
    return f"{Path(model).name}-{digest}"
