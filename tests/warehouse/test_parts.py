"""Parts: atomic, named by content, resumed from, set aside."""

import errno
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cachemend.repair_core.errors import InputError
from cachemend.warehouse import store
from cachemend.warehouse.column import Column, Kind
from cachemend.warehouse.columns import RECORDS
from cachemend.warehouse.parts import finished_keys, scan, set_aside, write_part
from cachemend.warehouse.schemas import SCHEMA_VERSION, record_key

from support.result_rows import BEGAN, case, failed, record, run

_INT = st.integers(-(2**31), 2**31 - 1)
_TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=20)
_VALUES = {
    Kind.TEXT: _TEXT,
    Kind.INT: _INT,
    Kind.BIGINT: st.integers(-(2**63), 2**63 - 1),
    Kind.DOUBLE: st.floats(allow_nan=False, allow_infinity=False),
    Kind.BOOL: st.just(True),
    Kind.TIME: st.datetimes(
        min_value=BEGAN.replace(tzinfo=None, year=1980), max_value=BEGAN.replace(tzinfo=None, year=2200)
    ),
    Kind.INTS: st.lists(_INT, max_size=5),
    Kind.DOUBLES: st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=5),
    Kind.TEXTS: st.lists(_TEXT, max_size=5),
    Kind.INTERVALS: st.lists(st.fixed_dictionaries({"start": _INT, "stop": _INT}), max_size=4),
}


def _values(column: Column) -> st.SearchStrategy[object]:
    values = st.sampled_from(column.allowed) if column.allowed else _VALUES[column.kind]
    return st.none() | values if column.nullable else values


_ROWS = st.lists(
    st.fixed_dictionaries(
        {c.name: _values(c) for c in RECORDS if c.name not in ("record_key", "schema_version", "error")}
    ),
    min_size=1,
    max_size=4,
    unique_by=record_key,
)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(rows=_ROWS)
def test_records_come_back_as_written(tmp_path_factory: pytest.TempPathFactory, rows: list[dict]) -> None:
    results = tmp_path_factory.mktemp("results")
    for row in rows:
        row["error"] = None if row["outcome"] == "ok" else "why"
    given_rows = [{**row, "recorded_at": row["recorded_at"].replace(tzinfo=BEGAN.tzinfo)} for row in rows]
    path = write_part(results, "records", given_rows)
    expected = [{"record_key": record_key(row), **row, "schema_version": SCHEMA_VERSION} for row in rows]
    names = [column.name for column in RECORDS]
    assert pq.read_table(path).to_pylist() == [{name: row[name] for name in names} for row in expected]
    read = store.query(results, "SELECT * FROM records").to_pylist()
    order = {row["record_key"]: row for row in read}
    assert [order[row["record_key"]] for row in expected] == [{n: row[n] for n in names} for row in expected]


def test_part_is_named_by_its_keys(tmp_path: Path) -> None:
    first = write_part(tmp_path / "a", "records", [record(), record(budget=2.0)])
    second = write_part(tmp_path / "b", "records", [record(budget=2.0, run_id="run-2", em=0.0), record()])
    assert first.name == second.name
    assert first.parent == tmp_path / "a" / "records"
    assert write_part(tmp_path / "a", "records", [record()]).name != first.name


def test_parts_are_compressed_and_say_what_they_are(tmp_path: Path) -> None:
    metadata = pq.read_metadata(write_part(tmp_path, "records", [record()]))
    assert metadata.row_group(0).column(0).compression == "ZSTD"
    assert metadata.metadata[b"schema_version"] == str(SCHEMA_VERSION).encode()
    assert metadata.metadata[b"table"] == b"records"


def test_same_results_are_stored_once(tmp_path: Path) -> None:
    path = write_part(tmp_path, "records", [record(), record(budget=2.0)])
    before = path.read_bytes()
    again = [record(budget=2.0, recorded_at=60, run_id="run-2", worker="w9", t_refresh=9.0), record(run_id="run-2")]
    assert write_part(tmp_path, "records", again) == path
    assert path.read_bytes() == before
    assert [p.name for p in path.parent.iterdir()] == [path.name]


def test_readable_parts_never_change(tmp_path: Path) -> None:
    path = write_part(tmp_path, "records", [failed()])
    before = path.read_bytes()
    better = write_part(tmp_path, "records", [record(recorded_at=60)])
    assert better != path
    assert path.read_bytes() == before
    assert store.query(tmp_path, "SELECT outcome, em FROM records").to_pylist() == [{"outcome": "ok", "em": 1.0}]
    assert write_part(tmp_path, "records", [record(recorded_at=90)]) == better
    assert len(list(path.parent.iterdir())) == 2


def test_corrupt_part_is_replaced_by_its_shard(tmp_path: Path) -> None:
    path = write_part(tmp_path, "records", [record()])
    path.write_bytes(path.read_bytes()[:-20])
    assert finished_keys(tmp_path) == set()
    assert write_part(tmp_path, "records", [record()]) == path
    assert finished_keys(tmp_path) == {record_key(record())}


def test_no_temporary_file_stays(tmp_path: Path) -> None:
    path = write_part(tmp_path, "records", [record()])
    path.unlink()
    path.mkdir()
    with pytest.raises(InputError, match="cannot write"):
        write_part(tmp_path, "records", [record()])
    assert [p.name for p in path.parent.iterdir()] == [path.name]


def test_file_system_without_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_link(self: Path, target: Path) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(Path, "hardlink_to", no_link)
    path = write_part(tmp_path, "records", [record()])
    assert [p.name for p in path.parent.iterdir()] == [path.name]
    assert finished_keys(tmp_path) == {record_key(record())}


@pytest.mark.parametrize("where", ["file", "file/below", "table"])
def test_results_that_cannot_be_written(tmp_path: Path, where: str) -> None:
    (tmp_path / "file").write_text("not a folder")
    (tmp_path / "records").write_text("not a folder")
    results = tmp_path if where == "table" else tmp_path / where
    with pytest.raises(InputError) as caught:
        write_part(results, "records", [record()])
    assert str(results) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_parts_stay_inside_the_results_folder(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "records").symlink_to(outside)
    with pytest.raises(InputError, match="outside"):
        write_part(tmp_path / "results", "records", [record(case="../../x", experiment="../y")])
    assert not list(outside.iterdir())


def test_finished_keys_follow_the_latest_outcome(tmp_path: Path) -> None:
    assert finished_keys(tmp_path / "missing") == set()
    write_part(tmp_path, "records", [record("a"), failed("b"), record("c")])
    write_part(tmp_path, "records", [failed("c", recorded_at=60), failed("d", "refused")])
    write_part(tmp_path, "records", [record("b", recorded_at=60)])
    finished = {record_key(record(name)) for name in ("a", "b", "d")}
    assert finished_keys(tmp_path) == finished
    found = store.query(tmp_path, "SELECT record_key FROM records WHERE outcome IN ('ok', 'refused')")
    assert set(found["record_key"].to_pylist()) == finished


@pytest.mark.parametrize("outcome", ["case_error", "worker_died", "out_of_memory"])
def test_failures_are_tried_again(tmp_path: Path, outcome: str) -> None:
    write_part(tmp_path, "records", [failed(outcome=outcome)])
    assert finished_keys(tmp_path) == set()


def test_set_aside_keeps_and_does_not_count(tmp_path: Path) -> None:
    path = write_part(tmp_path, "records", [record()])
    for expected in (path.name + ".corrupt", path.name + ".corrupt-2", path.name + ".corrupt-3"):
        path.write_bytes(b"PAR1 broken")
        assert scan(tmp_path, "records").corrupt[0].path == path
        assert set_aside(path).name == expected
        assert scan(tmp_path, "records") == ((), ())
    set_aside(path)
    assert len(list(path.parent.iterdir())) == 3


def test_start_and_end_of_a_run_are_two_parts(tmp_path: Path) -> None:
    write_part(tmp_path, "runs", [run(status="running")])
    write_part(tmp_path, "runs", [run(status="done")])
    assert len(scan(tmp_path, "runs").good) == 2
    assert store.query(tmp_path, "SELECT run_id, status, n_records FROM runs").to_pylist() == [
        {"run_id": "run-1", "status": "done", "n_records": 48}
    ]


def test_run_without_texts_does_not_hide_stored_texts(tmp_path: Path) -> None:
    write_part(tmp_path, "cases", [case(context_text="a", deleted_text="b", query_text="c")])
    write_part(tmp_path, "cases", [case(recorded_at=60, run_id="run-2")])
    rows = store.query(tmp_path, "SELECT case_id, context_text FROM cases").to_pylist()
    assert rows == [{"case_id": "case-0", "context_text": "a"}]


def test_results_that_come_back_are_the_latest_again(tmp_path: Path) -> None:
    def write(answer: str, seconds: int) -> Path:
        return write_part(tmp_path, "records", [record(answer=answer, recorded_at=seconds)])

    parts = [write("one", 0), write("two", 60), write("one", 120)]
    assert len(set(parts)) == 3
    assert write("one", 180) == parts[2]
    assert store.query(tmp_path, "SELECT answer FROM records").to_pylist() == [{"answer": "one"}]
