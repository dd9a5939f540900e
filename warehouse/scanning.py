"""Which parts of a results folder can be read, judged by their footers."""

from functools import lru_cache
from pathlib import Path
from stat import S_ISREG
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from cachemend.repair_core.errors import InputError
from cachemend.warehouse.schemas import SCHEMA_VERSION, Table, table


class CorruptPart(NamedTuple):
    """A part that is not counted, and why, in one line."""

    path: Path
    reason: str


class Scan(NamedTuple):
    """The parts of one table, each in name order."""

    good: tuple[Path, ...]
    corrupt: tuple[CorruptPart, ...]


def scan(results: Path, table_name: str, deep: bool = False) -> Scan:
    """Sort the parts of a table into readable and corrupt ones; a part that vanishes meanwhile is left out.

    Args:
        results: results folder; a missing one has no parts.
        table_name: one of the result tables.
        deep: decode every value too, which finds damage behind an intact footer.

    Raises:
        InputError: an unknown table, or `results` is a file or cannot be listed.
    """
    wanted = table(table_name)
    if results.exists() and not results.is_dir():
        raise InputError(f"results folder {results} is not a folder; give the folder of a run")
    root = results.resolve()
    good: list[Path] = []
    corrupt: list[CorruptPart] = []
    for name in _part_names(root / table_name):
        path = root / table_name / name
        try:
            reason = _reason(path, root, wanted, deep)
        except FileNotFoundError:
            if not path.is_symlink():
                continue
            reason = "a link to nothing"
        except OSError as error:
            reason = f"cannot be read ({error.strerror})"
        if reason is None:
            good.append(path)
        else:
            corrupt.append(CorruptPart(path, reason))
    return Scan(tuple(good), tuple(corrupt))


def _part_names(folder: Path) -> list[str]:
    try:
        return sorted(path.name for path in folder.iterdir() if path.suffix == ".parquet")
    except FileNotFoundError:
        return []
    except OSError as error:
        raise InputError(f"results folder {folder}: cannot be listed ({error.strerror})") from error


def _reason(path: Path, root: Path, wanted: Table, deep: bool) -> str | None:
    stat = path.stat()
    if path.is_symlink() and not path.resolve().is_relative_to(root):
        return "a link out of the results folder"
    if not S_ISREG(stat.st_mode):
        return "not a file"
    return _file_reason(str(path), (stat.st_ino, stat.st_size, stat.st_mtime_ns), wanted.name, deep)


@lru_cache(maxsize=100_000)
def _file_reason(path: str, identity: tuple[int, int, int], table_name: str, deep: bool) -> str | None:
    """Judge one file; `identity` (inode, bytes, mtime) makes the answer reusable within the process."""
    if identity[1] == 0:
        return "empty file, 0 bytes"
    try:
        with Path(path).open("rb") as handle:
            footer = pq.read_metadata(handle)
            reason = _schema_reason(footer, table(table_name))
            if deep and reason is None:
                pq.ParquetFile(handle).read()
        return reason
    except FileNotFoundError:
        raise
    except (pa.ArrowException, OSError) as error:
        return f"not readable as Parquet: {' '.join(str(error).split())}"


def _schema_reason(footer: pq.FileMetaData, wanted: Table) -> str | None:
    metadata = footer.metadata or {}
    version = metadata.get(b"schema_version", b"").decode(errors="replace")
    if not version.isdecimal():
        return "no schema version: not a part of this project"
    if int(version) > SCHEMA_VERSION:
        return f"schema version {version} is newer than {SCHEMA_VERSION}, the newest this version reads; upgrade"
    found = {field.name: field.type for field in footer.schema.to_arrow_schema()}
    known = {field.name: field.type for field in wanted.schema}
    for name, kind in found.items():
        if name not in known:
            return f"column {name!r} does not belong to {wanted.name}"
        if kind != known[name]:
            return f"column {name!r} is {kind}, not {known[name]}"
    missing = [name for name in known if name not in found]
    if missing and int(version) == SCHEMA_VERSION:
        return f"column {missing[0]!r} is missing"
    return None
