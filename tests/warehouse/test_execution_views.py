"""The execution benchmark's tables, views, published figures and page."""

import csv
from datetime import timedelta
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from cachemend.warehouse import store
from cachemend.warehouse.parts import finished_keys, write_part
from cachemend.warehouse.published_execution import published_execution
from cachemend.warehouse.report import write_report
from cachemend.warehouse.schemas import TABLES, RowError

from support.execution_rows import SHARED, Row, attention_row, recovery_row, refresh_row
from support.html_page import Page

PAPER = Path(__file__).resolve().parents[2] / "../shared/papers/kv-cache-repair.txt"
LATER = SHARED["recorded_at"] + timedelta(days=1)


def view(folder: Path, name: str) -> list[Row]:
    rows: list[Row] = store.query(folder, f"FROM {name}").to_pylist()
    return rows


def test_latest_refresh_stands_beside_its_floor_and_the_paper_s_figure(tmp_path: Path) -> None:
    write_part(tmp_path, "refresh_timing_rows", [refresh_row(), refresh_row("interval", "model")])
    write_part(tmp_path, "refresh_timing_rows", [refresh_row(seconds_median=0.02, recorded_at=LATER)])
    write_part(tmp_path, "refresh_timing_rows", [refresh_row(n_timed=2, seconds_median=0.5)])
    few, packed = sorted(
        (row for row in view(tmp_path, "refresh_timings") if row["executor"] == "packed"), key=lambda r: r["n_timed"]
    )
    assert (few["n_timed"], few["seconds_median"]) == (2, 0.5), "fewer rounds are another measurement"
    assert packed["seconds_median"] == 0.02
    assert (packed["floor_seconds"], packed["floor_of"], packed["floor_ratio"]) == (0.010, "bytes", pytest.approx(2.0))
    assert packed["floor_with_copy_seconds"] == pytest.approx(0.012)
    assert packed["paper_ms"] == 32.672
    for said in ("NVIDIA H100 80GB HBM3", "bfloat16", "the paper's own executors", "float32", "cpu with 2 threads"):
        assert said in packed["paper_differs"]
    (interval,) = (row for row in view(tmp_path, "refresh_timings") if row["executor"] == "interval")
    assert interval["paper_ms"] == 131.29


def test_only_the_paper_s_own_work_stands_beside_its_figures(tmp_path: Path) -> None:
    rows = [refresh_row(rows=32), refresh_row(length=4096), refresh_row(n_intervals=2), refresh_row(attention="other")]
    write_part(tmp_path, "refresh_timing_rows", rows)
    assert [(row["paper_ms"], row["paper_differs"]) for row in view(tmp_path, "refresh_timings")] == [(None, None)] * 4


def test_attention_and_lines_that_did_not_run(tmp_path: Path) -> None:
    nothing = dict.fromkeys(("seconds_median", "seconds_low", "seconds_high", "tolerance_used"))
    refused = attention_row("triton", outcome="refused", error="needs CUDA", **nothing)
    write_part(tmp_path, "attention_timing_rows", [attention_row("sdpa-gqa"), refused])
    gqa, triton = sorted(view(tmp_path, "attention_timings"), key=lambda row: row["attention"])
    assert (gqa["paper_us"], gqa["floor_of"], gqa["floor_ratio"]) == (277.9, "FLOPs", pytest.approx(2.0))
    assert (triton["seconds_median"], triton["floor_ratio"], triton["error"]) == (None, None, "needs CUDA")


def test_a_wrong_output_is_run_again_and_a_refused_line_is_not(tmp_path: Path) -> None:
    wrong = attention_row("flex", outcome="case_error", error="off")
    rows = [attention_row(), wrong, attention_row("triton", outcome="refused", error="needs CUDA")]
    write_part(tmp_path, "attention_timing_rows", rows)
    keys = [TABLES["attention_timing_rows"].row_key(row) for row in rows]
    assert [key in finished_keys(tmp_path, "attention_timing_rows") for key in keys] == [True, False, True]


@pytest.mark.parametrize(
    ("table", "row", "name", "value"),
    [
        ("refresh_timing_rows", refresh_row(), "unselected_bit_identical", False),
        ("refresh_timing_rows", refresh_row(), "weights", "trained"),
        ("refresh_timing_rows", refresh_row(), "seconds_median", float("nan")),
        ("attention_timing_rows", attention_row(), "timed_stages", None),
        ("recovery_timing_rows", recovery_row(), "method", "dirty"),
    ],
)
def test_rows_that_do_not_fit_are_named(tmp_path: Path, table: str, row: Row, name: str, value: Any) -> None:
    with pytest.raises(RowError, match=name):
        write_part(tmp_path, table, [{**row, name: value}])


def test_recovery_is_a_mean_of_contexts_beside_replay_and_the_paper(tmp_path: Path) -> None:
    for case, times in (("a", 1.0), ("b", 3.0)):
        own = {"case_digest": case * 64, "case_id": case}
        rows = [recovery_row("replay", 0.06 * times, **own), recovery_row("repair", 0.04 * times, **own)]
        write_part(tmp_path, "recovery_timing_rows", [*rows, recovery_row("re-prefill", 0.1 * times, **own)])
    found = {row["method"]: row for row in view(tmp_path, "recovery_timings")}
    repair = found["repair"]
    assert repair["recovery_seconds"] == pytest.approx(0.08)
    assert repair["refresh_seconds"] == pytest.approx(0.04)
    assert (repair["replay_ratio"], repair["re_prefill_ratio"]) == (pytest.approx(1.5), pytest.approx(2.5))
    assert repair["floor_ratio"] == pytest.approx(0.04 / 0.01), "the refresh over its floor, not the recovery"
    assert repair["floor_with_copy_seconds"] == pytest.approx(0.013)
    said = (
        "refresh of a repair with the copy of its output",
        "refresh of a repair in place on the copy that Shift makes",
    )
    assert all(text in repair["paper_differs"] for text in said)
    assert (repair["n_contexts"], repair["n_of"]) == (2, 2)
    assert (repair["paper_refresh_ms"], repair["paper_recovery_ms"]) == (31.98, 50.71)
    assert "Erasing-NIAH contexts" in repair["paper_differs"]
    assert found["replay"]["paper_recovery_ms"] == 48.57


LINES = list(csv.DictReader(files("cachemend.warehouse").joinpath("published_execution.csv").read_text().splitlines()))


@pytest.mark.skipif(not PAPER.exists(), reason="the deletion paper's text is not here")
def test_each_row_of_the_paper_s_tables_is_there() -> None:
    text = PAPER.read_text(encoding="utf-8")
    for table, count in (("18", 7), ("19", 4)):
        lines = [line for line in LINES if line["table"] == table]
        for start in range(0, len(lines), count):
            row = lines[start : start + count]
            assert len({(line["length"], line["n_intervals"]) for line in row}) == 1
            printed = " ".join([row[0]["length"], row[0]["n_intervals"], *(line["value"] for line in row)])
            assert printed in text, printed
    named = {"interval": "interval-wise", "packed": "packed"}
    for refresh, recovery in zip(*[iter(line for line in LINES if line["table"] == "20")] * 2, strict=True):
        own = f"{refresh['budget']}%, {named[refresh['executor']]}" if refresh["budget"] else ""
        whole = {"replay": "Full suffix Replay", "re-prefill": "Clean Re-prefill"}.get(refresh["method"], own)
        assert f"{whole} {refresh['value']} {recovery['value']}" in text


def test_published_figures_are_single_and_say_what_they_were_measured_on() -> None:
    rows = published_execution()
    assert len(rows) == 6 * 7 + 6 * 4 + 2 * 6
    keys = [(r.table, r.length, r.n_intervals, r.method, r.executor, r.attention, r.budget, r.metric) for r in rows]
    assert len(set(keys)) == len(keys)
    fastest = max(r.value for r in rows if r.metric == "refresh_ms" and r.executor == "interval")
    packed = next(r.value for r in rows if (r.length, r.n_intervals, r.attention) == (2048, 16, "sdpa"))
    sequential = next(r.value for r in rows if (r.length, r.n_intervals, r.executor) == (2048, 16, "interval"))
    assert fastest == 552.498
    assert round(sequential / packed, 1) == 16.1, "the paper's headline"
    assert {(r.hardware, r.dtype) for r in rows} == {("NVIDIA H100 80GB HBM3", "bfloat16")}


def test_the_page_shows_times_floors_figures_and_what_differs(tmp_path: Path) -> None:
    off = "the fresh rows differ from the interval-wise executor's by 0.5 in relative L2, more than 0.0001"
    wrong = refresh_row("packed", "flex", relative_l2=0.5, outcome="case_error", error=off)
    write_part(tmp_path, "refresh_timing_rows", [refresh_row(), wrong])
    write_part(tmp_path, "attention_timing_rows", [attention_row("hf-sdpa")])
    write_part(tmp_path, "recovery_timing_rows", [recovery_row(), recovery_row("replay", 0.1)])
    page = Page(write_report(tmp_path, tmp_path / "page.html").read_text(encoding="utf-8"))
    assert "Execution benchmark" in page.text
    refresh, attention, recovery = (
        next(t for t in page.tables if t.caption.startswith(start))
        for start in ("Refresh of 64 positions", "Attention alone of 64", "Recovery, means")
    )
    assert refresh.rows[0][-1] == "Paper, ms"
    (sdpa,) = (row for row in refresh.rows if row[3] == "sdpa (runs on cpu)")
    assert sdpa[4:8] == ["30.000 [29.000, 34.000]", "10.000", "bytes", "3.00"]
    assert (sdpa[8], sdpa[-1]) == ("12.000", "32.672")
    assert attention.rows[1][-1] == "402.8"
    assert recovery.row("5 %, packed sdpa")[:5] == ["25.000", "50.000", "2.00", "–", "2.50"]
    for said in ("NVIDIA H100 80GB HBM3", "more than 0.0001", "20 rounds after 10", "What was timed", "All of it"):
        assert said in page.text or said.lower() in page.text.lower()
