"""A run end to end, and what later runs of the same folder compute."""

import json
from collections import defaultdict
from pathlib import Path

import pytest

from cachemend.warehouse import store

from support.parts_count import per_cell, read_rows
from support.quick_sweep import N_ARMS, N_CASES
from support.tiny_checkpoint import save_tiny

pytestmark = pytest.mark.timeout(240)


def test_limit_then_all_then_nothing_then_one_more_allocator(run, tmp_path: Path) -> None:
    results = tmp_path / "results"
    limited = run(results, "--limit", 3)
    assert limited.code == 0
    assert "sur@10" in limited.out
    assert "18 records computed" in limited.out
    assert f"report: {results / 'report.html'}" in limited.out
    assert (results / "report.html").stat().st_size > 1000
    first = {part.name: part.stat().st_mtime_ns for part in (results / "records").iterdir()}
    assert len(first) == 3

    full = run(results)
    assert full.code == 0
    assert f"{(N_CASES - 3) * N_ARMS} records computed" in full.out
    again = {part.name: part.stat().st_mtime_ns for part in (results / "records").iterdir()}
    assert len(again) == N_CASES
    assert first.items() <= again.items()

    resumed = run(results)
    assert resumed.code == 0
    assert "nothing to do" in resumed.out
    assert again == {part.name: part.stat().st_mtime_ns for part in (results / "records").iterdir()}

    more = run(results, "--set", "allocators=sur,random-units,dense-tokens")
    assert more.code == 0
    assert f"{N_CASES} records computed" in more.out
    cells = per_cell(results)
    assert set(cells.values()) == {1}
    assert len(cells) == N_CASES * (N_ARMS + 1)

    _check_views_against_parts(results)
    _check_provenance(results)


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
    assert [row["status"] for row in runs] == ["done"] * 4
    assert [row["n_records"] for row in runs] == [18, 30, 0, 8]
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


def test_a_corrupt_part_is_named_kept_and_computed_again(run, tmp_path: Path) -> None:
    results = tmp_path / "results"
    assert run(results, "--limit", 2).code == 0
    part = min((results / "records").glob("*.parquet"))
    part.write_bytes(part.read_bytes()[:-20])
    ended = run(results, "--limit", 2)
    assert ended.code == 0
    assert f"corrupt part {part}" in ended.err
    assert f"{N_ARMS} records computed" in ended.out
    assert part.with_name(f"{part.name}.corrupt").exists()
    cells = per_cell(results)
    assert set(cells.values()) == {1}
    assert len(cells) == 2 * N_ARMS


def test_another_model_has_rows_of_its_own_and_texts_are_stored_on_request(run, tiny: Path, tmp_path: Path) -> None:
    results = tmp_path / "results"
    other = save_tiny(tmp_path / "other", seed=1)
    assert run(results, "--limit", 1).code == 0
    assert store.query(results, "SELECT context_text FROM cases").to_pylist() == [{"context_text": None}]
    assert f"{N_ARMS} records computed" in run(results, "--limit", 1, "--set", "store_text=true", model=other).out
    rows = store.query(results, "SELECT model, count(*) AS n FROM records GROUP BY model ORDER BY model").to_pylist()
    assert rows == [{"model": str(model), "n": N_ARMS} for model in sorted((tiny, other), key=str)]
    texts = store.query(results, "SELECT * FROM cases").to_pylist()
    assert len(texts) == 1
    assert "access code" in texts[0]["context_text"]
    assert "access code" in texts[0]["deleted_text"]
    assert texts[0]["query_text"].endswith("?")
