"""Opening a results folder: every view there, nothing written."""

import shutil
from functools import partial
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from cachemend.repair_core.errors import InputError
from cachemend.warehouse import store
from cachemend.warehouse.parts import write_part
from cachemend.warehouse.report import write_report
from cachemend.warehouse.schemas import TABLES
from cachemend.warehouse.views import VIEWS

from support import numeric_rows
from support.edit_analysis import one_of_each
from support.result_rows import BEGAN, case, failed, record, run, write_shards

WRITE = {"records": record, "cases": case, "runs": run} | {
    name: partial(dict, row) for name, row in (one_of_each() | numeric_rows.one_of_each()).items()
}
FED = {name: {name} for name in WRITE} | {
    "records": {"records", "timings", "niah_sweep", "allocation_geometry", "alternative_policies"},
    "probe_records": {"probe_records", "executor_probes"},
    "bound_records": {"bound_records", "residual_bound"},
    "edit_timings": {"edit_cost"},
    "edit_recovery_rows": {"edit_recovery", "edit_distance"},
    "edit_contrast_rows": {"edit_contrasts"},
    "edit_trigger_rows": {"edit_triggers"},
    "edit_table_rows": {"edit_decisions"},
}


@pytest.mark.parametrize("table", WRITE)
def test_every_view_exists_whichever_table_has_parts(tmp_path: Path, table: str) -> None:
    write_part(tmp_path, table, [WRITE[table]()])
    filled = {view for view in VIEWS if store.query(tmp_path, f"FROM {view}").num_rows > 0}
    assert filled == FED[table] | {"published"}
    assert store.query(tmp_path, "SHOW TABLES")["name"].to_pylist() == sorted(VIEWS)
    for name, columns in ((name, TABLES[name].columns) for name in TABLES if name in VIEWS):
        described = store.query(tmp_path, f"DESCRIBE {name}").to_pylist()
        expected = [(c.name, c.kind.sql.replace('"start"', "start").replace('"stop"', "stop")) for c in columns]
        assert [(row["column_name"], row["column_type"].replace('"', "")) for row in described] == expected


@pytest.mark.parametrize("make", [None, "folder", "empty tables", "only views"])
def test_no_results_says_to_run_an_experiment(tmp_path: Path, make: str | None) -> None:
    results = tmp_path / "results"
    if make == "folder":
        results.mkdir()
    elif make == "empty tables":
        (results / "records").mkdir(parents=True)
    elif make == "only views":
        path = write_part(results, "records", [record()])
        store.store_views(results)
        path.unlink()
    for action in (lambda: store.query(results, "SELECT 1"), lambda: store.connect(results)):
        with pytest.raises(InputError, match="run an experiment first: cachemend run") as caught:
            action()
        assert str(results) in str(caught.value)
    assert results.exists() == (make is not None)


def test_only_corrupt_parts_names_one(tmp_path: Path) -> None:
    path = write_part(tmp_path, "records", [record()])
    path.write_bytes(b"")
    with pytest.raises(InputError, match="none of its 1 parts is readable") as caught:
        store.query(tmp_path, "SELECT 1")
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("name", ["it's", "a b", "a[1]", "st*r", "{x,y}", "k=v", "quest?ion", "üñí", 'q"uote'])
def test_any_folder_name(tmp_path: Path, name: str) -> None:
    results = tmp_path / name
    decoy = tmp_path / "a1"
    write_shards(results, range(2))
    write_shards(decoy, range(2, 7))
    assert store.query(results, "SELECT count(*) AS n FROM records").to_pylist() == [{"n": 12}]
    assert len(store.query(results, "FROM records").column_names) == len(TABLES["records"].columns)
    (results / "records" / "bad.parquet").write_bytes(b"")
    assert store.query(results, "SELECT count(*) AS n FROM records").to_pylist() == [{"n": 12}]


def test_relative_and_linked_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_shards(tmp_path / "results", range(1))
    (tmp_path / "link").symlink_to(tmp_path / "results")
    monkeypatch.chdir(tmp_path)
    for results in (Path("results"), Path("link"), Path("results/../link")):
        assert store.query(results, "SELECT count(*) AS n FROM records").to_pylist() == [{"n": 6}]


def test_results_may_move(tmp_path: Path) -> None:
    write_shards(tmp_path / "before", range(1))
    store.store_views(tmp_path / "before")
    shutil.move(tmp_path / "before", tmp_path / "after")
    write_shards(tmp_path / "before", range(1, 3))
    assert store.query(tmp_path / "after", "SELECT DISTINCT case_id FROM records").to_pylist() == [
        {"case_id": "case-0"}
    ]


def test_stored_views_are_those_of_this_project_and_see_later_parts(tmp_path: Path) -> None:
    write_shards(tmp_path, range(1))
    store.store_views(tmp_path)
    stored = tmp_path / store.DATABASE
    identity = stored.stat().st_ino
    write_shards(tmp_path, range(1, 3))
    assert store.query(tmp_path, "SELECT count(*) AS n FROM records").to_pylist() == [{"n": 18}]
    store.store_views(tmp_path)
    assert stored.stat().st_ino == identity, "views that fit are not rebuilt"
    # Any DuckDB client can open the file, without this project.
    assert duckdb.connect(str(stored), read_only=True).sql("SELECT sum(n) FROM niah_sweep").fetchall() == [(18,)]
    write_part(tmp_path, "runs", [run()])
    store.store_views(tmp_path)
    assert stored.stat().st_ino != identity, "a table's first part needs new views"
    assert duckdb.connect(str(stored), read_only=True).sql("SELECT count(*) FROM runs").fetchall() == [(1,)]
    assert {path.name for path in tmp_path.iterdir()} == {"records", "runs", store.DATABASE}


@pytest.mark.parametrize("stored", [False, True])
def test_open_connections_outlive_new_views(tmp_path: Path, stored: bool) -> None:
    write_shards(tmp_path, range(1))
    if stored:
        store.store_views(tmp_path)
    first = store.connect(tmp_path)
    write_part(tmp_path, "runs", [run()])
    second = store.connect(tmp_path)
    if stored:
        store.store_views(tmp_path)
    assert second.sql("SELECT count(*) FROM runs").fetchall() == [(1,)]
    assert first.sql("SELECT count(*) FROM records").fetchall() == [(6,)]


@pytest.mark.parametrize("obstacle", ["folder", "garbage", "locked"])
def test_views_that_cannot_be_stored(tmp_path: Path, obstacle: str) -> None:
    write_shards(tmp_path, range(1))
    stored = tmp_path / store.DATABASE
    writer = None
    if obstacle == "folder":
        stored.mkdir()
    elif obstacle == "garbage":
        stored.write_bytes(b"not a database" * 1000)
    else:
        writer = duckdb.connect(str(stored))
        writer.execute("CREATE TABLE kept (x INTEGER)")
    store.store_views(tmp_path)
    assert store.query(tmp_path, "SELECT count(*) AS n FROM records").to_pylist() == [{"n": 6}]
    assert store.query(tmp_path, "SELECT sum(n) AS n FROM niah_sweep").to_pylist() == [{"n": 6}]
    if writer:
        writer.close()
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".warehouse")]


def test_connection_is_confined(tmp_path: Path) -> None:
    results = tmp_path / "results"
    write_shards(results, range(1))
    secret = tmp_path / "secret.csv"
    secret.write_text("a\n1\n")
    connection = store.connect(results)
    frame = pa.table({"a": [1]})  # DuckDB otherwise finds tables among Python's variables
    assert frame.num_rows == 1
    for sql in (
        f"FROM read_csv('{secret}')",
        f"FROM '{secret}'",
        f"COPY (SELECT 1) TO '{tmp_path / 'out.csv'}'",
        f"ATTACH '{tmp_path / 'other.duckdb'}'",
        "SET enable_external_access = true",
        "SET allowed_directories = ['/']",
        "RESET lock_configuration",
        "INSTALL httpfs",
        "LOAD httpfs",
        "FROM frame",
    ):
        with pytest.raises(duckdb.Error):
            connection.execute(sql)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["results", "secret.csv"]
    store.store_views(results)
    for sql in ("CREATE TABLE t AS SELECT 1", "DROP VIEW records"):
        with pytest.raises(duckdb.Error):
            store.connect(results).execute(sql)


def test_readers_write_nothing(tmp_path: Path) -> None:
    write_shards(tmp_path, range(2))
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    store.query(tmp_path, "FROM records ORDER BY ALL")
    store.query(tmp_path, "SUMMARIZE records")
    store.connect(tmp_path).close()
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_a_report_leaves_the_views_where_it_is_written(tmp_path: Path) -> None:
    results = tmp_path / "results"
    write_shards(results, range(2))
    write_report(results, tmp_path / "elsewhere.html")
    assert {path.name for path in results.iterdir()} == {"records"}
    write_report(results)
    assert {path.name for path in results.iterdir()} == {
        "records",
        "report.html",
        "report-orderings.csv",
        store.DATABASE,
    }


def test_latest_row_wins_and_ties_do_not_depend_on_reading_order(tmp_path: Path) -> None:
    for name, order in (("a", (0, 1, 2, 3)), ("b", (3, 2, 1, 0))):
        rows = [
            [record(em=0.0, recorded_at=50), record(budget=9.0)],
            [record(em=1.0, recorded_at=60, run_id="run-2"), record(budget=8.0)],
            [record(em=0.0, recorded_at=60, run_id="run-3"), record(budget=7.0)],
            [failed(recorded_at=0), record(budget=6.0)],
        ]
        for index in order:
            write_part(tmp_path / name, "records", rows[index])
        sql = "SELECT run_id, em FROM records WHERE budget = 5"
        assert store.query(tmp_path / name, sql).to_pylist() == [{"run_id": "run-3", "em": 0.0}]
        history = store.query(tmp_path / name, "SELECT count(*) AS n FROM parts.records WHERE budget = 5")
        assert history.to_pylist() == [{"n": 4}]


def test_timings_are_one_row_per_measured_stage(tmp_path: Path) -> None:
    write_part(
        tmp_path, "records", [record(t_decode=0.5, latency=2.0), record(allocator="shift", budget=None), failed("b")]
    )
    rows = store.query(tmp_path, "SELECT arm, component, seconds FROM timings ORDER BY ALL").to_pylist()
    assert [tuple(row.values()) for row in rows] == [
        ("shift", "prefill", 0.5),
        ("shift", "shift", 0.03),
        ("sur@5", "allocate", 0.002),
        ("sur@5", "decode", 0.5),
        ("sur@5", "latency", 2.0),
        ("sur@5", "prefill", 0.5),
        ("sur@5", "refresh", 0.2),
        ("sur@5", "shift", 0.03),
        ("sur@5", "signal", 0.01),
    ]
    names = store.query(tmp_path, "FROM timings").column_names
    assert names == ["record_key", "run_id", "case_id", "model", "arm", "component", "seconds"]


def test_runs_shows_the_end_of_a_run(tmp_path: Path) -> None:
    write_part(tmp_path, "runs", [run("run-1", "done", recorded_at=BEGAN)])
    write_part(tmp_path, "runs", [run("run-1", "running", recorded_at=BEGAN)])
    write_part(tmp_path, "runs", [run("run-2", "running")])
    rows = store.query(tmp_path, "SELECT run_id, status, config->>'$.budgets[0]' AS b FROM runs ORDER BY 1")
    assert rows.to_pylist() == [
        {"run_id": "run-1", "status": "done", "b": "2"},
        {"run_id": "run-2", "status": "running", "b": "2"},
    ]
