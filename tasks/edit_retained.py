"""What the stored records say about retention, and which positions they hold: what later stages of a run go by."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from cachemend.tasks.edit_work import EditIdentity
from cachemend.warehouse import store
from cachemend.warehouse.scanning import scan
from cachemend.warehouse.schemas import TABLES


class Retention(NamedTuple):
    """Case digests by whether the clean record retains them; a case without a good clean record is in neither."""

    retained: frozenset[str]
    dropped: frozenset[str]


def retention(results: Path, identity: EditIdentity) -> Retention:
    """Read the retention of the cases that were run under this identity."""
    rows = edit_rows(results, identity, ("case_digest", "retained"), "policy = 'clean' AND outcome = 'ok'")
    kept = frozenset(row["case_digest"] for row in rows if row["retained"])
    return Retention(kept, frozenset(row["case_digest"] for row in rows) - kept)


def recorded_positions(results: Path, identity: EditIdentity) -> dict[tuple[str, str, int | None], tuple[int, ...]]:
    """Return the positions that each recomputing arm chose, by case digest, policy and K."""
    columns = ("case_digest", "policy", "k", "positions")
    rows = edit_rows(results, identity, columns, "operator = 'recompute' AND outcome = 'ok' AND retained")
    return {(row["case_digest"], row["policy"], row["k"]): tuple(row["positions"]) for row in rows}


def cohorts_beside(results: Path, identity: EditIdentity) -> list[str]:
    """Return the digests of the other cohorts with records that share all else with `identity`, the latest first."""
    shared = {name: value for name, value in asdict(identity).items() if name not in ("model", "cohort_digest")}
    same = " AND ".join(f"{name} = ?" for name in shared)
    sql = (
        f"SELECT cohort_digest FROM edit_records WHERE {same} AND cohort_digest <> ? "
        "GROUP BY cohort_digest ORDER BY max(recorded_at) DESC, cohort_digest"
    )
    return [row["cohort_digest"] for row in _asked(results, sql, [*shared.values(), identity.cohort_digest])]


def edit_rows(
    results: Path, identity: EditIdentity, columns: Sequence[str], where: str = "true", view: str = "edit_records"
) -> list[dict[str, Any]]:
    """Return rows of a view that share `identity`; none where nothing was stored yet.

    Args:
        results: results folder.
        identity: what the rows share; the model's name is not part of it.
        columns: columns to read.
        where: a condition in SQL.
        view: edit_records, or another that has the identity's columns.
    """
    shared = {name: value for name, value in asdict(identity).items() if name != "model"}
    same = " AND ".join(f"{name} = ?" for name in shared)
    return _asked(results, f"SELECT {', '.join(columns)} FROM {view} WHERE {same} AND ({where})", [*shared.values()])


def _asked(results: Path, sql: str, values: Sequence[Any]) -> list[dict[str, Any]]:
    # A folder of a first run holds nothing that could be opened.
    if not any(scan(results, name).good for name in TABLES):
        return []
    with store.connect(results) as connection:
        rows: list[dict[str, Any]] = connection.sql(sql, params=list(values)).to_arrow_table().to_pylist()
    return rows
