"""A run end to end, and what later runs of the same folder compute."""

import json
from collections import defaultdict
from pathlib import Path

import pytest

from cachemend.warehouse import store

from support.parts_count import per_cell, read_rows
from support.quick_sweep import N_ARMS, N_CASES
from support.tiny_checkpoint import save_tiny

pytestmark = pytest.mark.timeout(600)


def test_a_folder_over_six_runs(run, tiny: Path, tmp_path: Path) -> None:
    results = tmp_path / "results"

    limited = run(results, "--limit", 3)
    assert limited.code == 0
    assert "sur@10" in limited.out
    assert "18 records computed" in limited.out
    assert f"report: {results / 'report.html'}" in limited.out
    assert (results / "report.html").stat().st_size > 1000
    first = _times(results)
    assert len(first) == 3
    assert set(store.query(results, "SELECT context_text FROM cases").column(0).to_pylist()) == {None}

    full = run(results)
    assert full.code == 0
    assert f"{(N_CASES - 3) * N_ARMS} records computed" in full.out
    whole = _times(results)
    assert len(whole) == N_CASES
    assert first.items() <= whole.items()

    part = min((results / "records").glob("*.parquet"))
    part.write_bytes(part.read_bytes()[:-20])
    mended = run(results)
    assert mended.code == 0
    assert f"corrupt part {part}" in mended.err
    assert part.with_name(f"{part.name}.corrupt").exists()
    assert f"{N_ARMS} records computed" in mended.out

    whole = _times(results)
    resumed = run(results)
    assert resumed.code == 0
    assert "nothing to do" in resumed.out
    assert _times(results) == whole

    more = run(results, "--set", "allocators=sur,random-units,dense-tokens")
    assert more.code == 0
    assert f"{N_CASES} records computed" in more.out
    cells = per_cell(results)
    assert set(cells.values()) == {1}
    assert len(cells) == N_CASES * (N_ARMS + 1)
    _check_views_against_parts(results)
    _check_provenance(results)

    other = save_tiny(tmp_path / "other", seed=1)
    assert f"{N_ARMS} records computed" in run(results, "--limit", 1, "--set", "store_text=true", model=other).out
    rows = store.query(results, "SELECT model, count(*) AS n FROM records GROUP BY ALL ORDER BY n").to_pylist()
    assert rows == [{"model": str(other), "n": N_ARMS}, {"model": str(tiny), "n": N_CASES * (N_ARMS + 1)}]
    texts = store.query(results, "SELECT * FROM cases WHERE context_text IS NOT NULL").to_pylist()
    assert len(texts) == 1
    assert "access code" in texts[0]["context_text"]
    assert "access code" in texts[0]["deleted_text"]
    assert texts[0]["query_text"].endswith("?")


def _times(results: Path) -> dict[str, int]:
    return {part.name: part.stat().st_mtime_ns for part in (results / "records").glob("*.parquet")}


def _check_views_against_parts(results: Path) -> None:
    right: dict[str, list[float]] = defaultdict(list)
    for row in read_rows(results):
        assert row["outcome"] == "ok"
        right[row["arm"]].append(row["em"])
    sweep = {row["arm"]: row for row in store.query(results, "SELECT * FROM niah_sweep").to_pylist()}
    assert sweep.keys() == right.keys()
    for arm, scores in right.items():
        assert sweep[arm]["n"] == sweep[arm]["n_of"] == len(scores) == N_CASES
        assert sweep[arm]["em_percent"] == pytest.approx(100 * sum(scores) / len(scores))


def _check_provenance(results: Path) -> None:
    runs = store.query(results, "SELECT * FROM runs ORDER BY started_at").to_pylist()
    assert [row["status"] for row in runs] == ["done"] * 5
    assert [row["n_records"] for row in runs] == [18, 30, 6, 0, 8]
    assert {row["n_failed"] for row in runs} == {0}
    config = json.loads(runs[0]["config"])
    assert config["limit"] == 3
    assert config["allocators"] == ["sur", "random-units"]
    assert json.loads(runs[0]["versions"]).keys() >= {"torch", "transformers", "ray", "prefect", "model_revision"}
    assert json.loads(runs[0]["hardware"])["cores"] >= 1
    assert len(json.loads(runs[0]["seeds"])["cases"]) == N_CASES
    manifest = json.loads((results / "cohorts" / f"{runs[0]['cohort_digest']}.json").read_text())["manifest"]
    assert manifest == json.loads(runs[0]["cohort_manifest"])
    assert len(store.query(results, "SELECT * FROM cases").to_pylist()) == N_CASES
