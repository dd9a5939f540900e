"""Writing a Parquet file whole or not at all."""

import os
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from cachemend.repair_core.errors import InputError


def write_whole(content: pa.Table, path: Path) -> None:
    """Write `content` to `path`, replacing a file that is there; a reader sees the old one or the new one.

    Raises:
        InputError: the folder cannot be written.
    """
    temporary = path.with_name(f".{uuid4().hex}.tmp")  # not .parquet: it is no part before it has its name
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with temporary.open("wb") as handle:
                pq.write_table(content, handle, compression="zstd")
                handle.flush()
                os.fsync(handle.fileno())
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror or error}); give a writable folder") from error
