"""The experiment as a Ray job on a running cluster gives the records of a direct run."""

from pathlib import Path
from typing import Any

import pytest

from cachemend.tasks.provenance import git_state

from support.parts_count import read_rows
from support.quick_sweep import N_ARMS, QUICK

pytestmark = pytest.mark.timeout(300)
# What may differ between two runs of the same work: who did it, when, and how long it took.
RUN_ONLY = ("run_id", "worker", "recorded_at")


def _comparable(results: Path) -> dict[str, dict[str, Any]]:
    rows = read_rows(results)
    return {
        row["record_key"]: {k: v for k, v in row.items() if k not in RUN_ONLY and not k.startswith("t_")}
        for row in rows
    }


def test_a_submitted_job_gives_the_records_of_a_direct_run(run, command, cluster, tiny: Path, tmp_path: Path) -> None:
    direct, submitted = tmp_path / "direct", tmp_path / "submitted"
    assert run(direct, "--limit", 2).code == 0
    ended = command(
        *("submit", "erasing-niah", "--address", cluster.jobs, "--model", tiny, *QUICK, "--limit", 2),
        *("--results", submitted),
    )
    assert ended.code == 0, f"{ended.out}\n{ended.err}"
    assert "sur@10" in ended.out
    assert "report:" in ended.out
    rows = _comparable(submitted)
    assert len(rows) == 2 * N_ARMS
    assert rows == _comparable(direct)
    # The job's code is no checkout; the state of the submitting one goes along.
    assert (read_rows(submitted, "runs")[0]["git_commit"] is None) == (git_state().commit is None)


def test_bad_input_on_the_head_ends_the_command_with_its_code(command, cluster, tmp_path: Path) -> None:
    model = tmp_path / "nowhere"
    ended = command(
        *("submit", "erasing-niah", "--address", cluster.jobs, "--model", model, "--results", tmp_path / "results")
    )
    assert ended.code == 2
    assert f"error: model folder {model} does not exist" in ended.out
    assert "Traceback" not in ended.out
    assert not (tmp_path / "results").exists()


def test_an_address_that_is_no_job_server_is_one_line(command, tiny: Path, tmp_path: Path) -> None:
    for address, reason in (("127.0.0.1:8265", "is no URL"), ("http://127.0.0.1:9", "does not answer")):
        ended = command(
            *("submit", "erasing-niah", "--address", address, "--model", tiny, *QUICK, "--results", tmp_path / "r")
        )
        assert ended.code == 2
        assert reason in ended.err
        assert len(ended.err.splitlines()) == 1
