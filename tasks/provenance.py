"""Where a result comes from: code, packages and machine."""

import os
import platform
import shutil
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

import psutil

import cachemend

PACKAGES = ("torch", "transformers", "tokenizers", "numpy", "ray", "prefect", "duckdb", "pyarrow")
_SECONDS = 10


class GitState(NamedTuple):
    """Commit of the package's own checkout and whether it has changes; None for both outside one."""

    commit: str | None
    dirty: bool | None


def git_state() -> GitState:
    """Return the state of the checkout this package runs from.

    A package installed inside some other project's checkout has none: git must know the package's own file.
    """
    own = Path(cachemend.__file__).resolve()
    if _git(own.parent, "ls-files", "--error-unmatch", own.name) is None:
        return GitState(None, None)
    changes = _git(own.parent, "status", "--porcelain", "--untracked-files=no")
    return GitState(_git(own.parent, "rev-parse", "HEAD"), None if changes is None else bool(changes))


def versions() -> dict[str, str]:
    """Versions of this package, Python and what computes and stores the results."""
    found = {"cachemend": cachemend.__version__, "python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "missing"
    return found


def hardware() -> dict[str, Any]:
    """Processor, memory, accelerators and driver of this machine."""
    import torch

    gpus = [torch.cuda.get_device_properties(i) for i in range(torch.cuda.device_count())]
    return {
        "system": f"{platform.system()} {platform.release()}",
        "machine": platform.machine(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "memory_bytes": psutil.virtual_memory().total,
        "accelerators": [{"name": gpu.name, "memory_bytes": gpu.total_memory} for gpu in gpus],
        "cuda": torch.version.cuda,
        "driver": _driver() if gpus else None,
    }


def _processor() -> str:
    if sys.platform == "linux":
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _driver() -> str | None:
    if not shutil.which("nvidia-smi"):
        return None
    return _output("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader")


def _git(folder: Path, *arguments: str) -> str | None:
    return _output("git", "-C", str(folder), *arguments) if shutil.which("git") else None


def _output(*command: str) -> str | None:
    """What a command prints, or None when it fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
