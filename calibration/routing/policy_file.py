"""Policies as JSON files."""

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any
from uuid import uuid4

from cachemend.calibration.errors import CalibrationError
from cachemend.calibration.routing.reuse_policy import ReusePolicy


def save_policy(policy: ReusePolicy, path: Path) -> Path:
    """Write a policy as JSON, atomically: readers see the old file or the whole new one."""
    content = json.dumps(policy.to_dict(), indent=2, allow_nan=False) + "\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    # A new file's ordinary permissions: the service that loads it may run as someone else.
    temporary = path.with_name(f".{path.name}-{uuid4().hex}.tmp")
    try:
        with temporary.open("w", encoding="utf-8") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    return path


def load_policy(path: Path) -> ReusePolicy:
    """Read a policy and check every field.

    Raises:
        CalibrationError: no such file, not JSON, another version, or a field that is missing, unknown, there twice or
            out of range; one line that names the file and the field.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=_each_once)
    except OSError as error:
        raise CalibrationError(f"policy file {path} cannot be read: {error.strerror}") from error
    except CalibrationError as error:
        raise CalibrationError(f"policy file {path}: {error}") from error
    except (ValueError, RecursionError) as error:
        raise CalibrationError(f"policy file {path} is not JSON: {error}") from error
    try:
        return ReusePolicy.from_dict(content)
    except CalibrationError as error:
        raise CalibrationError(f"policy file {path}: {error}") from error


def _each_once(members: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(members)
    if len(content) < len(members):
        twice = next(name for name, count in Counter(name for name, _ in members).items() if count > 1)
        raise CalibrationError(f"field {twice} is there twice; give it once")
    return content
