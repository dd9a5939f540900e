"""A Prefect server on this machine for as long as this process lives.

Prefect's own temporary server outlives a killed process, and two that start at once on a new database break each
other's migration. This one ends with its parent, whatever ends the parent, and starts one at a time.
"""

import fcntl
import logging
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO
from urllib.error import HTTPError
from urllib.request import urlopen

from cachemend.repair_core.errors import InputError

_START_SECONDS = 150
_STOP_SECONDS = 10
_POLL_SECONDS = 0.1


@contextmanager
def prefect_api(*, scheduler: bool = False) -> Iterator[str]:
    """Make a Prefect API available: the one the user has set, else a server of our own on 127.0.0.1.

    Args:
        scheduler: whether our own server also creates scheduled runs.

    Yields:
        The API's URL; Prefect's settings name it inside the block.

    Raises:
        InputError: the user's API does not answer, or our own server does not start.
    """
    from prefect.settings import PREFECT_API_URL, PREFECT_HOME, temporary_settings

    if given := PREFECT_API_URL.value():
        if not answers(given):
            raise InputError(f"PREFECT_API_URL={given} does not answer; start that server or unset the variable")
        yield given
        return
    with _server(Path(PREFECT_HOME.value()), scheduler) as url, temporary_settings({PREFECT_API_URL: url}):
        try:
            yield url
        finally:
            for handler in logging.getLogger("prefect.flow_runs").handlers:
                handler.flush()  # sends what is queued while there is still a server to take it


@contextmanager
def _server(home: Path, scheduler: bool) -> Iterator[str]:
    with _start_lock(home) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        port = _free_port()
        process = _spawn(port, scheduler)
        try:
            _await_health(process, port)
        except BaseException:
            _stop(process)
            raise
    try:
        yield f"http://127.0.0.1:{port}/api"
    finally:
        _stop(process)


def _start_lock(home: Path) -> IO[str]:
    try:
        home.mkdir(parents=True, exist_ok=True)
        return (home / "server-start.lock").open("w")
    except OSError as error:
        raise InputError(f"PREFECT_HOME={home}: cannot write ({error.strerror}); give a writable folder") from error


def _spawn(port: int, scheduler: bool) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "cachemend.flows.local_server", str(port), *(["scheduler"] if scheduler else [])]
    # A session of its own: Ctrl-C must reach it after the flow has told it how it ended.
    return subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
        env={**os.environ, "PREFECT_SERVER_UI_ENABLED": "false"},
    )


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _await_health(process: "subprocess.Popen[bytes]", port: int) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise InputError(f"the local Prefect server ended with code {process.returncode}; set PREFECT_API_URL")
        if answers(f"http://127.0.0.1:{port}/api"):
            return
        time.sleep(_POLL_SECONDS)
    raise InputError(f"the local Prefect server did not answer in {_START_SECONDS} s; set PREFECT_API_URL")


def answers(url: str) -> bool:
    """Tell whether a Prefect API answers at `url`; one that wants a login has answered."""
    try:
        urlopen(f"{url.rstrip('/')}/health", timeout=5).close()
    except HTTPError as error:
        return error.code in (401, 403)
    except (OSError, ValueError):
        return False
    return True


def _stop(process: "subprocess.Popen[bytes]") -> None:
    if process.stdin:
        process.stdin.close()
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _serve(port: int, scheduler: bool) -> None:
    import uvicorn
    from prefect.server.api.server import create_app

    app = create_app(ephemeral=not scheduler, final=True)
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=port, log_level="error"))

    def end_with_parent() -> None:
        sys.stdin.buffer.read()  # returns when the parent closes its end, or is no more
        server.should_exit = True
        time.sleep(_STOP_SECONDS / 2)
        os._exit(0)

    threading.Thread(target=end_with_parent, daemon=True).start()
    server.run()


if __name__ == "__main__":
    _serve(int(sys.argv[1]), "scheduler" in sys.argv[2:])
