"""What a column of a result table is: its name, its type and a one-line meaning."""

from dataclasses import dataclass
from enum import Enum

import pyarrow as pa

_CIRCUMSTANCES = ("run_id", "worker", "recorded_at", "latency")
_INTERVAL = pa.struct([("start", pa.int32()), ("stop", pa.int32())])


class Kind(Enum):
    """A column type: the Arrow type that is stored and the DuckDB type it reads back as."""

    TEXT = "text", pa.string(), "VARCHAR"
    JSON = "json", pa.string(), "VARCHAR"
    INT = "int", pa.int32(), "INTEGER"
    BIGINT = "bigint", pa.int64(), "BIGINT"
    DOUBLE = "double", pa.float64(), "DOUBLE"
    BOOL = "bool", pa.bool_(), "BOOLEAN"
    TIME = "time", pa.timestamp("us"), "TIMESTAMP"
    INTS = "ints", pa.list_(pa.int32()), "INTEGER[]"
    DOUBLES = "doubles", pa.list_(pa.float64()), "DOUBLE[]"
    TEXTS = "texts", pa.list_(pa.string()), "VARCHAR[]"
    INTERVALS = "intervals", pa.list_(_INTERVAL), 'STRUCT("start" INTEGER, "stop" INTEGER)[]'

    def __init__(self, label: str, arrow: pa.DataType, sql: str) -> None:
        self.label = label
        self.arrow = arrow
        self.sql = sql


@dataclass(frozen=True, kw_only=True)
class Column:
    """One column of a result table.

    Attributes:
        name: the column's name in Parquet and in SQL.
        kind: its type.
        meaning: one line, with the unit.
        nullable: whether NULL is allowed.
        allowed: the only values allowed; empty for any.
        circumstance: says who computed a result, when and in which time; two rows that differ in nothing else are
            the same result.
    """

    name: str
    kind: Kind
    meaning: str
    nullable: bool = False
    allowed: tuple[object, ...] = ()

    @property
    def circumstance(self) -> bool:
        return self.name in _CIRCUMSTANCES or self.name.startswith("t_")


def must(name: str, kind: Kind, meaning: str, allowed: tuple[object, ...] = ()) -> Column:
    """Return a column that every row fills."""
    return Column(name=name, kind=kind, meaning=meaning, allowed=allowed)


def may(name: str, kind: Kind, meaning: str, allowed: tuple[object, ...] = ()) -> Column:
    """Return a column that may be NULL."""
    return Column(name=name, kind=kind, meaning=meaning, nullable=True, allowed=allowed)
