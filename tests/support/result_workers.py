"""Processes that write and read one results folder at the same time; importable, so that they can be spawned."""

from multiprocessing.synchronize import Barrier, Event
from pathlib import Path

from cachemend.warehouse import store

from support.result_rows import ROWS_PER_SHARD, write_shards


def write_same_shards(results: Path, n_cases: int, run_id: str, barrier: Barrier) -> None:
    """Write shards that another process writes too, each at the same moment."""
    for index in range(n_cases):
        barrier.wait(timeout=120)
        write_shards(results, range(index, index + 1), run_id=run_id, worker=run_id)


def write_until(results: Path, first: int, stop: Event) -> None:
    """Write one new shard after another until told to stop."""
    index = first
    while not stop.is_set():
        write_shards(results, range(index, index + 1))
        index += 1


def rebuild_views(results: Path, rounds: int, n_cases: int, barrier: Barrier) -> None:
    """Throw the stored views away, store and query them, again and again, while another process does the same."""
    for _ in range(rounds):
        barrier.wait(timeout=120)
        (results / store.DATABASE).unlink(missing_ok=True)
        store.store_views(results)
        counted = store.query(results, "SELECT count(*) AS n FROM records").to_pylist()
        assert counted == [{"n": n_cases * ROWS_PER_SHARD}], counted
