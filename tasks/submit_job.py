"""Running the command as a job on a Ray cluster. The head's part loads no model; workers do."""

import asyncio
import json
import logging
import os
import shlex
import sys
from collections.abc import Sequence

from ray.job_submission import JobStatus, JobSubmissionClient

from cachemend.repair_core.errors import InputError
from cachemend.tasks.addresses import check_reachable
from cachemend.tasks.cluster import package_folder
from cachemend.tasks.provenance import git_state

# They set a level of their own and report uploads and closed connections.
_TALKATIVE = ("ray.dashboard.modules.dashboard_sdk", "ray.dashboard.modules.job.sdk")
_FORWARDED = ("CACHEMEND_WORKERS", "CACHEMEND_THREADS", "HF_HUB_OFFLINE")


def submit_job(module: str, arguments: Sequence[str], address: str) -> int:
    """Start `python -m MODULE ARGUMENTS` as a job, print its output and wait for its end.

    The job brings this package along and runs with the cluster's own installation of all others.

    Args:
        module: what to run.
        arguments: its command line; paths in it must mean the same on the cluster.
        address: the cluster's job server, such as http://127.0.0.1:8265.

    Returns:
        The exit code of the command, or 1 for a job that never started or was stopped.

    Raises:
        InputError: no job server answers, or it refuses the job.
    """
    if not address.startswith(("http://", "https://")):
        raise InputError(f"job address {address!r} is no URL; give the cluster's job server, http://HOST:8265")
    check_reachable(address)
    for name in _TALKATIVE:
        logging.getLogger(name).setLevel(logging.WARNING)
    try:
        client = JobSubmissionClient(address)
        job = client.submit_job(
            entrypoint=f"{_python()} -m {shlex.join([module, *arguments])}",
            runtime_env={"py_modules": [package_folder()], "env_vars": _variables()},
        )
    except (ConnectionError, RuntimeError, ValueError) as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise InputError(f"Ray job server {address}: {reason}") from error
    print(f"job {job} on {address}", file=sys.stderr, flush=True)
    try:
        asyncio.run(_follow(client, job))
    except KeyboardInterrupt:
        print(f"no longer following; the job goes on: ray job stop --address {address} {job}", file=sys.stderr)
        raise
    details = client.get_job_info(job)
    if details.status == JobStatus.SUCCEEDED:
        return 0
    if details.driver_exit_code is None:
        print(f"job {job} {details.status.value.lower()}: {details.message}", file=sys.stderr)
    return details.driver_exit_code or 1


def _python() -> str:
    """Shell words for the interpreter: ours where the head has it, for a virtual environment need not be active."""
    return f'"$(command -v {shlex.quote(sys.executable)} || command -v python || command -v python3)"'


async def _follow(client: JobSubmissionClient, job: str) -> None:
    async for lines in client.tail_job_logs(job):
        print(lines, end="", flush=True)


def _variables() -> dict[str, str]:
    """Settings that go with the job, and the state of the code, which is no checkout there."""
    git = git_state()
    found = {name: os.environ[name] for name in _FORWARDED if name in os.environ}
    if git.commit is not None:
        found |= {"CACHEMEND_GIT_COMMIT": git.commit, "CACHEMEND_GIT_DIRTY": json.dumps(git.dirty)}
    return found
