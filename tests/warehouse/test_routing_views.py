"""The views of response reuse: one row per key, whatever was run into the folder, and the ceiling kept apart."""

import re
from collections import Counter
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from cachemend.calibration.routing.ablations import ABLATIONS
from cachemend.warehouse import store
from cachemend.warehouse.parts import write_part
from cachemend.warehouse.published_routing import published_routing
from cachemend.warehouse.schemas import TABLES
from cachemend.warehouse.views import SQL_VIEWS

from support.routing_analysis import analyse, write_stress, write_study
from support.routing_rows import SAFECACHE, RouteSetup, write_records

TABLE_OF = {
    "route_records": "route_records",
    "route_exposures": "route_exposures",
    "routing_points": "routing_point_rows",
    "routing_ceiling": "routing_point_rows",
    "routing_heldout_risk": "routing_risk_rows",
    "routing_tests": "routing_test_rows",
    "routing_by_family": "routing_family_rows",
    "routing_ablation": "routing_ablation_rows",
    "routing_order": "routing_order_rows",
    "routing_frozen": "routing_frozen_rows",
    "routing_stress": "routing_stress_rows",
    "routing_map": "routing_map_rows",
    "routing_certified": "routing_certified_rows",
    "verifier_quality": "verifier_quality_rows",
    "signal_ranking": "signal_rows",
    "routing_probes": "routing_probe_rows",
}
LIMITED = RouteSetup(pairs=24, splits=3, run_id="limited")
FULL = RouteSetup(pairs=40, splits=3, run_id="full", hours=1)
OTHER = replace(FULL, verifier="fingerprint of another", verifier_model="judge-2b", run_id="other", hours=2)
AGAIN = replace(FULL, run_id="again", hours=3)
STRESS = RouteSetup(pool="stress", cohort="cohort-stress", pairs=10, run_id="stress", hours=4)


def rows_of(folder: Path, sql: str) -> list[dict[str, Any]]:
    return store.query(folder, sql).to_pylist()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A limited run, the full one, another verifier, and the full one again."""
    made = tmp_path_factory.mktemp("routing")
    for setup in (LIMITED, FULL, OTHER, AGAIN):
        write_study(made, setup)
    write_stress(made, STRESS)
    return made


def test_every_routing_view_is_covered() -> None:
    assert set(TABLE_OF) == {n for n in SQL_VIEWS if n.startswith(("rout", "verifier_", "signal_"))}


@pytest.mark.parametrize("view", TABLE_OF)
def test_each_view_has_one_row_per_key(folder: Path, view: str) -> None:
    table = TABLES[TABLE_OF[view]]
    found = rows_of(folder, f"FROM {view}")
    assert found
    assert max(Counter(table.row_key(row) for row in found).values()) == 1
    assert set(found[0]) == {column.name for column in table.columns}


@pytest.mark.parametrize("view", TABLE_OF)
def test_each_view_partitions_by_the_key_of_its_table(view: str) -> None:
    sql = files("cachemend.warehouse").joinpath("views", f"{view}.sql").read_text(encoding="utf-8")
    clause = re.search(r"PARTITION BY\s+(.*?)\s+ORDER BY", sql, re.DOTALL)
    assert clause
    assert {name.strip() for name in clause[1].split(",")} == set(TABLES[TABLE_OF[view]].key_columns)


def test_a_full_run_supersedes_a_limited_one_and_verifiers_stay_apart(folder: Path) -> None:
    counts = rows_of(folder, "SELECT verifier_model, count(*) AS n FROM route_records GROUP BY ALL ORDER BY ALL")
    assert counts == [{"verifier_model": "judge-1b", "n": 50}, {"verifier_model": "judge-2b", "n": 40}]
    pools = rows_of(folder, "SELECT pool, verifier, exposures FROM routing_points WHERE method = 'exact-match'")
    assert {(row["pool"], row["verifier"]) for row in pools} == {
        ("reconstruction", FULL.verifier),
        ("reconstruction", OTHER.verifier),
    }
    assert len({row["exposures"] for row in pools}) == 1


def test_what_only_an_earlier_analysis_has_is_gone(tmp_path: Path) -> None:
    """Exposures of a limited run are of other splits, and it may have more bins of the risk map than a full one."""
    early = write_study(tmp_path, LIMITED)
    extra = early["routing_map_rows"][0] | {"name": "K bin 3"}
    write_part(tmp_path, "routing_map_rows", [*early["routing_map_rows"], extra])
    late = write_study(tmp_path, FULL)
    bins = rows_of(tmp_path, "SELECT name FROM routing_map WHERE kind = 'bin' ORDER BY name")
    assert [row["name"] for row in bins] == ["K bin 0", "K bin 1", "K bin 2"]
    [n] = rows_of(tmp_path, "SELECT count(*) AS n FROM route_exposures")
    assert n["n"] == len(late["route_exposures"])
    [n] = rows_of(tmp_path, "SELECT count(*) AS n FROM parts.route_exposures")
    assert n["n"] == len(early["route_exposures"]) + len(late["route_exposures"])


@pytest.mark.parametrize("change", [{"own_guards": False}, {"seed": 8}, {"splits": 2}])
def test_analyses_of_the_same_records_by_other_plans_stand_side_by_side(tmp_path: Path, change: dict[str, Any]) -> None:
    write_study(tmp_path, LIMITED)
    other = replace(LIMITED, run_id="other", hours=1, **change)
    analyse(tmp_path, other)
    for view in TABLE_OF:
        plans = {"route_records", "routing_probes", "routing_stress", "routing_ceiling"}
        if view in plans:
            continue
        found = rows_of(tmp_path, f"SELECT DISTINCT split_plan, own_guards, run_id FROM {view} ORDER BY run_id")
        assert found == [{**LIMITED.plan, "run_id": "limited"}, {**other.plan, "run_id": "other"}], view
    assert rows_of(tmp_path, "SELECT count(*) AS n FROM route_records") == [{"n": 24}]


def test_points_are_recounts_of_the_exposures(folder: Path) -> None:
    recount = (
        "SELECT cohort_digest, verifier, method, setting, count(*) AS exposures, "
        "count(*) FILTER (accepted AND valid) AS n_valid, count(*) FILTER (accepted AND NOT valid) AS n_invalid "
        "FROM route_exposures GROUP BY ALL"
    )
    found = rows_of(
        folder,
        "SELECT p.n_valid = e.n_valid AND p.n_invalid = e.n_invalid AND p.exposures = e.exposures AS same "
        f"FROM routing_points p JOIN ({recount}) e USING (cohort_digest, verifier, method, setting)",
    )
    assert len(found) == 2 * (len(FULL.methods) + 1)
    assert all(row["same"] for row in found)


def test_the_label_oracle_is_never_a_point(folder: Path, tmp_path: Path) -> None:
    assert rows_of(folder, "FROM routing_points WHERE diagnostic OR verifier = 'label-oracle'") == []
    ceiling = rows_of(folder, "SELECT DISTINCT diagnostic, verifier FROM routing_ceiling")
    assert ceiling == [{"diagnostic": True, "verifier": "label-oracle"}]
    row = analyse(tmp_path / "made", LIMITED)["routing_point_rows"][0]
    mistaken = row | {"verifier": "label-oracle", "diagnostic": False}
    write_part(tmp_path, "routing_point_rows", [mistaken])
    assert rows_of(tmp_path, "FROM routing_points") == []
    assert len(rows_of(tmp_path, "FROM routing_ceiling")) == 1


def test_published_joins_on_method_and_setting(folder: Path) -> None:
    found = rows_of(
        folder,
        "SELECT q.setting, p.vchr, q.value FROM routing_points p JOIN published q USING (pool, method, setting) "
        f"WHERE q.metric = 'vchr' AND p.verifier = '{FULL.verifier}' AND p.method = 'safecache' ORDER BY q.setting",
    )
    wanted = dict(zip(SAFECACHE, (0.36371, 0.40159, 0.40854), strict=True))
    assert {row["setting"]: row["value"] for row in found} == wanted
    assert len(found) == 3
    stress = rows_of(
        folder,
        "SELECT s.hit_rate, q.value FROM routing_stress s JOIN published q USING (pool, method, setting) "
        "WHERE q.metric = 'hit_rate' AND q.setting = 'tau=0.9'",
    )
    assert stress == [{"hit_rate": 1.0, "value": 0.23413}]


def test_published_signals_families_and_ablations_join(folder: Path) -> None:
    own = f"verifier = '{FULL.verifier}'"
    signals = rows_of(
        folder,
        "SELECT s.signal FROM signal_ranking s JOIN published q USING (pool, signal) "
        f"WHERE q.metric = 'auroc' AND s.source = '' AND s.{own}",
    )
    assert {row["signal"] for row in signals} == {"d_match", "u_match", "h"}
    families = rows_of(
        folder,
        "SELECT f.family FROM routing_by_family f JOIN published q USING (pool, method, setting, family) "
        f"WHERE q.metric = 'fh' AND f.{own}",
    )
    assert len(families) == 6
    ablations = rows_of(
        folder,
        "SELECT a.ablation FROM routing_ablation a JOIN published q USING (pool, setting, ablation) "
        f"WHERE q.metric = 'vchr' AND a.{own} ORDER BY ALL",
    )
    assert [row["ablation"] for row in ablations] == ["explicit contradiction check", "full", "matching uncertainty"]


def test_published_ablations_are_those_of_the_router() -> None:
    published = {row.ablation for row in published_routing() if row.ablation}
    assert published == {"full", *(ablation.name for ablation in ABLATIONS)}


def test_records_alone_are_open_to_every_view(tmp_path: Path) -> None:
    write_records(tmp_path, LIMITED)
    for view in TABLE_OF:
        assert rows_of(tmp_path, f"SELECT count(*) AS n FROM {view}") == [{"n": 24 if view == "route_records" else 0}]
