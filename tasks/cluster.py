"""Connecting to Ray: a cluster of our own on this machine, or a running one."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import ray

import cachemend
from cachemend.repair_core.errors import InputError
from cachemend.tasks.addresses import check_reachable

_STORE_BYTES = 128 * 1024**2  # only token ids and measurements pass through
_JOB_VARIABLE = "RAY_JOB_CONFIG_JSON_ENV_VAR"


class Resources(NamedTuple):
    """What the cluster has, in total.

    Attributes:
        cpus: cores of all nodes.
        gpus: accelerators of all nodes.
        node_cpus, node_gpus: the most that one node has: an actor cannot span nodes.
        memory: bytes free for actors.
    """

    cpus: int
    gpus: int
    node_cpus: int
    node_gpus: int
    memory: int


@contextmanager
def connected(address: str | None, cpus: int | None = None) -> Iterator[Resources]:
    """Connect to Ray for the duration of the block.

    Args:
        address: a running cluster ("host:port", "ray://host:port" or "auto"); None starts one of our own, bound
            to this machine. Never left to Ray: a bare init can hang on the file of a dead session.
        cpus: cores our own cluster reports; None for the machine's.

    Raises:
        InputError: the cluster does not answer, or refuses the connection.
    """
    if ray.is_initialized():  # the caller's connection stays the caller's
        yield resources(address is None)
        return
    _init(address, cpus)
    before = _stop_like_an_interrupt()
    try:
        yield resources(address is None)
    finally:
        ray.shutdown()
        if before is not None:
            signal.signal(signal.SIGTERM, before)


def _stop_like_an_interrupt() -> Any:
    """Make SIGTERM (a service manager, a container) end the run like Ctrl-C instead of by Ray's own crash dump.

    Returns the handler to put back; None outside the main thread, where handlers cannot be set.
    """
    if threading.current_thread() is not threading.main_thread():
        return None
    return signal.signal(signal.SIGTERM, signal.default_int_handler)


def resources(own: bool) -> Resources:
    """What the connected cluster has. Asking for more than this would wait forever.

    Args:
        own: whether it is our own cluster, whose memory is what this machine has free now.
    """
    total = ray.cluster_resources()
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    return Resources(
        cpus=int(total.get("CPU", 0)),
        gpus=int(total.get("GPU", 0)),
        node_cpus=max((int(node.get("CPU", 0)) for node in nodes), default=0),
        node_gpus=max((int(node.get("GPU", 0)) for node in nodes), default=0),
        memory=_free_memory() if own else int(total.get("memory", 0)),
    )


def package_folder() -> str:
    """The package's folder, for `py_modules`: Ray follows the links in it."""
    return str(Path(cachemend.__file__).parent)


def _init(address: str | None, cpus: int | None) -> None:
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    if address is None:
        ray.init(
            address="local",
            num_cpus=cpus,
            include_dashboard=False,
            object_store_memory=_STORE_BYTES,
            **options,
        )
        return
    check_reachable(address)
    if _JOB_VARIABLE not in os.environ:  # a submitted job brings the package itself
        options["runtime_env"] = {"py_modules": [package_folder()]}
    try:
        ray.init(address=address, **options)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise InputError(f"Ray cluster {address}: {_first_line(error)}") from error


def _free_memory() -> int:
    return int(psutil.virtual_memory().available)


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
