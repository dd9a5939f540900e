"""Arrow schemas of the result tables, and the identity of a row in each.

A record is identified by what determines its result, never by when or where it ran: a limited run, a full
run, a rerun and another worker share keys, another model, precision or score rule does not.
"""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from types import MappingProxyType

import pyarrow as pa

from cachemend.repair_core.errors import InputError, nearest
from cachemend.warehouse.column import Column, Kind
from cachemend.warehouse.columns import CASES, RECORDS, RUNS
from cachemend.warehouse.edit_analysis_columns import (
    EDIT_CONTRAST_ROWS,
    EDIT_RECOVERY_ROWS,
    EDIT_TABLE_ROWS,
    EDIT_TRIGGER_ROWS,
)
from cachemend.warehouse.edit_columns import EDIT_CASES, EDIT_RECORDS, EDIT_SEQUENCES, EDIT_TIMINGS
from cachemend.warehouse.execution_columns import ATTENTION_TIMING_ROWS, RECOVERY_TIMING_ROWS, REFRESH_TIMING_ROWS
from cachemend.warehouse.keys import (
    ATTENTION_TIMING_KEY,
    CASE_KEY,
    CELL_KEY,
    EDIT_RECORD_KEY,
    EDIT_SEQUENCE_KEY,
    EDIT_TIMING_KEY,
    GROUP_KEY,
    KEY,
    METHOD_KEY,
    NUMERIC_KEY,
    POOL_KEY,
    RECOVERY_TIMING_KEY,
    REFRESH_TIMING_KEY,
    REPEAT_KEY,
    ROUTE_RECORD_KEY,
    ROUTING_PROBE_KEY,
)
from cachemend.warehouse.numeric_columns import BOUND_RECORDS, PROBE_RECORDS, REPEAT_RECORDS
from cachemend.warehouse.routing_analysis_columns import (
    ROUTING_ABLATION_ROWS,
    ROUTING_CERTIFIED_ROWS,
    ROUTING_FAMILY_ROWS,
    ROUTING_FROZEN_ROWS,
    ROUTING_MAP_ROWS,
    ROUTING_ORDER_ROWS,
    ROUTING_POINT_ROWS,
    ROUTING_PROBE_ROWS,
    ROUTING_RISK_ROWS,
    ROUTING_STRESS_ROWS,
    ROUTING_TEST_ROWS,
    SIGNAL_ROWS,
    VERIFIER_QUALITY_ROWS,
)
from cachemend.warehouse.routing_columns import ROUTE_EXPOSURES, ROUTE_RECORDS

SCHEMA_VERSION = 6


class RowError(ValueError):
    """A row that does not fit its table: a fault of the writing code. The line names the column and value."""


@dataclass(frozen=True, kw_only=True)
class Table:
    """A result table.

    Attributes:
        columns: its columns.
        key: the columns that identify a row; two rows that agree in them are two measurements of one thing.
    """

    name: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]

    def has(self, name: str) -> bool:
        """Whether the table has a column."""
        return any(column.name == name for column in self.columns)

    @property
    def key_columns(self) -> tuple[str, ...]:
        """The columns from which `row_key` follows: the digest of the key where the table stores it."""
        return ("record_key",) if self.has("record_key") else self.key

    def row_key(self, row: Mapping[str, object]) -> str:
        """Return the text that identifies a stored row, inside a part's name and when a run is resumed."""
        values = [row[name] for name in self.key_columns]
        return str(values[0]) if self.key_columns == ("record_key",) else _canonical(values)

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema; each field carries its meaning, the schema its table and version."""
        fields = [
            pa.field(c.name, c.kind.arrow, nullable=c.nullable, metadata={"meaning": c.meaning}) for c in self.columns
        ]
        return pa.schema(fields, metadata={"table": self.name, "schema_version": str(SCHEMA_VERSION)})


def record_key(identity: Mapping[str, object], table_name: str = "records") -> str:
    """Return the SHA-256 hex digest that identifies a row.

    Args:
        identity: the columns of the table's key; further keys are ignored, so a whole row may be given. The budget
            of `records` is a number of percent (5 and 5.0 are the same budget) or None.
        table_name: the table of the row.

    Raises:
        RowError: a column is missing or has the wrong type.
        InputError: there is no such table.
    """
    wanted = table(table_name)
    known = {column.name: column for column in wanted.columns}
    values = [_identity_value(identity, known[name], wanted.key) for name in wanted.key]
    return hashlib.sha256(_canonical(values).encode()).hexdigest()


def table(name: str) -> Table:
    """Return a result table by name.

    Raises:
        InputError: there is no such table.
    """
    if name not in TABLES:
        raise InputError(f"no result table {name!r}; {nearest(name, TABLES)}")
    return TABLES[name]


def _identity_value(identity: Mapping[str, object], column: Column, key: Sequence[str]) -> object:
    if column.name not in identity:
        raise RowError(f"identity: column {column.name!r} is missing; known: {', '.join(key)}")
    value = identity[column.name]
    if value is None and column.nullable:
        return None
    if column.kind is Kind.TEXT and isinstance(value, str):
        return value
    if column.kind is Kind.DOUBLE and isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value):
        return float(value) + 0.0  # turns -0.0 into 0.0
    if column.kind is Kind.INT and isinstance(value, Integral) and not isinstance(value, bool):
        return int(value)
    raise RowError(f"identity: column {column.name!r} has the value {value!r} ({type(value).__name__})")


def _canonical(values: list[object]) -> str:
    return json.dumps(values, separators=(",", ":"), allow_nan=False)


_ALL = (
    Table(name="records", columns=RECORDS, key=KEY),
    Table(name="cases", columns=CASES, key=CASE_KEY),
    Table(name="runs", columns=RUNS, key=("run_id", "status")),
    Table(name="repeat_records", columns=REPEAT_RECORDS, key=REPEAT_KEY),
    Table(name="probe_records", columns=PROBE_RECORDS, key=NUMERIC_KEY),
    Table(name="bound_records", columns=BOUND_RECORDS, key=NUMERIC_KEY),
    Table(name="edit_records", columns=EDIT_RECORDS, key=EDIT_RECORD_KEY),
    Table(name="edit_cases", columns=EDIT_CASES, key=CASE_KEY),
    Table(name="edit_sequences", columns=EDIT_SEQUENCES, key=EDIT_SEQUENCE_KEY),
    Table(name="edit_timings", columns=EDIT_TIMINGS, key=EDIT_TIMING_KEY),
    Table(name="edit_recovery_rows", columns=EDIT_RECOVERY_ROWS, key=(*CELL_KEY, "policy", "k", "operator")),
    Table(name="edit_contrast_rows", columns=EDIT_CONTRAST_ROWS, key=(*CELL_KEY, "policy_a", "policy_b", "k")),
    Table(
        name="edit_trigger_rows",
        columns=EDIT_TRIGGER_ROWS,
        key=(*GROUP_KEY, "kind", "subject", "condition", "share"),
    ),
    Table(name="edit_table_rows", columns=EDIT_TABLE_ROWS, key=(*GROUP_KEY, "stage", "cell", "policy", "k")),
    Table(name="refresh_timing_rows", columns=REFRESH_TIMING_ROWS, key=REFRESH_TIMING_KEY),
    Table(name="attention_timing_rows", columns=ATTENTION_TIMING_ROWS, key=ATTENTION_TIMING_KEY),
    Table(name="recovery_timing_rows", columns=RECOVERY_TIMING_ROWS, key=RECOVERY_TIMING_KEY),
    Table(name="route_records", columns=ROUTE_RECORDS, key=ROUTE_RECORD_KEY),
    Table(name="route_exposures", columns=ROUTE_EXPOSURES, key=(*METHOD_KEY, "split", "case_digest")),
    Table(name="routing_point_rows", columns=ROUTING_POINT_ROWS, key=METHOD_KEY),
    Table(name="routing_risk_rows", columns=ROUTING_RISK_ROWS, key=METHOD_KEY),
    Table(name="routing_test_rows", columns=ROUTING_TEST_ROWS, key=(*METHOD_KEY, "reference")),
    Table(name="routing_family_rows", columns=ROUTING_FAMILY_ROWS, key=(*METHOD_KEY, "source", "family")),
    Table(name="routing_ablation_rows", columns=ROUTING_ABLATION_ROWS, key=(*POOL_KEY, "setting", "ablation")),
    Table(name="routing_frozen_rows", columns=ROUTING_FROZEN_ROWS, key=(*POOL_KEY, "setting", "exchanged")),
    Table(name="routing_order_rows", columns=ROUTING_ORDER_ROWS, key=(*POOL_KEY, "setting", "request_order")),
    Table(name="routing_stress_rows", columns=ROUTING_STRESS_ROWS, key=METHOD_KEY),
    Table(name="routing_map_rows", columns=ROUTING_MAP_ROWS, key=(*POOL_KEY, "kind", "name")),
    Table(name="routing_certified_rows", columns=ROUTING_CERTIFIED_ROWS, key=METHOD_KEY),
    Table(name="verifier_quality_rows", columns=VERIFIER_QUALITY_ROWS, key=(*POOL_KEY, "region")),
    Table(name="routing_probe_rows", columns=ROUTING_PROBE_ROWS, key=ROUTING_PROBE_KEY),
    Table(name="signal_rows", columns=SIGNAL_ROWS, key=(*POOL_KEY, "signal", "source")),
)
TABLES: Mapping[str, Table] = MappingProxyType({each.name: each for each in _ALL})
