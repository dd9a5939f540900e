"""Arrow schemas of the result tables, and the identity of a row in each.

A record is identified by what determines its result, never by when or where it ran: a limited run, a full
run, a rerun and another worker share keys, another model, precision or score rule does not.
"""

import hashlib
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from types import MappingProxyType

import pyarrow as pa

from cachemend.repair_core.errors import InputError, nearest
from cachemend.warehouse.columns import CASES, RECORDS, RUNS, Column

SCHEMA_VERSION = 2

KEY = (
    "experiment",
    "cohort_digest",
    "case_digest",
    "allocator",
    "budget",
    "auxiliary",
    "executor",
    "attention",
    "model_fingerprint",
    "dtype",
    "decoding",
    "score_rule",
    "engine_version",
)


class RowError(ValueError):
    """A row that does not fit its table: a fault of the writing code. The line names the column and value."""


@dataclass(frozen=True, kw_only=True)
class Table:
    """A result table: its columns, and the text that identifies a row inside a part's name."""

    name: str
    columns: tuple[Column, ...]
    row_key: Callable[[Mapping[str, object]], str]

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema; each field carries its meaning, the schema its table and version."""
        fields = [
            pa.field(c.name, c.kind.arrow, nullable=c.nullable, metadata={"meaning": c.meaning}) for c in self.columns
        ]
        return pa.schema(fields, metadata={"table": self.name, "schema_version": str(SCHEMA_VERSION)})


def record_key(identity: Mapping[str, object]) -> str:
    """Return the SHA-256 hex digest that identifies a record.

    Args:
        identity: the columns of `KEY`; further keys are ignored, so a whole row may be given. The budget is a
            number of percent (5 and 5.0 are the same budget) or None.

    Raises:
        RowError: a column is missing or has the wrong type.
    """
    return hashlib.sha256(_canonical([_identity_value(identity, name) for name in KEY]).encode()).hexdigest()


def table(name: str) -> Table:
    """Return a result table by name.

    Raises:
        InputError: there is no such table.
    """
    if name not in TABLES:
        raise InputError(f"no result table {name!r}; {nearest(name, TABLES)}")
    return TABLES[name]


def _identity_value(identity: Mapping[str, object], name: str) -> object:
    if name not in identity:
        raise RowError(f"identity: column {name!r} is missing; known: {', '.join(KEY)}")
    value = identity[name]
    if name in ("budget", "auxiliary") and value is None:
        return None
    if name == "budget" and isinstance(value, Real) and not isinstance(value, bool):
        if math.isfinite(value):
            return float(value) + 0.0  # turns -0.0 into 0.0
    elif name == "engine_version" and isinstance(value, Integral) and not isinstance(value, bool):
        return int(value)
    elif name not in ("budget", "engine_version") and isinstance(value, str):
        return value
    raise RowError(f"identity: column {name!r} has the value {value!r} ({type(value).__name__})")


def _canonical(values: list[object]) -> str:
    return json.dumps(values, separators=(",", ":"), allow_nan=False)


def _case_key(row: Mapping[str, object]) -> str:
    return _canonical([row["experiment"], row["cohort_digest"], row["case_digest"]])


TABLES: Mapping[str, Table] = MappingProxyType(
    {
        "records": Table(name="records", columns=RECORDS, row_key=lambda row: str(row["record_key"])),
        "cases": Table(name="cases", columns=CASES, row_key=_case_key),
        "runs": Table(name="runs", columns=RUNS, row_key=lambda row: _canonical([row["run_id"], row["status"]])),
    }
)
