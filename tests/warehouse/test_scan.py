"""Corrupt parts are named with a reason and never counted, whatever is wrong with them."""

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cachemend.repair_core.errors import InputError
from cachemend.warehouse import store
from cachemend.warehouse.parts import finished_keys, scan, write_part
from cachemend.warehouse.schemas import SCHEMA_VERSION, RowError

from support.result_rows import case, record, write_shards


def _truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _without_tail(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def _with_version(path: Path, version: str | None) -> None:
    table = pq.read_table(path)
    metadata = {**table.schema.metadata, b"schema_version": version} if version else {}
    pq.write_table(table.replace_schema_metadata(metadata), path)


def _retyped(path: Path) -> None:
    table = pq.read_table(path)
    index = table.schema.get_field_index("em")
    pq.write_table(table.set_column(index, "em", table["em"].cast(pa.string())), path)


def _other_file(path: Path) -> None:
    path.write_text("this,is\nnot,parquet\n")


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _link_out(path: Path) -> None:
    outside = path.parents[2] / "outside.parquet"
    path.rename(outside)
    path.symlink_to(outside)


def _broken_link(path: Path) -> None:
    path.unlink()
    path.symlink_to(path.parent / "nowhere")


def _loop(path: Path) -> None:
    path.unlink()
    path.symlink_to(path)


DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "truncated": (_truncated, "not readable as Parquet"),
    "without its last byte": (_without_tail, "not readable as Parquet"),
    "zero bytes": (lambda path: path.write_bytes(b""), "0 bytes"),
    "not Parquet": (_other_file, "not readable as Parquet"),
    "newer schema": (lambda path: _with_version(path, str(SCHEMA_VERSION + 1)), "newer"),
    "no schema version": (lambda path: _with_version(path, None), "no schema version"),
    "odd schema version": (lambda path: _with_version(path, "one"), "no schema version"),
    "another column": (
        lambda path: pq.write_table(pq.read_table(path).append_column("x", [[1] * 6]), path),
        "'x' does not belong",
    ),
    "a column less": (lambda path: pq.write_table(pq.read_table(path).drop(["em"]), path), "'em' is missing"),
    "another type": (_retyped, "'em' is string, not double"),
    "a folder": (_folder, "not a file"),
    "a link outwards": (_link_out, "out of the results folder"),
    "a broken link": (_broken_link, "link to nothing"),
    "a link to itself": (_loop, "cannot be read"),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_corrupt_part_is_named_and_left_out(tmp_path: Path, kind: str) -> None:
    results = tmp_path / "results"
    intact, broken, other = write_shards(results, range(3))
    damage, reason = DAMAGE[kind]
    damage(broken)
    found = scan(results, "records")
    assert set(found.good) == {intact, other}
    assert [part.path for part in found.corrupt] == [broken]
    assert reason in found.corrupt[0].reason
    assert "\n" not in found.corrupt[0].reason
    assert len(finished_keys(results)) == 12
    for sql in ("SELECT count(*) AS n FROM records", "SELECT sum(n) AS n FROM niah_sweep"):
        answer = store.ask(results, sql)
        assert answer.table.to_pylist() == [{"n": 12}]
        assert len(answer.warnings) == 1
        assert str(broken) in answer.warnings[0]
        assert reason in answer.warnings[0]


def test_damage_behind_an_intact_footer(tmp_path: Path) -> None:
    intact, broken = write_shards(tmp_path, range(2))
    content = bytearray(broken.read_bytes())
    column = pq.read_metadata(broken).row_group(0).column(0)
    start = column.dictionary_page_offset or column.data_page_offset
    for place in range(start, start + column.total_compressed_size):
        content[place] ^= 0xFF
    broken.write_bytes(content)
    assert scan(tmp_path, "records").corrupt == ()
    assert [part.path for part in scan(tmp_path, "records", deep=True).corrupt] == [broken]
    assert len(finished_keys(tmp_path)) == 6
    answer = store.ask(tmp_path, "SELECT count(DISTINCT record_key) AS n FROM records")
    assert answer.table.to_pylist() == [{"n": 6}]
    assert str(broken) in answer.warnings[0]
    assert intact.exists()


def test_repaired_part_counts_again(tmp_path: Path) -> None:
    path = write_part(tmp_path, "records", [record()])
    content = path.read_bytes()
    path.write_bytes(content[:-9])
    assert len(scan(tmp_path, "records").corrupt) == 1
    path.write_bytes(content)
    assert scan(tmp_path, "records") == ((path,), ())


def test_older_schema_with_fewer_columns_reads_as_null(tmp_path: Path) -> None:
    old = write_part(tmp_path, "records", [record("old")])
    write_part(tmp_path, "records", [record("new")])
    table = pq.read_table(old).drop(["nr_tv"])
    pq.write_table(table.replace_schema_metadata({**table.schema.metadata, b"schema_version": b"0"}), old)
    assert len(scan(tmp_path, "records").good) == 2
    rows = store.query(tmp_path, "SELECT case_id, nr_tv, em FROM records ORDER BY case_id").to_pylist()
    assert rows == [{"case_id": "new", "nr_tv": 0.875, "em": 1.0}, {"case_id": "old", "nr_tv": None, "em": 1.0}]


def test_other_files_are_no_parts(tmp_path: Path) -> None:
    path = write_part(tmp_path, "records", [record()])
    for name in (".half.tmp", "x.parquet.corrupt", "notes.txt"):
        (path.parent / name).write_bytes(b"x")
    assert scan(tmp_path, "records") == ((path,), ())
    assert scan(tmp_path, "cases") == ((), ())


def test_missing_folder_has_no_parts(tmp_path: Path) -> None:
    assert scan(tmp_path / "missing", "runs") == ((), ())


def test_results_folder_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for action in (scan, finished_keys):
        with pytest.raises(InputError, match="is not a folder"):
            action(tmp_path / "file", "records") if action is scan else action(tmp_path / "file")


def test_part_of_another_table_is_corrupt(tmp_path: Path) -> None:
    path = write_part(tmp_path, "cases", [case()])
    (tmp_path / "records").mkdir()
    moved = path.rename(tmp_path / "records" / path.name)
    assert [part.path for part in scan(tmp_path, "records").corrupt] == [moved]


def test_a_row_error_is_no_user_error() -> None:
    assert not issubclass(RowError, InputError)
