"""Cases that fail, workers that die: every (case, arm) still ends in exactly one record."""

import os
import signal
import threading
import time
from pathlib import Path

import pytest

from cachemend.flows.erasing_niah import SomeFailed

from support.parts_count import per_cell, read_rows
from support.quick_sweep import N_ARMS, N_CASES
from support.tiny_checkpoint import save_tiny

WORD = "saffron"  # the name in exactly one of the eight cases begins with it
pytestmark = pytest.mark.timeout(600)


def _by_word(results: Path) -> tuple[list[dict], list[dict]]:
    """Rows of the case that asks for the word, and of all others."""
    texts = {row["case_id"]: row["query_text"] for row in read_rows(results, "cases")}
    rows = read_rows(results)
    hit = [row for row in rows if WORD in texts[row["case_id"]]]
    return hit, [row for row in rows if WORD not in texts[row["case_id"]]]


def test_a_poison_case_becomes_rows_and_the_rest_goes_on(run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    model = save_tiny(tmp_path / "model", unknown_word=WORD)
    results = tmp_path / "results"
    ended = run(results, "--set", "store_text=true", model=model)
    assert ended.code == 1
    hit, rest = _by_word(results)
    assert len(hit) == N_ARMS
    assert {row["outcome"] for row in hit} == {"case_error"}
    assert all("token id" in row["error"] for row in hit)
    assert len(rest) == (N_CASES - 1) * N_ARMS
    assert {row["outcome"] for row in rest} == {"ok"}
    assert f"{N_ARMS} records of 1 cases failed" in ended.out
    assert hit[0]["case_id"] in ended.out

    # A failed case is tried again, and only it; a scheduled run then ends as failed, for its watchers to see.
    monkeypatch.setenv("PREFECT__RUNTIME__DEPLOYMENT__ID", "some deployment")
    with pytest.raises(SomeFailed, match=f"{N_ARMS} records of 1 cases failed"):
        run(results, "--set", "store_text=true", model=model)
    assert sum(row["n_records"] or 0 for row in read_rows(results, "runs")) == (N_CASES + 1) * N_ARMS
    assert set(per_cell(results).values()) == {1}


@pytest.mark.slow
def test_a_case_that_kills_its_worker_twice_is_given_up(run, tmp_path: Path) -> None:
    model = save_tiny(tmp_path / "model", deadly_word=WORD)
    results = tmp_path / "results"
    ended = run(results, "--set", "store_text=true", "--set", "trust_remote_code=true", model=model)
    assert ended.code == 1
    hit, rest = _by_word(results)
    assert [row["outcome"] for row in hit] == ["worker_died"] * N_ARMS
    assert {row["outcome"] for row in rest} == {"ok"}
    assert len(rest) == (N_CASES - 1) * N_ARMS
    assert len({row["worker"] for row in rest}) > 1


def test_a_killed_worker_costs_nothing(run, tmp_path: Path) -> None:
    results = tmp_path / "results"
    killed: list[int] = []

    def kill_when_busy() -> None:
        while not (rows := read_rows(results)):
            time.sleep(0.02)
        killed.append(int(rows[0]["worker"].rpartition(":")[2]))
        os.kill(killed[0], signal.SIGKILL)

    thread = threading.Thread(target=kill_when_busy, daemon=True)
    thread.start()
    ended = run(results, "--set", "lengths=280,320")
    thread.join(5)
    assert killed
    assert ended.code == 0
    rows = read_rows(results)
    assert {row["outcome"] for row in rows} == {"ok"}
    assert set(per_cell(results).values()) == {1}
    assert len(rows) == 2 * N_CASES * N_ARMS
    assert len({row["worker"] for row in rows}) == 2


def test_a_model_that_cannot_be_repaired_is_refused_in_one_line(run, tmp_path: Path) -> None:
    model = save_tiny(tmp_path / "model", attn_temperature_tuning=True)
    results = tmp_path / "results"
    ended = run(results, model=model)
    assert ended.code == 2
    assert ended.err.startswith("error: ")
    assert len(ended.err.splitlines()) == 1
    assert "attn_temperature_tuning" in ended.err
    assert not list(results.iterdir())
