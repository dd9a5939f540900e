"""From a worker's measurements to complete rows of a result table."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from cachemend.tasks.identity import Identity
from cachemend.tasks.work import Measured, Work
from cachemend.warehouse.schemas import record_key, table


def row_key(table_name: str, row: dict[str, Any]) -> str:
    """The key of a row that need not be complete yet, as `finished_keys` returns it."""
    wanted = table(table_name)
    return record_key(row, table_name) if wanted.has("record_key") else wanted.row_key(row)


def record_rows(
    work: Work, identity: Identity, run_id: str, case: Any, worker: str, measured: Sequence[Measured]
) -> list[dict[str, Any]]:
    """Return one complete row per measurement; what was not measured is NULL."""
    columns = table(work.table).columns
    names = {column.name for column in columns}
    shared = {
        **work.facts(case),
        "run_id": run_id,
        "worker": worker,
        "recorded_at": datetime.now(UTC),
    }
    rows = []
    for arm, row in measured:
        known = {**shared, **identity.of(case.digest, arm)}
        rows.append(
            {
                **dict.fromkeys(column.name for column in columns if column.nullable),
                **{name: value for name, value in known.items() if name in names},
                **row,
            }
        )
    return rows
