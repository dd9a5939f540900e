"""Strict validation of rows before they are written.

Arrow's own conversion truncates 2.9 to 2, reads True as 1 and drops unknown keys without a word; NaN is not
NULL and would poison every mean.
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from numbers import Integral, Real

import pyarrow as pa

from cachemend.repair_core.errors import nearest
from cachemend.warehouse.column import Column, Kind
from cachemend.warehouse.schemas import SCHEMA_VERSION, RowError, Table, record_key

INVARIANTS = ("input_unchanged", "positions_exact", "unselected_bit_identical", "upstream_bit_identical")
_SHOWN = 80  # characters of an offending value in an error line


def validated(table: Table, rows: Sequence[Mapping[str, object]]) -> tuple[list[dict[str, object]], pa.Table]:
    """Check rows and convert them to the table's Arrow schema.

    `schema_version`, and `record_key` where the table has one, may be left out and are then filled in.

    Raises:
        RowError: naming the row, the column and the value.
    """
    if not rows:
        raise RowError(f"{table.name}: no rows to write")
    checked: list[dict[str, object]] = []
    seen: dict[str, int] = {}
    for number, row in enumerate(rows):
        try:
            checked.append(_row(table, row))
        except RowError as error:
            raise RowError(f"{table.name} row {number}: {error}") from error
        first = seen.setdefault(table.row_key(checked[-1]), number)
        if first != number:
            raise RowError(f"{table.name} row {number}: duplicates the key of row {first}")
    arrays = [pa.array([row[c.name] for row in checked], c.kind.arrow) for c in table.columns]
    return checked, pa.Table.from_arrays(arrays, schema=table.schema)


def _row(table: Table, given: Mapping[str, object]) -> dict[str, object]:
    row: dict[str, object] = {"schema_version": SCHEMA_VERSION, **given}
    names = [column.name for column in table.columns]
    for unknown in row.keys() - set(names):
        raise RowError(f"unknown column {unknown!r} with value {_show(row[unknown])}; {nearest(unknown, names)}")
    if table.has("record_key") and "record_key" not in row:
        row["record_key"] = record_key(row, table.name)
    for name in names:
        if name not in row:
            raise RowError(f"column {name!r} is missing")
    clean = {column.name: _value(column, row[column.name]) for column in table.columns}
    if clean["schema_version"] != SCHEMA_VERSION:
        raise RowError(f"column 'schema_version' is {clean['schema_version']}; this code writes {SCHEMA_VERSION}")
    if table.has("record_key") and clean["record_key"] != record_key(clean, table.name):
        raise RowError(f"column 'record_key' is {_show(clean['record_key'])}, not the digest of the identity")
    if table.has("outcome"):
        _check_outcome(clean)
    return clean


def _check_outcome(row: Mapping[str, object]) -> None:
    ok = row["outcome"] == "ok"
    if ok != (row["error"] is None):
        raise RowError(f"column 'error' is {_show(row['error'])} while the outcome is {row['outcome']!r}")
    for name in INVARIANTS:
        if ok and row.get(name) is False:
            raise RowError(f"column {name!r} is False: a row whose invariant fails is not ok")


def _value(column: Column, value: object) -> object:
    if value is None:
        if not column.nullable:
            raise RowError(f"column {column.name!r} is None; it needs {column.kind.sql}")
        return None
    try:
        clean = _CONVERT[column.kind](value)
    except (TypeError, ValueError) as error:
        given = f"{_show(value)} ({type(value).__name__})"
        detail = f"; {error}" if str(error) else ""
        needs = f"it needs {column.kind.sql}{detail}"
        raise RowError(f"column {column.name!r} has the value {given}; {needs}") from error
    if column.allowed and clean not in column.allowed:
        raise RowError(f"column {column.name!r} has the value {_show(value)}; allowed: {list(column.allowed)}")
    return clean


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError
    value.encode()  # a lone surrogate cannot be stored
    return str(value)


def _json(value: object) -> str:
    json.loads(_text(value), parse_constant=_no_constant)
    return str(value)


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _int(value: object, bits: int) -> int:
    if not isinstance(value, Integral) or isinstance(value, bool):
        raise TypeError
    if not -(2 ** (bits - 1)) <= value < 2 ** (bits - 1):
        raise ValueError(f"it does not fit {bits} bits")
    return int(value)


def _double(value: object) -> float:
    if not isinstance(value, Real) or isinstance(value, bool):
        raise TypeError
    if not math.isfinite(value):
        raise ValueError("it is not finite; give None where a value is undefined")
    return float(value)


def _bool(value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError
    return value


def _time(value: object) -> datetime:
    if not isinstance(value, datetime):
        raise TypeError
    if value.tzinfo is None or value.utcoffset() is None:
        raise ValueError("it has no time zone")
    return value.astimezone(UTC).replace(tzinfo=None)


def _items(value: object) -> Sequence[object]:
    if not isinstance(value, list | tuple):
        raise TypeError
    return value


def _interval(value: object) -> dict[str, int]:
    if not isinstance(value, Mapping) or set(value) != {"start", "stop"}:
        raise ValueError("each interval is {'start': int, 'stop': int}")
    return {name: _int(value[name], 32) for name in ("start", "stop")}


_CONVERT: Mapping[Kind, Callable[[object], object]] = {
    Kind.TEXT: _text,
    Kind.JSON: _json,
    Kind.INT: lambda value: _int(value, 32),
    Kind.BIGINT: lambda value: _int(value, 64),
    Kind.DOUBLE: _double,
    Kind.BOOL: _bool,
    Kind.TIME: _time,
    Kind.INTS: lambda value: [_int(item, 32) for item in _items(value)],
    Kind.DOUBLES: lambda value: [_double(item) for item in _items(value)],
    Kind.TEXTS: lambda value: [_text(item) for item in _items(value)],
    Kind.INTERVALS: lambda value: [_interval(item) for item in _items(value)],
}


def _show(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."
