"""The views of the edit study, against recounts of the raw rows in Python."""

import re
from collections import defaultdict
from datetime import timedelta
from importlib.resources import files
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from cachemend.repair_core.errors import InputError
from cachemend.warehouse import store
from cachemend.warehouse.parts import write_part
from cachemend.warehouse.published_edits import published_edits
from cachemend.warehouse.published_execution import published_execution
from cachemend.warehouse.published_numerics import published_numerics
from cachemend.warehouse.published_routing import published_routing
from cachemend.warehouse.schemas import TABLES

from support.edit_analysis import analyse, one_of_each, table_rows, timing_rows, trigger_rows
from support.edit_rows import EditSetup, edit_records, write_edit_results

LATEST = {
    "edit_records": "edit_records",
    "edit_cases": "edit_cases",
    "edit_sequences": "edit_sequences",
    "edit_recovery": "edit_recovery_rows",
    "edit_contrasts": "edit_contrast_rows",
    "edit_triggers": "edit_trigger_rows",
    "edit_decisions": "edit_table_rows",
}


def rows_of(folder: Path, sql: str) -> list[dict[str, Any]]:
    return store.query(folder, sql).to_pylist()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("edits")
    for model in ("one", "two"):
        setup = EditSetup(model=model, run_id=model, items=5)
        records = write_edit_results(made, setup)
        analyse(made, records)
        write_part(made, "edit_timings", timing_rows(setup))
    return made


@pytest.mark.parametrize(("view", "table"), LATEST.items())
def test_each_view_takes_the_latest_row_of_a_key(tmp_path: Path, view: str, table: str) -> None:
    row = one_of_each()[table]
    later = row | {"recorded_at": row["recorded_at"] + timedelta(hours=1), "run_id": "edit-0"}
    for index, each in enumerate((later, row)):  # the order of writing does not count
        write_part(tmp_path, table, [each | {"model": f"model {index}"} if "model" in row else each | {"seed": index}])
    wanted = TABLES[table]
    [found] = rows_of(tmp_path, f"FROM {view}")
    assert found["run_id"] == "edit-0"
    assert rows_of(tmp_path, f"SELECT count(*) AS n FROM parts.{table}") == [{"n": 2}]
    assert [name for name in found if name != "part"] == [column.name for column in wanted.columns]


@pytest.mark.parametrize(("view", "table"), LATEST.items())
def test_each_view_partitions_by_the_key_of_its_table(view: str, table: str) -> None:
    sql = files("cachemend.warehouse").joinpath("views", f"{view}.sql").read_text(encoding="utf-8")
    clause = re.search(r"PARTITION BY\s+(.*?)\s+ORDER BY", sql, re.DOTALL)
    assert clause
    columns = {name.strip() for name in clause[1].split(",")}
    assert columns == set(TABLES[table].key_columns)


def test_distance_holds_the_derived_arms_at_every_k_and_of_own_length(folder: Path) -> None:
    found = rows_of(folder, "FROM edit_distance")
    arms = {(row["policy"], row["k"]) for row in found}
    assert {k for _, k in arms} == {None, 8, 16, 32, 64}
    assert ("edit-local-boundary", None) in arms
    assert ("stale", None) in arms
    records = rows_of(folder, "FROM edit_records")
    for row in found:
        mine = [
            r["margin_recovery"]
            for r in records
            if r["retained"]
            and r["condition"] == "derived"
            and all(r[name] == row[name] for name in ("model", "distance", "policy", "k"))
            and r["operator"] != "transplant"
        ]
        assert (row["n"], row["mean"]) == (len(mine), pytest.approx(fmean(mine)))
        assert row["k"] is None or row["mean_positions"] == row["k"]
    own = {row["distance"]: row["mean_positions"] for row in found if row["policy"] == "edit-local-boundary"}
    assert own == {0: 27, 64: 27}


def test_gates_that_pooled_the_kinds_of_edit_are_not_shown(tmp_path: Path) -> None:
    gate = next(
        row
        for row in trigger_rows([row for rows in edit_records(EditSetup(items=3)) for row in rows])
        if row["kind"] == "gate"
    )
    write_part(tmp_path, "edit_trigger_rows", [gate | {"condition": None}])
    assert rows_of(tmp_path, "FROM edit_triggers") == []
    write_part(tmp_path, "edit_trigger_rows", [gate, gate | {"kind": "severity", "condition": None}])
    assert {row["kind"] for row in rows_of(tmp_path, "FROM edit_triggers")} == {"gate", "severity"}


def test_an_evaluation_older_than_the_newest_derivation_is_not_shown(tmp_path: Path) -> None:
    rows = table_rows([row for rows in edit_records(EditSetup(items=3)) for row in rows])
    write_part(tmp_path, "edit_table_rows", rows)
    shown = "SELECT stage, model_fingerprint FROM edit_decisions ORDER BY ALL"
    assert len(rows_of(tmp_path, shown)) == len(rows)
    # Of another model, whose table is its own.
    write_part(tmp_path, "edit_table_rows", [row | {"model_fingerprint": "other"} for row in rows])
    # Another dev cohort derives a table; what the first one came to is of the past.
    newer = {"recorded_at": rows[0]["recorded_at"] + timedelta(hours=1), "cohort_digest": "another cohort"}
    write_part(tmp_path, "edit_table_rows", [row | newer for row in rows if row["stage"] == "derived"])
    found = rows_of(tmp_path, shown)
    assert {row["model_fingerprint"] for row in found if row["stage"] == "evaluated"} == {"other"}
    assert len(found) == 2 * len(rows) - 2 + 2


def test_operators_pair_the_same_positions_of_the_same_item(folder: Path) -> None:
    records = rows_of(folder, "FROM edit_records")
    found = rows_of(folder, "FROM edit_operators")
    assert {(row["policy"], row["k"]) for row in found} == {("causal-oracle", 8), ("edit-local", 8)}
    assert len(found) == 2 * 2 * 3
    for row in found:
        pairs: dict[str, dict[str, float]] = defaultdict(dict)
        for r in records:
            same = all(r[name] == row[name] for name in ("model", "condition", "distance", "policy", "k"))
            if same and r["retained"]:
                pairs[r["case_digest"]][r["operator"]] = r["margin_recovery"]
        values = list(pairs.values())
        assert row["n"] == len(values) == 4
        assert row["mean_recompute"] == pytest.approx(fmean(v["recompute"] for v in values))
        assert row["mean_transplant"] == pytest.approx(fmean(v["transplant"] for v in values))
        worse = fmean(v["recompute"] - v["transplant"] < -0.05 for v in values)
        assert row["share_recompute_worse"] == pytest.approx(worse)


@pytest.mark.parametrize(("below", "share"), [(0.04, 0.0), (0.06, 1.0), (-0.06, 0.0)])
def test_a_small_difference_of_operators_is_a_tie(tmp_path: Path, below: float, share: float) -> None:
    def level(row: dict[str, Any]) -> dict[str, Any]:
        return row | {"margin_recovery": 0.5 - (below if row["operator"] == "recompute" else 0.0)}

    write_edit_results(tmp_path, EditSetup(items=3, change=level))
    found = rows_of(tmp_path, "FROM edit_operators")
    assert found
    assert {row["share_recompute_worse"] for row in found} == {share}


def test_operators_on_other_positions_are_no_pair(tmp_path: Path) -> None:
    def moved(row: dict[str, Any]) -> dict[str, Any]:
        return row | {"positions": [*row["positions"][1:], 2000]} if row["operator"] == "transplant" else row

    write_edit_results(tmp_path, EditSetup(items=3, change=moved))
    assert rows_of(tmp_path, "FROM edit_operators") == []


def test_cost_is_the_ratio_of_medians_of_one_run(folder: Path, tmp_path: Path) -> None:
    found = rows_of(folder, "FROM edit_cost WHERE model = 'one' ORDER BY length, k, copy")
    assert [(row["length"], row["k"], row["copy"]) for row in found] == [
        (n, k, copy) for n in (2048, 5120) for k in (8, 16, 32, 64) for copy in (False, True)
    ]
    for row in found:
        refresh, whole = (0.04 if row["copy"] else 0.032) + row["k"] / 1000, row["length"] / 1000
        assert row["ratio"] == pytest.approx(whole / refresh)
        # The floor holds no copy: with one there is nothing to compare it with.
        assert row["floor_seconds"] == 0.03
        assert row["floor_ratio"] == (None if row["copy"] else pytest.approx(refresh / 0.03))
        assert row["token_layer_ratio"] == pytest.approx(row["length"] / (3 + row["k"]))
    # A later run that timed one refresh alone has no re-prefill of its own to be compared with.
    timed = timing_rows(EditSetup(run_id="later"))
    [again] = [row for row in timed if (row["length"], row["k"], row["copy"]) == (2048, 8, True)]
    write_part(tmp_path, "edit_timings", timing_rows(EditSetup()))
    write_part(tmp_path, "edit_timings", [again | {"recorded_at": again["recorded_at"] + timedelta(1)}])
    rows = rows_of(tmp_path, "FROM edit_cost WHERE length = 2048 AND copy ORDER BY k")
    assert [row["ratio"] is None for row in rows] == [True, False, False, False]


def test_models_do_not_mix(folder: Path) -> None:
    for view in ("edit_recovery", "edit_contrasts", "edit_distance", "edit_operators", "edit_cost", "edit_triggers"):
        counts = rows_of(folder, f"SELECT model, count(*) AS n FROM {view} GROUP BY model ORDER BY model")
        assert [row["model"] for row in counts] == ["one", "two"], view
        assert counts[0]["n"] == counts[1]["n"], view


def test_published_figures_join_on_the_arm(folder: Path) -> None:
    found = rows_of(
        folder,
        "SELECT p.value, r.mean FROM edit_recovery r JOIN published p USING (split, condition, distance, arm) "
        "WHERE r.family IS NULL AND r.model = 'one' AND p.metric = 'margin_recovery' AND p.value IS NOT NULL "
        "AND arm = 'edit-local@32' AND p.n <> 372",
    )
    assert sorted(row["value"] for row in found) == [0.937, 0.993, 1.007]
    counts = rows_of(folder, "SELECT experiment, count(*) AS n FROM published GROUP BY experiment")
    assert {row["experiment"]: row["n"] for row in counts} == {
        "edit-repair": len(published_edits()),
        "response-routing": len(published_routing()),
        "numerical-controls": len(published_numerics()),
        "execution-bench": len(published_execution()),
        "erasing-niah": 440,
    }


def test_only_views_can_be_read(folder: Path) -> None:
    with pytest.raises(InputError, match="did you mean 'edit_records'"):
        store.query(folder, "FROM edit_recordss")
    assert store.query(folder, "SELECT count(*) FROM parts.edit_recovery_rows").num_rows == 1
