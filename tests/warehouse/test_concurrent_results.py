"""Several processes on one results folder: no lost, doubled, half-written or unreadable row."""

import multiprocessing
from pathlib import Path

import pytest

from cachemend.warehouse import store
from cachemend.warehouse.parts import scan, set_aside

from support.result_rows import ROWS_PER_SHARD, write_shards
from support.result_workers import rebuild_views, write_same_shards, write_until

SPAWN = multiprocessing.get_context("spawn")


def test_two_processes_write_the_same_shards(tmp_path: Path) -> None:
    barrier = SPAWN.Barrier(2)
    workers = [SPAWN.Process(target=write_same_shards, args=(tmp_path, 12, f"run-{n}", barrier)) for n in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0, 0]
    names = sorted(path.name for path in (tmp_path / "records").iterdir())
    assert len(names) == 12
    assert sorted(path.name for path in write_shards(tmp_path / "alone", range(12))) == names
    rows = store.query(tmp_path, "SELECT count(*) AS n, count(DISTINCT record_key) AS keys FROM parts.records")
    assert rows.to_pylist() == [{"n": 12 * ROWS_PER_SHARD, "keys": 12 * ROWS_PER_SHARD}]
    one_run = "SELECT count(DISTINCT run_id) AS runs FROM parts.records GROUP BY case_id HAVING runs > 1"
    assert store.query(tmp_path, one_run).num_rows == 0, "a part mixes the rows of two runs"


def test_reading_while_a_writer_writes(tmp_path: Path) -> None:
    write_shards(tmp_path, range(1))
    stop = SPAWN.Event()
    writer = SPAWN.Process(target=write_until, args=(tmp_path, 1, stop))
    writer.start()
    seen = [1]
    broken = tmp_path / "records" / "broken.parquet"
    try:
        while writer.is_alive() and (len(seen) < 12 or len(set(seen)) < 6):
            # A damaged part comes and goes meanwhile.
            if len(seen) % 3 == 0:
                broken.write_bytes(b"PAR1")
            elif broken.exists():
                set_aside(broken)
            rows = store.query(tmp_path, "SELECT case_id, count(*) AS n FROM records GROUP BY ALL").to_pylist()
            assert {row["n"] for row in rows} == {ROWS_PER_SHARD}, "a part was seen half"
            assert len(rows) >= seen[-1], "a part was lost"
            seen.append(len(rows))
    finally:
        stop.set()
        writer.join()
    assert writer.exitcode == 0
    assert len(set(seen)) >= 6, "the writer stopped early"
    assert len(scan(tmp_path, "records", deep=True).good) >= seen[-1]


@pytest.mark.parametrize("corrupt", [False, True])
def test_two_processes_rebuild_the_views(tmp_path: Path, corrupt: bool) -> None:
    write_shards(tmp_path, range(3))
    if corrupt:
        (tmp_path / "records" / "broken.parquet").write_bytes(b"")
    barrier = SPAWN.Barrier(2)
    workers = [SPAWN.Process(target=rebuild_views, args=(tmp_path, 6, 3, barrier)) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0, 0]
    assert {path.name for path in tmp_path.iterdir()} == {"records", store.DATABASE}
