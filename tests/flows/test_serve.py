"""A schedule fires for real: a served deployment on a Prefect server that comes and goes with the command."""

import json
import signal
from datetime import UTC, datetime
from pathlib import Path

import pytest

from cachemend.flows.launch import check_cron
from cachemend.flows.local_server import answers
from cachemend.repair_core.errors import InputError

from support.parts_count import read_rows
from support.processes import start, wait_for
from support.quick_sweep import N_ARMS, QUICK

pytestmark = pytest.mark.timeout(300)


@pytest.mark.slow
def test_cron_fires_resumes_and_outlives_the_process(cluster, tiny: Path, tmp_path: Path) -> None:
    results, log, home = tmp_path / "results", tmp_path / "log", tmp_path / "prefect"
    began = datetime.now(UTC)
    served = start(
        *("serve", "--cron", "* * * * *", "erasing-niah", "--model", tiny, *QUICK, "--limit", 1),
        *("--results", results, "--address", cluster.address),
        log=log,
        PREFECT_API_URL=None,
        PREFECT_HOME=str(home),
        PREFECT_RUNNER_POLL_FREQUENCY="2",
    )
    try:
        wait_for(lambda: _done(results), 240, "a finished scheduled run")
    finally:
        served.send_signal(signal.SIGINT)
        code = served.wait(60)
    told = log.read_text()
    assert code in (0, 130), told
    assert {row["outcome"] for row in read_rows(results)} == {"ok"}
    assert len(read_rows(results)) == N_ARMS
    run = next(row for row in read_rows(results, "runs") if row["status"] == "done")
    nominal = datetime.fromisoformat(json.loads(run["config"])["nominal_time"])
    assert (nominal.second, nominal.microsecond) == (0, 0), "the scheduled time, not the time it started"
    assert nominal >= began.replace(second=0, microsecond=0)
    assert run["run_id"].startswith(f"{nominal:%Y%m%dT%H%M%S}")

    url = next(line.rsplit(" ", 1)[1] for line in told.splitlines() if line.startswith("serving "))
    assert not answers(url), "its own server stops with it"


def _done(results: Path) -> bool:
    return any(row["status"] == "done" for row in read_rows(results, "runs"))


@pytest.mark.parametrize("cron", ["", "x", "61 * * * *", "* * *"])
def test_a_bad_schedule_is_refused(cron: str) -> None:
    with pytest.raises(InputError, match="cron"):
        check_cron(cron)
