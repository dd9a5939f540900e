"""Rows that do not fit are refused with the column and the value, and leave nothing behind."""

from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cachemend.repair_core.errors import InputError
from cachemend.warehouse.column import Kind
from cachemend.warehouse.parts import write_part
from cachemend.warehouse.schemas import SCHEMA_VERSION, TABLES, RowError
from cachemend.warehouse.validate import validated

from support import edit_analysis, execution_rows, numeric_rows, routing_analysis
from support.result_rows import case, record, run

NAN = float("nan")
STUDIES = (edit_analysis, routing_analysis, numeric_rows, execution_rows)
MAKE = {"records": record, "cases": case, "runs": run} | {
    name: partial(dict, row) for study in STUDIES for name, row in study.one_of_each().items()
}

WRONG: list[tuple[str, str, Any, str]] = [
    ("records", "seed", 2.9, "2.9"),
    ("records", "n_tokens", 2.0, "2.0"),
    ("records", "n_tokens", True, "True"),
    ("records", "n_tokens", "400", "'400'"),
    ("records", "n_tokens", 2**31, "32 bits"),
    ("records", "token_layers", 2**63, "64 bits"),
    ("records", "n_tokens", None, "None"),
    ("records", "gold_nll", NAN, "nan"),
    ("records", "tv_to_clean", float("inf"), "inf"),
    ("records", "nr_tv", np.float32("nan"), "nan"),
    ("records", "em", 0.5, "0.5"),
    ("records", "em", True, "True"),
    ("records", "em", "1", "'1'"),
    ("records", "budget", NAN, "nan"),
    ("records", "input_unchanged", 1, "1"),
    ("records", "answer", b"bytes", "bytes"),
    ("records", "answer", "\ud800", "surrogates"),
    ("records", "answer_ids", [1, 2.5], "2.5"),
    ("records", "answer_ids", [1, None], "None"),
    ("records", "answer_ids", "12", "'12'"),
    ("records", "parsed", "541001", "'541001'"),
    ("records", "parsed", [541001], "541001"),
    ("records", "intervals", [{"start": 1}], "start"),
    ("records", "intervals", [{"start": 1, "stop": 2.5}], "2.5"),
    ("records", "intervals", [(1, 2)], "(1, 2)"),
    ("records", "recorded_at", datetime(2026, 1, 1), "no time zone"),
    ("records", "recorded_at", "2026-01-01", "'2026-01-01'"),
    ("records", "outcome", "fine", "'fine'"),
    ("records", "outcome", "case_error", "None"),
    ("records", "error", "it broke", "'it broke'"),
    ("records", "positions_exact", False, "not ok"),
    ("records", "record_key", "abc", "'abc'"),
    ("records", "schema_version", SCHEMA_VERSION + 1, str(SCHEMA_VERSION + 1)),
    ("cases", "gold", None, "None"),
    ("edit_records", "upstream_bit_identical", False, "not ok"),
    ("edit_records", "positions_exact", False, "not ok"),
    ("edit_records", "error", "it broke", "'it broke'"),
    ("edit_records", "record_key", "abc", "'abc'"),
    ("edit_records", "k", 32.0, "32.0"),
    ("edit_records", "condition", "indirect", "'indirect'"),
    ("edit_records", "operator", None, "None"),
    ("edit_records", "guards", "{'a': 1}", "Expecting property name"),
    ("edit_records", "flip", 1.0, "1.0"),
    ("edit_records", "margin_recovery", NAN, "nan"),
    ("edit_sequences", "mode", "twice", "'twice'"),
    ("edit_sequences", "outcome", "case_error", "None"),
    ("edit_timings", "what", "decode", "'decode'"),
    ("edit_recovery_rows", "split", "test", "'test'"),
    ("edit_contrast_rows", "wins_05", None, "None"),
    ("edit_trigger_rows", "kind", "rate", "'rate'"),
    ("edit_table_rows", "stage", "tested", "'tested'"),
    ("runs", "status", "finished", "'finished'"),
    ("runs", "config", "{'a': 1}", "Expecting property name"),
    ("runs", "config", '{"a": NaN}', "NaN is not JSON"),
    ("runs", "config", {"a": 1}, "{'a': 1}"),
    ("runs", "n_cases", 6.0, "6.0"),
]


@pytest.mark.parametrize(("table", "name", "value", "shown"), WRONG)
def test_wrong_value_names_column_and_value(tmp_path: Path, table: str, name: str, value: Any, shown: str) -> None:
    changed = "error" if (name, value) == ("outcome", "case_error") else name
    with pytest.raises(RowError) as caught:
        write_part(tmp_path, table, [MAKE[table](), {**MAKE[table](), name: value}])
    line = str(caught.value)
    assert line.startswith(f"{table} row 1: ")
    assert f"'{changed}'" in line
    assert shown in line
    assert "\n" not in line
    assert not list(tmp_path.rglob("*"))


@pytest.mark.parametrize("table", TABLES)
def test_every_column_refuses_a_value_of_no_type(table: str) -> None:
    for column in TABLES[table].columns:
        with pytest.raises(RowError, match=f"'{column.name}'"):
            validated(TABLES[table], [{**MAKE[table](), column.name: object()}])


@pytest.mark.parametrize("table", TABLES)
def test_every_column_must_be_given(table: str) -> None:
    filled_in = {"schema_version", "record_key"}
    for column in TABLES[table].columns:
        row = MAKE[table]()
        row.pop(column.name, None)
        if column.name in filled_in:
            validated(TABLES[table], [row])
        else:
            with pytest.raises(RowError, match=f"'{column.name}' is missing"):
                validated(TABLES[table], [row])


def test_unknown_column_names_the_nearest() -> None:
    with pytest.raises(RowError, match=r"unknown column 'answers' with value 'x'; did you mean 'answer'"):
        validated(TABLES["records"], [{**record(), "answers": "x"}])


def test_duplicate_key_within_a_part() -> None:
    with pytest.raises(RowError, match="row 2: duplicates the key of row 0"):
        validated(TABLES["records"], [record(), record("case-1"), record(em=0.0)])


def test_no_rows() -> None:
    with pytest.raises(RowError, match="no rows"):
        validated(TABLES["records"], [])


def test_unknown_table(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="'record'; did you mean 'records'"):
        write_part(tmp_path, "record", [record()])


def test_numpy_scalars_are_numbers(tmp_path: Path) -> None:
    rows, table = validated(
        TABLES["records"], [record(n_tokens=np.int64(400), em=np.float64(1), gold_nll=np.float32(0.25), budget=5)]
    )
    assert rows[0]["n_tokens"] == 400
    assert table["gold_nll"].to_pylist() == [0.25]
    assert table["budget"].to_pylist() == [5.0]


def test_times_are_stored_as_utc() -> None:
    zone = datetime.fromisoformat("2026-01-02T04:04:05.678901+01:00")
    _, table = validated(TABLES["records"], [record(recorded_at=zone)])
    assert table["recorded_at"].to_pylist() == [zone.astimezone(UTC).replace(tzinfo=None)]


def test_long_values_are_cut_in_the_message() -> None:
    with pytest.raises(RowError) as caught:
        validated(TABLES["records"], [record(n_tokens="x" * 10_000)])
    assert len(str(caught.value)) < 300


def test_kinds_agree_between_arrow_and_duckdb() -> None:
    import duckdb

    connection = duckdb.connect()
    for kind in Kind:
        back = connection.sql(f"SELECT CAST(NULL AS {kind.sql}) AS x").to_arrow_table().schema.field("x").type
        assert back.equals(kind.arrow) or str(back).replace("l:", "item:") == str(kind.arrow).replace(
            "element:", "item:"
        ), kind
