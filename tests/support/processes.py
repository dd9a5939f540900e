"""Starting the command as a process of its own, and waiting for things to happen."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path


def start(*arguments: object, log: Path | None = None, **variables: str | None) -> "subprocess.Popen[str]":
    """Start `cachemend ARGUMENTS`; variables of value None are taken out of its environment."""
    environment = {**os.environ, **{name: value for name, value in variables.items() if value is not None}}
    for name, value in variables.items():
        if value is None:
            environment.pop(name, None)
    output = log.open("w") if log else subprocess.PIPE
    return subprocess.Popen(
        [sys.executable, "-m", "cachemend.flows.cli", *map(str, arguments)],
        stdout=output,
        stderr=subprocess.STDOUT if log else subprocess.PIPE,
        text=True,
        env=environment,
        start_new_session=True,
    )


def wait_for(condition: Callable[[], bool], seconds: float, what: str) -> None:
    """Poll until `condition` holds; fail with `what` after `seconds`."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"waited {seconds:.0f} s for {what}"
        time.sleep(0.05)
