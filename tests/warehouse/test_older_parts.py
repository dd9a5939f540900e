"""Parts of older schema versions, which lack columns of today: they open, alone and beside new ones."""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cachemend.warehouse import store
from cachemend.warehouse.parts import scan, write_part
from cachemend.warehouse.report import write_report
from cachemend.warehouse.report.routing.rows import read_routing_groups
from cachemend.warehouse.schemas import SCHEMA_VERSION
from cachemend.warehouse.views import VIEWS

from support.case_texts import write_case_rows
from support.edit_rows import EditSetup, write_edit_results
from support.report_pages import FEW, read
from support.report_rows import Setup, cases, record, write_results
from support.result_rows import case
from support.routing_analysis import analyse, write_study
from support.routing_rows import RouteSetup, write_records

ADDED = {"records": ("auxiliary", "deleted_logprob", "leakage"), "cases": ("token_stops",), "runs": ()}
NEWER = (
    *("edit_", "route_", "routing_", "verifier_", "signal_"),
    *("repeat_", "probe_", "bound_", "numerical_", "executor_", "residual_", "allocation_variants", "repair_locality"),
    *("refresh_", "attention_", "recovery_"),
)


def age(results: Path) -> None:
    """Make every part what version 1 wrote."""
    for table, columns in ADDED.items():
        for path in (results / table).glob("*.parquet"):
            content = pq.ParquetFile(path).read().drop(list(columns))
            place = content.schema.get_field_index("schema_version")
            ones = pa.array([1] * len(content), pa.int32())
            content = content.set_column(place, content.schema.field(place), ones)
            pq.write_table(content.replace_schema_metadata({**content.schema.metadata, b"schema_version": b"1"}), path)


@pytest.fixture
def old(tmp_path: Path) -> Path:
    setup = Setup(cases=cases(6, 2), arms=FEW)
    write_results(tmp_path, setup)
    rows = [record(setup, one, FEW[0]) for one in setup.cases]
    write_case_rows(tmp_path, "cohort-embedded", rows, store_text=True)
    age(tmp_path)
    return tmp_path


def test_every_view_of_a_folder_of_old_parts(old: Path) -> None:
    assert [scan(old, name, deep=True).corrupt for name in ADDED] == [(), (), ()]
    for view in VIEWS:
        assert (store.query(old, f"FROM {view}").num_rows > 0) is not view.startswith(NEWER), view
    [row] = store.query(
        old, "SELECT DISTINCT auxiliary, mean_deleted_logprob, mean_leakage FROM niah_sweep"
    ).to_pylist()
    assert set(row.values()) == {None}


def test_edits_beside_old_parts(old: Path) -> None:
    write_edit_results(old, EditSetup(items=2))
    assert store.query(old, "SELECT count(*) AS n FROM edit_records").to_pylist()[0]["n"] > 0
    page = read(write_report(old))
    assert "6 of 24 first-deleted cases" in page.text
    assert "2 result groups" in page.text


def test_parts_of_version_2_are_complete(tmp_path: Path) -> None:
    """Later versions added no column to these tables, so that a folder of version 2 is read as it was written."""
    write_results(tmp_path, Setup(cases=cases(2), arms=FEW))
    for path in tmp_path.rglob("*.parquet"):
        content = pq.ParquetFile(path).read()
        pq.write_table(content.replace_schema_metadata({**content.schema.metadata, b"schema_version": b"2"}), path)
    assert scan(tmp_path, "records", deep=True).corrupt == ()
    assert store.query(tmp_path, "SELECT count(*) AS n FROM records").to_pylist() == [{"n": 2 * len(FEW)}]


def test_routing_analyses_of_version_3_have_no_plan(tmp_path: Path) -> None:
    """Version 4 tells analyses by plan: older ones stand beside new ones of the same records, and keep their pairs."""
    setup = RouteSetup(pairs=12, splits=2)
    made = write_study(tmp_path, setup)
    lacking = (
        "own_guards",
        "candidate_digest",
        "language_model",
        "observations_mean",
        "observations_max",
        "observations_ready",
    )
    for path in tmp_path.rglob("*.parquet"):
        content = pq.ParquetFile(path).read()
        gone = [name for name in lacking if name in content.column_names]
        if path.parent.name not in ("route_exposures", "route_records") and "split_plan" in content.column_names:
            gone.append("split_plan")
        content = content.drop(gone)
        # A part is named after its keys, and those were fewer.
        aged = path.with_name(f"older-{path.name}")
        pq.write_table(content.replace_schema_metadata({**content.schema.metadata, b"schema_version": b"3"}), aged)
        path.unlink()
    [old] = read_routing_groups(tmp_path)
    assert (old.split_plan, old.own_guards) == (None, None)
    n_points = len(made["routing_point_rows"])
    # Older records do not say which model was asked, so that a new run has records, and keys, of its own.
    new = replace(setup, run_id="new", hours=1, language_model="another")
    write_records(tmp_path, new)
    for diagnostic in (False, True):
        analyse(tmp_path, replace(new, diagnostic=diagnostic))
    groups = read_routing_groups(tmp_path)
    assert {(identity.split_plan, identity.own_guards) for identity in groups} == {
        (None, None),
        ("2 x 60/20/20 seed 7", True),
    }
    for group in groups.values():
        assert (len(group.rows), len(group.points), len(group.ceiling)) == (12, n_points, n_points)
        assert {decision.n for decision in group.decisions} <= {1, 2}
        assert group.decisions
    assert "2 result groups" in read(write_report(tmp_path)).text


def test_report_of_a_folder_of_old_parts(old: Path) -> None:
    page = read(write_report(old))
    assert "6 of 24 first-deleted cases" in page.text
    assert "Texts come from the table cases" in page.text


def test_old_and_new_parts_together(old: Path) -> None:
    write_results(old, Setup(cases=cases(6, 2), arms=FEW, executor="interval"))
    rows = store.query(
        old, "SELECT DISTINCT executor, schema_version, leakage IS NULL AS old FROM records ORDER BY ALL"
    )
    assert rows.to_pylist() == [
        {"executor": "interval", "schema_version": SCHEMA_VERSION, "old": False},
        {"executor": "packed", "schema_version": 1, "old": True},
    ]


def test_the_same_cases_written_again_beside_an_old_part(tmp_path: Path) -> None:
    path = write_part(tmp_path, "cases", [case()])
    age(tmp_path)
    assert write_part(tmp_path, "cases", [case(token_stops=[3, 7])]) != path
    assert store.query(tmp_path, "SELECT token_stops FROM cases").to_pylist() == [{"token_stops": [3, 7]}]
