"""One Prefect server, one Ray cluster and one tiny checkpoint for all tests of the flows."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from cachemend.flows.cli import main
from cachemend.flows.local_server import prefect_api

from support.quick_sweep import QUICK
from support.tiny_checkpoint import save_tiny


class Cluster(NamedTuple):
    """A running Ray cluster on this machine.

    Attributes:
        address: what drivers connect to.
        jobs: URL of the job server.
    """

    address: str
    jobs: str


class Ended(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str


Command = Callable[..., Ended]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint that runs a case in a fraction of a second."""
    return save_tiny(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="session")
def prefect_server() -> Iterator[str]:
    """A real Prefect server; every flow run in this process and below reports to it."""
    with prefect_api(scheduler=True) as url:
        os.environ["PREFECT_API_URL"] = url
        yield url
        del os.environ["PREFECT_API_URL"]


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """A real Ray cluster with a job server, bound to this machine."""
    port, dashboard = free_port(), free_port()
    command = [
        *(sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block", "--num-cpus=2"),
        *("--node-ip-address=127.0.0.1", f"--port={port}", "--object-store-memory=100000000"),
        *("--include-dashboard=true", "--dashboard-host=127.0.0.1", f"--dashboard-port={dashboard}"),
        f"--dashboard-agent-listen-port={free_port()}",  # the fixed default may be taken by another cluster
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
    jobs = f"http://127.0.0.1:{dashboard}"
    try:
        _await(f"{jobs}/api/jobs/", process)
        yield Cluster(f"127.0.0.1:{port}", jobs)
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _await(url: str, process: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline:
        assert process.poll() is None, (process.stdout.read() if process.stdout else b"").decode()
        try:
            with urlopen(url, timeout=5):
                return
        except (URLError, OSError):
            time.sleep(0.3)
    raise AssertionError(f"nothing answers at {url}")


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Command:
    """Run the command in this process and return exit code, output and errors."""

    def call(*arguments: object) -> Ended:
        capsys.readouterr()
        with pytest.raises(SystemExit) as end:
            main([str(argument) for argument in arguments])
        told = capsys.readouterr()
        assert isinstance(end.value.code, int)
        return Ended(end.value.code, told.out, told.err)

    return call


@pytest.fixture
def run(command: Command, prefect_server: str, cluster: Cluster, tiny: Path) -> Command:
    """Run the quick sweep on the session's server and cluster; later options win."""

    def call(results: Path, *more: object, model: Path = tiny) -> Ended:
        ended = command(
            *("run", "erasing-niah", "--model", model, *QUICK, "--results", results),
            *("--address", cluster.address, *more),
        )
        print(ended.out, ended.err, sep="\n", file=sys.stderr)
        return ended

    return call
