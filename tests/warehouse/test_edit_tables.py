"""The tables of the edit study: what identifies their rows, how a run resumes on them, and what stays as it was."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from cachemend.repair_core.errors import InputError
from cachemend.warehouse import store
from cachemend.warehouse.edit_evidence import evidence_checks, shortfall
from cachemend.warehouse.parts import finished_keys, write_part
from cachemend.warehouse.schemas import TABLES, record_key

from support.edit_analysis import one_of_each, timing_rows
from support.edit_rows import EditSetup, edit_record, failed, write_edit_results

ROWS = one_of_each()
RECORD = ROWS["edit_records"]


def other(value: Any) -> Any:
    return value + 1 if isinstance(value, int) and not isinstance(value, bool) else "another"


@pytest.mark.parametrize("table", ["edit_records", "edit_sequences"])
def test_each_identity_column_counts_and_nothing_else(table: str) -> None:
    row, wanted = ROWS[table], TABLES[table]
    key = record_key(row, table)
    for column in wanted.columns:
        if column.name == "record_key":
            continue
        value = 7 if row.get(column.name) is None else other(row[column.name])
        changed = {**row, column.name: value}
        assert (column.name in wanted.key) == (record_key(changed, table) != key), column.name


def test_references_and_budgets_of_nothing_differ() -> None:
    keys = {record_key({**RECORD, "k": k}, "edit_records") for k in (None, 0, 32)}
    assert len(keys) == 3


def test_a_key_belongs_to_one_table() -> None:
    with pytest.raises(ValueError, match="'allocator' is missing"):
        record_key(RECORD)
    with pytest.raises(InputError, match="'edit_record'; did you mean 'edit_records'"):
        record_key(RECORD, "edit_record")


def test_every_key_column_is_a_column() -> None:
    for table in TABLES.values():
        assert set(table.key) <= {column.name for column in table.columns}, table.name


def test_resume_repeats_what_failed_and_nothing_else(tmp_path: Path) -> None:
    rows = write_edit_results(tmp_path, EditSetup(items=3, policies=("edit-local", "random")))
    again = failed(rows[-1]) | {"recorded_at": rows[-1]["recorded_at"] + timedelta(seconds=1)}
    write_part(tmp_path, "edit_records", [again])
    keys = finished_keys(tmp_path, "edit_records")
    assert keys == {record_key(row, "edit_records") for row in rows[:-1]}
    assert finished_keys(tmp_path) == set()
    write_part(tmp_path, "edit_records", [again | {"outcome": "refused", "error": "not supported"}])
    assert record_key(rows[-1], "edit_records") not in finished_keys(tmp_path, "edit_records")  # the tie goes to a part


def test_a_table_without_outcomes_is_finished_where_it_is_stored(tmp_path: Path) -> None:
    rows = timing_rows(EditSetup())
    write_part(tmp_path, "edit_timings", rows[:3])
    finished = finished_keys(tmp_path, "edit_timings")
    assert [TABLES["edit_timings"].row_key(row) in finished for row in rows] == [True] * 3 + [False] * (len(rows) - 3)


def test_the_same_analysis_again_writes_nothing(tmp_path: Path) -> None:
    row = ROWS["edit_recovery_rows"]
    first = write_part(tmp_path, "edit_recovery_rows", [row])
    later = {**row, "run_id": "edit-2", "recorded_at": row["recorded_at"] + timedelta(days=1)}
    assert write_part(tmp_path, "edit_recovery_rows", [later]) == first
    assert write_part(tmp_path, "edit_recovery_rows", [{**later, "mean": 0.5}]) != first
    assert store.query(tmp_path, "SELECT mean FROM edit_recovery").to_pylist() == [{"mean": 0.5}]


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        ({}, None),
        ({"shortest": 1999}, "the shortest context has 1,999 tokens, 2,000 are wanted"),
        ({"shortest": None, "retained": 0, "families": 0}, "no context"),
        ({"retained": 39}, "retained items: 39 of the 40 wanted"),
        ({"families": 2}, "wordings: 2 of the 3 wanted"),
        ({"random": 0.151}, "MR of Random at K = 32 is 0.15, at most 0.15 is wanted"),
        ({"random": None}, "Random at K = 32 was not run"),
        ({"span": 0.4}, "MR of the span alone is 0.40"),
        ({"span": 0.15}, None),
    ],
)
def test_evidence(change: dict[str, Any], wanted: str | None) -> None:
    given = {"shortest": 2000, "retained": 40, "families": 3, "random": 0.15, "span": -0.3}
    found = shortfall(evidence_checks(**{**given, **change}))
    assert (found is None) == (wanted is None)
    assert wanted is None or wanted in str(found)


def test_guards_are_json(tmp_path: Path) -> None:
    setup = EditSetup()
    clean = next(arm for arm in setup.arms if arm.policy == "clean")
    write_part(tmp_path, "edit_records", [edit_record(setup, setup.cases[0], clean)])
    [row] = store.query(tmp_path, "SELECT guards FROM edit_records").to_pylist()
    assert json.loads(row["guards"])["reproduced"] == "passed"
