"""The SQL that turns a results folder into views.

Schema `parts` holds every row of every readable part, superseded ones too; the views a reader uses stand in
the default schema. Each of those is one file in `views/`, or built here (`published`).
"""

import hashlib
from collections.abc import Mapping, Sequence
from functools import cache
from glob import escape
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

from cachemend.warehouse.published import Published, published
from cachemend.warehouse.published_edits import PublishedEdit, published_edits
from cachemend.warehouse.published_execution import PublishedExecution, published_execution
from cachemend.warehouse.published_numerics import PublishedNumeric, published_numerics
from cachemend.warehouse.published_routing import PublishedRouting, published_routing
from cachemend.warehouse.scanning import Scan
from cachemend.warehouse.schemas import TABLES, Table

# In order: each reads only earlier ones.
SQL_VIEWS = (
    "runs",
    "cases",
    "records",
    "timings",
    "niah_sweep",
    "allocation_geometry",
    "alternative_policies",
    "allocation_variants",
    "repair_locality",
    "executor_pairs",
    "repeat_records",
    "probe_records",
    "bound_records",
    "numerical_repeats",
    "executor_probes",
    "residual_bound",
    "edit_records",
    "edit_cases",
    "edit_sequences",
    "edit_recovery",
    "edit_contrasts",
    "edit_triggers",
    "edit_decisions",
    "edit_distance",
    "edit_operators",
    "edit_cost",
    "refresh_timings",
    "attention_timings",
    "recovery_timings",
    "route_records",
    "route_exposures",
    "routing_points",
    "routing_ceiling",
    "routing_heldout_risk",
    "routing_tests",
    "routing_by_family",
    "routing_ablation",
    "routing_frozen",
    "routing_order",
    "routing_stress",
    "routing_map",
    "routing_certified",
    "verifier_quality",
    "signal_ranking",
    "routing_probes",
)
VIEWS = (*SQL_VIEWS, "published")


class Definitions(NamedTuple):
    """Statements that create all views, and a digest of them, which the view `parts.definition` returns."""

    statements: tuple[str, ...]
    digest: str


def definitions(results: Path, scans: Mapping[str, Scan]) -> Definitions:
    """Return the views over the readable parts of a results folder.

    The SQL holds absolute paths. It stays the same as long as no part is corrupt and no table gets its first
    part, so that parts which arrive later are seen without new views.
    """
    statements = ["CREATE SCHEMA parts"]
    for table in TABLES.values():
        source = _source(results.resolve() / table.name, scans[table.name])
        statements.append(f"CREATE VIEW parts.{table.name} AS {_relation(table, source)}")
    statements.append(f"CREATE VIEW main.published AS {_published()}")
    for name in SQL_VIEWS:
        sql = files("cachemend.warehouse").joinpath("views", f"{name}.sql").read_text(encoding="utf-8")
        statements.append(f"CREATE VIEW main.{name} AS {sql}")
    digest = hashlib.sha256("\n".join(statements).encode()).hexdigest()
    statements.append(f"CREATE VIEW parts.definition AS SELECT '{digest}' AS digest")
    return Definitions(tuple(statements), digest)


def quoted(value: object) -> str:
    """Return a value as an SQL literal."""
    if value is None:
        return "NULL"
    if isinstance(value, int | float):
        return repr(value)
    return "'" + str(value).replace("'", "''") + "'"


def _source(folder: Path, scan: Scan) -> tuple[str, ...]:
    if not scan.good:
        return ()
    if scan.corrupt:
        return tuple(escape(str(path)) for path in scan.good)
    return (f"{escape(str(folder))}/*.parquet",)


def _relation(table: Table, source: tuple[str, ...]) -> str:
    nulls = ", ".join(f'CAST(NULL AS {column.kind.sql}) AS "{column.name}"' for column in table.columns)
    empty = f"SELECT {nulls}, CAST(NULL AS VARCHAR) AS part WHERE false"
    if not source:
        return empty
    paths = ", ".join(quoted(path) for path in source)
    read = f"read_parquet([{paths}], union_by_name = true, hive_partitioning = false)"
    # The empty half fixes the columns and types, whichever schema versions the parts have.
    return f"{empty} UNION ALL BY NAME SELECT *, filename AS part FROM {read}"


@cache
def _published() -> str:
    kinds = {"table": "INTEGER", "distance": "INTEGER", "k": "INTEGER", "length": "INTEGER", "n": "INTEGER"}
    kinds["n_intervals"] = "INTEGER"
    kinds |= dict.fromkeys(("budget", "value", "low", "high"), "DOUBLE")
    sweep = _figures(Published._fields, published(), kinds)
    edits = _figures(PublishedEdit._fields, published_edits(), kinds)
    routing = _figures(PublishedRouting._fields, published_routing(), kinds)
    numerics = _figures(PublishedNumeric._fields, published_numerics(), kinds)
    execution = _figures(PublishedExecution._fields, published_execution(), kinds)
    return " UNION ALL BY NAME ".join((sweep, edits, routing, numerics, execution))


def _figures(fields: Sequence[str], found: Sequence[Sequence[object]], kinds: Mapping[str, str]) -> str:
    names = ", ".join(f'"{name}"' for name in fields)
    casts = ", ".join(f'CAST("{name}" AS {kinds[name]}) AS "{name}"' for name in fields if name in kinds)
    rows = ", ".join("(" + ", ".join(quoted(value) for value in row) + ")" for row in found)
    return f"SELECT * REPLACE ({casts}) FROM (VALUES {rows}) AS figures({names})"
