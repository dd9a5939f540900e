"""Read access to a results folder: DuckDB views and guarded SQL.

Readers write nothing: the views stand in the memory of each process, so that processes neither lock nor see one
another. `warehouse.duckdb` holds the same view definitions for other DuckDB clients; a run or a report leaves it in its
folder, and a reader attaches it read-only, which is quicker, as long as it fits.
"""

from collections.abc import Sequence
from functools import lru_cache
from glob import escape
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

import duckdb
import pyarrow as pa

from cachemend.repair_core.errors import InputError
from cachemend.warehouse.guard import check, one_line
from cachemend.warehouse.scanning import CorruptPart, scan
from cachemend.warehouse.schemas import TABLES
from cachemend.warehouse.views import Definitions, definitions, quoted

DATABASE = "warehouse.duckdb"
_ATTEMPTS = 3
_CONFIG: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "enable_external_file_cache": "false",
    "temp_directory": "",
}

_WRONG_SQL = (
    duckdb.ParserException,
    duckdb.BinderException,
    duckdb.CatalogException,
    duckdb.ConversionException,
    duckdb.OutOfRangeException,
    duckdb.OutOfMemoryException,
)


class Warehouse(NamedTuple):
    """An open results folder, and the parts that are not counted in it."""

    connection: duckdb.DuckDBPyConnection
    corrupt: tuple[CorruptPart, ...]


class Answer(NamedTuple):
    """The rows of a query, and one line for each part that they leave out."""

    table: pa.Table
    warnings: tuple[str, ...]


def open_warehouse(results: Path, deep: bool = False) -> Warehouse:
    """Open a results folder for reading, also while a run writes to it.

    Args:
        results: results folder.
        deep: look for damage behind intact footers too; reads every part in full.

    Raises:
        InputError: the folder holds no readable part.
    """
    for attempt in range(_ATTEMPTS):
        scans = {name: scan(results, name, deep) for name in TABLES}
        corrupt = tuple(part for found in scans.values() for part in found.corrupt)
        if not any(found.good for found in scans.values()):
            raise InputError(_nothing(results, corrupt))
        try:
            return Warehouse(_connect(results.resolve(), definitions(results, scans)), corrupt)
        except duckdb.Error as error:  # a part vanished between the scan and the views
            if attempt == _ATTEMPTS - 1:
                raise InputError(f"results folder {results}: cannot be opened ({one_line(error)})") from error
    raise AssertionError("unreachable: the last attempt returns or raises")


def store_views(results: Path) -> None:
    """Leave the views in the results folder as a file that any DuckDB client can open, replaced as a whole.

    Nothing happens where the file already holds them or the folder cannot be written: no reader needs it.
    """
    folder = results.resolve()
    wanted = definitions(folder, {name: scan(results, name) for name in TABLES})
    with duckdb.connect(config=_CONFIG) as connection:
        if _attach(connection, folder, wanted):
            return
    temporary = folder / f".warehouse-{uuid4().hex}.tmp"
    try:
        with duckdb.connect(str(temporary), config=_CONFIG) as fresh:
            _create(fresh, wanted)
        temporary.replace(folder / DATABASE)
    except (duckdb.Error, OSError):
        return
    finally:
        for leftover in (temporary, temporary.with_name(temporary.name + ".wal")):
            leftover.unlink(missing_ok=True)


def connect(results: Path) -> duckdb.DuckDBPyConnection:
    """Return a connection in which every view exists, for SQL of our own; a user's SQL goes through `query`.

    Nothing outside the results folder can be read or written through it. `open_warehouse` also names corrupt
    parts.
    """
    return open_warehouse(results).connection


def query(results: Path, sql: str) -> pa.Table:
    """Run one query over the views; see `ask`, which also names corrupt parts."""
    return ask(results, sql).table


def ask(results: Path, sql: str) -> Answer:
    """Run one query over the views of a results folder.

    Raises:
        InputError: there are no results, the SQL is wrong, or it is more than a query over the views.
    """
    check(sql)
    for attempt in range(_ATTEMPTS):
        last = attempt == _ATTEMPTS - 1
        # Deep, since damage behind an intact footer must not be counted by a query that reads other columns only.
        # A further try covers a part that was set aside meanwhile.
        warehouse = open_warehouse(results, deep=True)
        try:
            return Answer(_run(warehouse.connection, sql), warnings(warehouse.corrupt))
        except duckdb.Error as error:
            if last or isinstance(error, _WRONG_SQL):
                raise InputError(f"SQL: {one_line(error)}") from error
        finally:
            warehouse.connection.close()
    raise AssertionError("unreachable: the last attempt returns or raises")


def warnings(corrupt: Sequence[CorruptPart]) -> tuple[str, ...]:
    """Return one line for each part that is not counted."""
    return tuple(f"part not counted: {part.path}: {part.reason}" for part in corrupt)


def _nothing(results: Path, corrupt: Sequence[CorruptPart]) -> str:
    if corrupt:
        count, first = len(corrupt), corrupt[0]
        return f"results folder {results}: none of its {count} parts is readable; {first.path}: {first.reason}"
    return f"results folder {results} holds no results; run an experiment first: cachemend run erasing-niah"


def _connect(results: Path, wanted: Definitions) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(config=_CONFIG)
    try:
        if _attach(connection, results, wanted):
            _confine(connection, results)
            return connection
    except duckdb.Error:
        connection.close()
        raise
    connection.close()
    return _in_memory(results, wanted).cursor()


@lru_cache(maxsize=8)
def _in_memory(results: Path, wanted: Definitions) -> duckdb.DuckDBPyConnection:
    """A database with the views, made once for the many readers of a process; a cursor of it is a connection."""
    connection = duckdb.connect(config=_CONFIG)
    try:
        _create(connection, wanted)
        _confine(connection, results)
    except duckdb.Error:
        connection.close()
        raise
    return connection


def _confine(connection: duckdb.DuckDBPyConnection, results: Path) -> None:
    inside = ", ".join(quoted(path) for path in sorted({str(results), escape(str(results))}))
    connection.execute(f"SET allowed_directories = [{inside}]")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")


def _create(connection: duckdb.DuckDBPyConnection, wanted: Definitions) -> None:
    for statement in wanted.statements:
        connection.execute(statement)


def _attach(connection: duckdb.DuckDBPyConnection, results: Path, wanted: Definitions) -> bool:
    """Attach the stored views if they are the wanted ones."""
    try:
        connection.execute(f"ATTACH {quoted(results / DATABASE)} AS warehouse (READ_ONLY)")
    except duckdb.Error:
        return False
    try:
        row = connection.execute("SELECT digest FROM warehouse.parts.definition").fetchone()
        fresh = row is not None and row[0] == wanted.digest
    except duckdb.Error:
        fresh = False
    if fresh:
        connection.execute("USE warehouse")
    else:
        connection.execute("DETACH warehouse")
    return fresh


def _run(connection: duckdb.DuckDBPyConnection, sql: str) -> pa.Table:
    answer = connection.sql(sql).to_arrow_table()
    for index, field in enumerate(answer.schema):
        if field.type == pa.decimal128(38, 0):  # DuckDB's sum of integers; a plain integer wherever it fits
            answer = _narrow(answer, index, field.name)
    return answer


def _narrow(answer: pa.Table, index: int, name: str) -> pa.Table:
    try:
        return answer.set_column(index, name, answer.column(index).cast(pa.int64()))
    except pa.ArrowInvalid:
        return answer
