"""Ctrl-C, or a service manager's SIGTERM, ends a run with code 130 and says what is kept."""

import re
import signal
from pathlib import Path

import pytest

from cachemend.warehouse import store

from support.parts_count import read_rows
from support.processes import start, wait_for
from support.quick_sweep import QUICK

pytestmark = pytest.mark.timeout(600)


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM], ids=lambda s: s.name)
def test_a_stopped_run_keeps_what_is_written(prefect_server, cluster, tiny: Path, tmp_path: Path, stop: int) -> None:
    results = tmp_path / "results"
    more = ("--set", "lengths=280,320,360", "--set", "budgets=2,5,10,20,40,80")
    process = start(
        *("run", "erasing-niah", "--model", tiny, *QUICK, *more),
        *("--results", results, "--address", cluster.address),
    )
    try:
        wait_for(lambda: bool(read_rows(results)), 120, "the first part")
    finally:
        process.send_signal(stop)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "Traceback" not in err
    told = re.search(r"(\d+) records of this run are kept in .*; run again to go on", err)
    assert told, err
    assert int(told[1]) == len(read_rows(results)) > 0
    assert store.query(results, "SELECT status FROM runs").to_pylist() == [{"status": "failed"}]
