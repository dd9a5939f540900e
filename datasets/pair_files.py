"""Reading the sources of pairs: text files, gzipped or plain, whose faults are named with the file."""

import gzip
import json
import zlib
from pathlib import Path
from typing import Any

from cachemend.repair_core.errors import InputError


def read_text(path: Path) -> str:
    """Return a UTF-8 file's text; a gzipped one is unpacked, whatever its name.

    Raises:
        InputError: no such file, one that cannot be read or unpacked, or one that is not UTF-8.
    """
    try:
        raw = path.read_bytes()
        return (gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw).decode("utf-8-sig")
    except FileNotFoundError as error:
        raise InputError(f"{path} does not exist") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8: byte {error.object[error.start]:#04x} at {error.start}") from error
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{path} cannot be read: {error}") from error


def read_json(path: Path) -> Any:
    """Return the content of a JSON file.

    Raises:
        InputError: as `read_text`, or content that is not JSON.
    """
    return parse_json(read_text(path), str(path))


def parse_json(text: str, where: str) -> Any:
    """Return parsed JSON; a fault is reported with `where` and its position, never with the text."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise InputError(f"{where} is not JSON: {error.msg} at line {error.lineno}, column {error.colno}") from error
    except RecursionError as error:
        raise InputError(f"{where} is nested too deeply for JSON of this source") from error
