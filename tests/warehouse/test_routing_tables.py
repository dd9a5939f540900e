"""The tables of response reuse: what identifies their rows, what is refused, and how a run resumes on them."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from cachemend.warehouse import store
from cachemend.warehouse.parts import finished_keys, write_part
from cachemend.warehouse.schemas import TABLES, RowError, record_key

from support.routing_analysis import stress_rows, write_study
from support.routing_rows import RouteSetup, measured, route_record, write_records

SETUP = RouteSetup(pairs=12, splits=2)
RECORD = route_record(SETUP, measured(0))
ROUTING = tuple(name for name in TABLES if name.startswith(("route_", "routing_", "verifier_", "signal_")))
ANALYSES = tuple(name for name in ROUTING if not name.startswith("route_"))


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, Any]]]:
    """Rows of every routing table, all of which the writer accepted."""
    made = write_study(tmp_path_factory.mktemp("study"), SETUP)
    return made | {"routing_stress_rows": stress_rows(SETUP)}


GROUP = ("cohort_digest", "pool", "encoder", "lexicon_digest", "verifier", "language_model", "engine_version")


def other(value: Any) -> Any:
    return value + 1 if isinstance(value, int | float) and not isinstance(value, bool) else "another"


def test_every_table_has_rows_and_no_key_twice(rows: dict[str, list[dict[str, Any]]]) -> None:
    assert set(ROUTING) <= set(rows)
    for name in ROUTING:
        table = TABLES[name]
        given = [row | {"record_key": record_key(row, name)} if table.has("record_key") else row for row in rows[name]]
        assert len({table.row_key(row) for row in given}) == len(rows[name]), name


def test_each_identity_column_counts_and_nothing_else() -> None:
    wanted = TABLES["route_records"]
    key = record_key(RECORD, "route_records")
    for column in wanted.columns:
        if column.name in ("record_key", "schema_version"):
            continue
        value = 7 if RECORD[column.name] is None else other(RECORD[column.name])
        changed = {**RECORD, column.name: value}
        assert (column.name in wanted.key) == (record_key(changed, "route_records") != key), column.name


@pytest.mark.parametrize("name", ANALYSES)
def test_analyses_of_two_groups_never_share_a_key(name: str, rows: dict[str, list[dict[str, Any]]]) -> None:
    table, row = TABLES[name], rows[name][0]
    assert {"split_plan", "own_guards"} <= set(table.key) or name == "routing_probe_rows"
    for column in (*GROUP, "split_plan") if name != "routing_probe_rows" else GROUP[:2]:
        assert table.row_key({**row, column: other(row[column])}) != table.row_key(row), column
    for column in ("run_id", "recorded_at", "diagnostic"):
        assert column not in table.key


@pytest.mark.parametrize(
    ("table", "change", "line"),
    [
        ("route_records", {"pool": "mixed"}, "column 'pool' has the value 'mixed'; allowed: \\['seed', "),
        ("route_records", {"verdict": "valid"}, "column 'verdict' has the value 'valid'; allowed: \\['VALID', "),
        ("route_records", {"similarity": float("nan")}, "not finite"),
        ("route_records", {"valid": 1}, "column 'valid' has the value 1 \\(int\\); it needs BOOLEAN"),
        ("route_records", {"error": "no answer"}, "while the outcome is 'ok'"),
        ("route_records", {"explanation": "{"}, "it needs VARCHAR"),
        ("route_exposures", {"action": "regenerated"}, "column 'action'"),
        ("routing_test_rows", {"claim": "better"}, "column 'claim'"),
        ("routing_map_rows", {"kind": "block"}, "column 'kind'"),
        ("routing_point_rows", {"n_abstained": 0.5}, "column 'n_abstained'"),
    ],
)
def test_a_row_that_does_not_fit_is_refused(
    tmp_path: Path, rows: dict[str, list[dict[str, Any]]], table: str, change: dict[str, Any], line: str
) -> None:
    with pytest.raises(RowError, match=line):
        write_part(tmp_path, table, [rows[table][0] | change])
    assert not list(tmp_path.rglob("*.parquet"))


def test_resume_asks_again_where_the_verifier_gave_no_answer(tmp_path: Path) -> None:
    def change(row: dict[str, Any]) -> dict[str, Any]:
        lost = {"verdict": "FAILED", "outcome": "case_error", "error": "the verifier gave no answer"}
        return row | lost if row["case_id"] == "pair-003" else row

    records = write_records(tmp_path, replace(SETUP, change=change))
    keys = finished_keys(tmp_path, "route_records")
    assert keys == {record_key(r, "route_records") for r in records if r["case_id"] != "pair-003"}
    later = route_record(replace(SETUP, hours=1), measured(3))
    write_part(tmp_path, "route_records", [later])
    assert finished_keys(tmp_path, "route_records") == keys | {record_key(later, "route_records")}


def test_the_same_analysis_again_writes_nothing(tmp_path: Path, rows: dict[str, list[dict[str, Any]]]) -> None:
    for name in ANALYSES:
        first = write_part(tmp_path, name, rows[name])
        later = [r | {"run_id": "route-9", "recorded_at": r["recorded_at"] + timedelta(days=1)} for r in rows[name]]
        assert write_part(tmp_path, name, later) == first, name
    assert store.query(tmp_path, "SELECT DISTINCT run_id FROM routing_points").to_pylist() == [{"run_id": "route-1"}]
