"""Result parts: written once and atomically, found and read back.

A part holds one shard, the rows one worker computed together. Its name is the digest of its rows' keys, so that
two runs which compute the same shard write one file. A readable part never changes: DuckDB keeps a footer and
opens the file again later, so a file replaced in between would be read with the wrong footer. Other results for
the same keys become a further part, DIGEST-2, and the views take the latest row.
"""

import errno
import hashlib
import os
from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import count, pairwise
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from cachemend.repair_core.errors import InputError
from cachemend.warehouse.scanning import CorruptPart, Scan, scan
from cachemend.warehouse.schemas import Table, table
from cachemend.warehouse.validate import validated

__all__ = ["FINISHED", "CorruptPart", "Scan", "finished_keys", "scan", "set_aside", "write_part"]

FINISHED = ("ok", "refused")  # outcomes that another run would only repeat
_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)

Rows = list[dict[str, object]]


def write_part(results: Path, table_name: str, rows: Sequence[Mapping[str, object]]) -> Path:
    """Validate rows and write them as one part, all or nothing.

    Args:
        results: results folder, made if missing.
        table_name: one of the result tables.
        rows: one mapping per row, holding every column of the table; `schema_version` and, where the table has
            one, `record_key` may be left out.

    Returns:
        The part's path, RESULTS/TABLE/DIGEST.parquet. Where the same results are stored already, whoever computed
        them and however long it took, nothing is written and the path is that part's.

    Raises:
        RowError: a row does not fit the table; nothing is written.
        InputError: an unknown table, or the results folder cannot be written.
    """
    wanted = table(table_name)
    checked, content = validated(wanted, rows)
    try:
        folder = _folder(results, table_name)
        temporary = folder / f".{uuid4().hex}.tmp"  # not .parquet: globs match hidden files too
        try:
            _write_durably(content, temporary)
            path = _publish(temporary, folder, wanted, checked)
        finally:
            temporary.unlink(missing_ok=True)
        _sync_folder(folder)
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError(f"results folder {results}: cannot write ({reason}); give a writable folder") from error
    return path


def finished_keys(results: Path, table_name: str = "records") -> set[str]:
    """Return the keys (see `Table.row_key`) of the rows that need no further run.

    In a table with outcomes these are the rows whose latest outcome is ok or refused, in any other all stored ones.
    A part whose values cannot be decoded counts as absent; computing its shard again replaces it.

    Raises:
        InputError: an unknown table, or `results` is not a folder.
    """
    wanted = table(table_name)
    judged = wanted.has("outcome")
    columns = [*wanted.key_columns, "recorded_at", "run_id", *(["outcome"] if judged else [])]
    latest: dict[str, tuple[tuple[datetime, str, str], str]] = {}
    for path in scan(results, table_name).good:
        try:
            with path.open("rb") as handle:
                rows = pq.ParquetFile(handle).read(columns=columns)
        except (FileNotFoundError, pa.ArrowException, OSError):
            continue  # gone, or damaged behind its footer: either way its keys are not finished
        for row in rows.to_pylist():
            order, key = (row["recorded_at"], row["run_id"], path.name), wanted.row_key(row)
            if key not in latest or latest[key][0] < order:
                latest[key] = (order, row["outcome"] if judged else FINISHED[0])
    return {key for key, (_, outcome) in latest.items() if outcome in FINISHED}


def set_aside(path: Path) -> Path:
    """Rename a corrupt part to NAME.corrupt, where nothing counts it, and return the new path.

    An earlier one is kept: the new name then ends in .corrupt-2 and so on. A part that another process has
    already moved is no error.

    Raises:
        InputError: the folder cannot be written.
    """
    target = path.with_name(path.name + ".corrupt")
    number = 2
    while target.exists():
        target = path.with_name(f"{path.name}.corrupt-{number}")
        number += 1
    try:
        path.rename(target)
    except FileNotFoundError:
        return target
    except OSError as error:
        raise InputError(f"corrupt part {path}: cannot be set aside ({error.strerror})") from error
    return target


def _folder(results: Path, table_name: str) -> Path:
    folder = results.resolve() / table_name
    folder.mkdir(parents=True, exist_ok=True)
    if not folder.resolve().is_relative_to(results.resolve()):
        raise InputError(f"results folder {results}: {table_name} links to {folder.resolve()}, outside of it")
    return folder


def _write_durably(content: pa.Table, path: Path) -> None:
    with path.open("wb") as handle:
        pq.write_table(content, handle, compression="zstd")
        handle.flush()
        os.fsync(handle.fileno())


def _publish(temporary: Path, folder: Path, wanted: Table, rows: Rows) -> Path:
    """Give a complete temporary file its name, unless the latest results for its keys are the same."""
    digest = hashlib.sha256("\n".join(sorted(map(wanted.row_key, rows))).encode()).hexdigest()
    names = (f"{digest}.parquet" if number == 1 else f"{digest}-{number}.parquet" for number in count(1))
    for path, later in pairwise(folder / name for name in names):
        if _claimed(temporary, path):
            return path
        try:
            with path.open("rb") as handle:
                stored = pq.ParquetFile(handle).read().to_pylist()
        except (pa.ArrowException, OSError):
            temporary.replace(path)  # no reader uses a corrupt part
            return path
        # Equal to older results only: what came in between is not the latest any more.
        if not later.exists() and _results(wanted, stored) == _results(wanted, rows):
            return path
    raise AssertionError("unreachable: count() does not end")


def _claimed(temporary: Path, path: Path) -> bool:
    """Give a file a second name, its last one, only if nothing has that name yet."""
    try:
        path.hardlink_to(temporary)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in _NO_LINKS or path.exists():
            raise
        temporary.replace(path)  # a file system without links: atomic still, but a race is not noticed
    return True


def _results(wanted: Table, rows: Rows) -> list[list[object]]:
    """Return what rows say, without who computed them, when and in which time, in an order of their own."""
    names = [column.name for column in wanted.columns if not column.circumstance]
    # A part of an older schema lacks columns; they read as NULL here as everywhere.
    return [[row.get(name) for name in names] for row in sorted(rows, key=wanted.row_key)]


def _sync_folder(folder: Path) -> None:
    # Without it a power cut can lose the rename, though not the data.
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
