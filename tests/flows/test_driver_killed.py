"""A driver on its own cluster and server: SQL answers while it writes, and kill -9 loses only what is in flight."""

import os
import signal
from pathlib import Path

import psutil
import pytest

from support.parts_count import per_cell, read_rows
from support.processes import start, wait_for
from support.quick_sweep import QUICK

pytestmark = pytest.mark.timeout(300)
MORE = ("--set", "lengths=280,320,360", "--set", "budgets=2,5,10,20,40,80", "--set", "workers=2")
AGENTS = ("ray::DashboardAgent", "ray::RuntimeEnvAgent")
N_CASES, N_ARMS = 24, 4 + 2 * 6


def test_kill_the_driver_then_run_again(run, command, tiny: Path, tmp_path: Path) -> None:
    results = tmp_path / "results"
    log = tmp_path / "log"
    driver = start(
        *("run", "erasing-niah", "--model", tiny, *QUICK, *MORE, "--results", results),
        log=log,
        PREFECT_API_URL=None,
        RAY_AUTH_MODE=None,
    )
    try:
        wait_for(lambda: _parts(results) >= 2, 180, f"parts; log: {log.read_text()}")
        seen = command("sql", "SELECT count(*) AS n FROM records", "--results", results, "--format", "csv")
        assert driver.poll() is None, log.read_text()
        assert seen.code == 0
        assert int(seen.out.split()[1]) >= 2 * N_ARMS
        status = command("sql", "SELECT status FROM runs", "--results", results, "--format", "csv")
        assert status.out.split() == ["status", "running"]
        family = psutil.Process(driver.pid).children(recursive=True)
    finally:
        os.kill(driver.pid, signal.SIGKILL)
        driver.wait()
    kept = read_rows(results)
    assert len(kept) < N_CASES * N_ARMS
    # Ray's two agents spend a last minute trying to report the death to the cluster that is gone.
    family = [process for process in family if not _command(process).startswith(AGENTS)]
    _, alive = psutil.wait_procs(family, timeout=30)
    assert not [_command(process) for process in alive], "the cluster and the server end with their driver"

    again = run(results, *MORE)
    assert again.code == 0
    assert f"{N_CASES * N_ARMS - len(kept)} records computed" in again.out
    cells = per_cell(results)
    assert set(cells.values()) == {1}
    assert len(cells) == N_CASES * N_ARMS
    statuses = command("sql", "SELECT status FROM runs ORDER BY 1", "--results", results, "--format", "csv")
    assert statuses.out.split() == ["status", "done", "running"]


def _command(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.NoSuchProcess:
        return ""


def _parts(results: Path) -> int:
    return len(list((results / "records").glob("*.parquet")))
