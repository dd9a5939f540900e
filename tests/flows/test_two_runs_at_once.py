"""Two runs into one folder at once, each with a Prefect server of its own on one new database."""

from pathlib import Path

import pytest

from cachemend.warehouse import store

from support.processes import start
from support.quick_sweep import N_ARMS, N_CASES, QUICK

pytestmark = pytest.mark.timeout(300)


@pytest.mark.slow
def test_both_finish_and_no_row_is_doubled(cluster, command, tiny: Path, tmp_path: Path) -> None:
    results = tmp_path / "results"
    arguments = ("run", "erasing-niah", "--model", tiny, *QUICK, "--results", results, "--address", cluster.address)
    home = str(tmp_path / "prefect")
    first, second = (start(*arguments, PREFECT_API_URL=None, PREFECT_HOME=home) for _ in range(2))
    for process in (first, second):
        out, err = process.communicate(timeout=240)
        assert process.returncode == 0, err
        assert "report:" in out
    per_cell = store.query(results, "SELECT case_id, arm, count(*) AS n FROM records GROUP BY ALL")
    assert set(per_cell.column("n").to_pylist()) == {1}
    assert per_cell.num_rows == N_CASES * N_ARMS
    runs = store.query(results, "SELECT status FROM runs").column("status").to_pylist()
    assert runs == ["done", "done"]
    assert not store.ask(results, "SELECT 1").warnings
