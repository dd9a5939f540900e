"""Where a result comes from: this checkout's commit, the packages, the machine."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import torch

import cachemend
from cachemend.tasks.provenance import git_state, hardware, versions

ROOT = Path(__file__).resolve().parents[2]


def _git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org")
    return subprocess.run(
        ["git", "-C", str(folder), *identity, *arguments], check=True, capture_output=True, text=True
    ).stdout.strip()


def _state(package_root: Path) -> list:
    code = "import json; from cachemend.tasks.provenance import git_state; print(json.dumps(git_state()))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        capture_output=True,
        text=True,
        cwd=package_root,
        env={**os.environ, "PYTHONPATH": str(package_root)},
    )
    return json.loads(done.stdout)


def test_commit_and_changes_of_the_packages_own_checkout(tmp_path: Path) -> None:
    shutil.copytree(Path(cachemend.__file__).parent, tmp_path / "cachemend")  # follows the links
    assert _state(tmp_path) == [None, None]

    _git(tmp_path, "init", "-q")
    (tmp_path / "other").touch()
    _git(tmp_path, "add", "other")
    _git(tmp_path, "commit", "-qm", "someone else's project")
    assert _state(tmp_path) == [None, None], "a checkout that does not know the package is not its own"

    _git(tmp_path, "add", "cachemend/__init__.py")
    _git(tmp_path, "commit", "-qm", "the package")
    assert _state(tmp_path) == [_git(tmp_path, "rev-parse", "HEAD"), False]
    with (tmp_path / "cachemend" / "__init__.py").open("a") as file:
        file.write("\n")
    assert _state(tmp_path) == [_git(tmp_path, "rev-parse", "HEAD"), True]


def test_here_and_now() -> None:
    assert len(git_state()) == 2
    found = versions()
    assert found["torch"] == torch.__version__
    assert found["cachemend"] == cachemend.__version__
    assert "missing" not in found.values()
    machine = hardware()
    assert machine["cores"] == os.cpu_count()
    assert machine["processor"]
    assert len(machine["accelerators"]) == torch.cuda.device_count()
    json.dumps(machine)
