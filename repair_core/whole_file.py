"""Writing a file whole or not at all."""

import os
from pathlib import Path
from uuid import uuid4


def write_whole(path: Path, content: bytes) -> None:
    """Write `content` to `path`, making its folder; readers see the old file or the whole new one.

    The file has the permissions of any new one, so that whoever reads the folder can read it.

    Raises:
        OSError: the folder cannot be made or written; a file that was there is unchanged.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}-{uuid4().hex}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
