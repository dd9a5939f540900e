"""The edit-repair flow end to end on a tiny model, whose items are made so that it retains some of them."""

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from cachemend.datasets.cohort import Cohort
from cachemend.datasets.edit_case import EditCase
from cachemend.datasets.edit_rosters import EDIT_ROSTERS
from cachemend.repair_core import LoadedModel, load_model
from cachemend.repair_core.decision_table import DecisionTable
from cachemend.tasks import edit_sequence_work, edit_work
from cachemend.tasks.edit_guards import guarded
from cachemend.warehouse import store

from support.parts_count import read_rows
from support.tiny_checkpoint import save_tiny
from support.tiny_edits import retained_cases, sequence_case

pytestmark = pytest.mark.timeout(480)
SETTINGS = (
    *("--set", "cases=embedded-dev", "--set", "length=400", "--set", "k=8,32", "--set", "workers=1"),
    *("--set", "policies=edit-local,random,carrier-window,edit-local-boundary", "--set", "min_gap=0.01"),
)
REFERENCES, ARMS = 3, 3 + 3 * 2 + 1


@pytest.fixture(scope="module")
def tiny_edits(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, LoadedModel]:
    folder = save_tiny(tmp_path_factory.mktemp("models") / "tiny-edits", initializer_range=0.2)
    return folder, load_model(str(folder))


@pytest.fixture
def items(tiny_edits: tuple[Path, LoadedModel], monkeypatch: pytest.MonkeyPatch) -> list[EditCase]:
    """Candidates of a roster that wants one retained item per cell and takes two candidates at a time."""
    kept = retained_cases(tiny_edits[1], 4)
    lost = replace(kept[0], case_id="lost", item_id="lost", new_answer="Quillon", old_answer="Tarn")
    poison = replace(kept[1], case_id="poison", item_id="poison", query_ids=(*kept[1].query_ids, 10_000))
    beside = replace(kept[0], case_id="beside", item_id="lost", condition="irrelevant")
    cases = [lost, beside, poison, *kept]
    roster = replace(
        EDIT_ROSTERS["embedded-dev"],
        distances=(0,),
        n_items=1,
        n_others=1,
        n_candidates=2,
        expand_by=2,
        max_candidates=6,
    )
    monkeypatch.setitem(EDIT_ROSTERS, "embedded-dev", roster)
    cohort = _cohort("embedded-dev", cases)
    monkeypatch.setattr(edit_work, "WORK", replace(edit_work.WORK, build=lambda tokenizer, roster: cohort))
    return cases


def _cohort(name: str, cases: list) -> Cohort:
    return Cohort.of(name, cases, score_rule="flip/1", decoding="greedy-16", seeds=[case.seed for case in cases])


@pytest.fixture
def go(command: Callable, prefect_server: str, cluster, tiny_edits: tuple[Path, LoadedModel]):  # type: ignore[no-untyped-def]
    def call(results: Path, *more: object):  # type: ignore[no-untyped-def]
        options = ("--model", tiny_edits[0], *SETTINGS, "--results", results, "--address", cluster.address)
        ended = command("run", "edit-repair", *options, *more)
        print(ended.out, ended.err, sep="\n")
        return ended

    return call


def _arms(results: Path) -> Counter[tuple[str, str]]:
    return Counter((row["case_id"], row["arm"]) for row in read_rows(results, "edit_records"))


def test_main_then_what_builds_on_it(go, items: list[EditCase], tmp_path: Path) -> None:
    results = tmp_path / "results"
    first = go(results, "--set", "study=main", "--set", "spot_check=1")
    # The poison item fails with every arm; it is named, and the others go on.
    assert first.code == 1
    counts = Counter(row["case_id"] for row in read_rows(results, "edit_records"))
    kept = [case.case_id for case in items[3:]]
    # Two candidates give nothing; of the next two both are retained, which is enough: the last two never run.
    assert counts == {"lost": REFERENCES, "beside": REFERENCES, "poison": ARMS, kept[0]: ARMS, kept[1]: ARMS}
    assert "poison" in first.out
    assert f"{ARMS} records of 1 cases failed" in first.out
    assert "2 retained of 4" in first.out
    # Of the four policies three can be deployed, two of them at two K, on two retained items; a span alone is none.
    assert "spot check, dev: 10 of 10 repairs sampled; TV to a re-prefill " in first.out
    boundary = [row for row in read_rows(results, "edit_records") if row["arm"] == "edit-local-boundary"]
    taken = [row["n_positions"] for row in boundary if row["retained"]]
    assert f", {sum(taken) / len(taken):.1f} positions" in first.out
    rows = {(row["case_id"], row["arm"]): row for row in read_rows(results, "edit_records")}
    assert rows["lost", "clean"]["retained"] is False
    assert rows[kept[0], "stale"]["margin_recovery"] == 0
    assert rows[kept[0], "clean"]["margin_recovery"] == 1
    for case in items:
        row = rows.get((case.case_id, "clean"))
        labels = row["guards"] if row is not None and row["outcome"] == "ok" else None
        assert (labels is not None) == (case.case_id in kept[:2] and guarded(case))
        assert labels is None or set(json.loads(labels).values()) == {"passed"}
    assert all("token id" in row["error"] for (case, _), row in rows.items() if case == "poison")

    # Only what failed is tried again.
    again = go(results, "--set", "study=main")
    assert f"{ARMS} records computed" in again.out
    assert Counter(_arms(results).values()) == {1: 2 * REFERENCES + 2 * ARMS + ARMS}

    # One more policy computes that policy, on retained items alone.
    more = go(results, "--set", "study=main", "--set", "policies=edit-local,attention")
    assert more.code == 1
    assert {case for case, arm in _arms(results) if arm == "attention@8"} == {*kept[:2], "poison"}

    operators = go(results, "--set", "study=operators")
    assert operators.code == 1
    panel = [row for row in read_rows(results, "edit_records") if row["operator"] == "transplant"]
    assert {row["case_id"] for row in panel} == set(kept[:2])
    assert {row["outcome"] for row in panel} == {"ok"}
    for row in panel:
        assert row["positions"] == rows[row["case_id"], row["arm"].removeprefix("transplant:")]["positions"]

    severity = go(results, "--set", "study=severity")
    assert severity.code == 1
    stored = [row for row in read_rows(results, "edit_records") if row["outcome"] == "ok"]
    # Irrelevant edits and items that are not retained are repaired, too.
    for arm in ("stale", "span", "clean", "edit-local@32"):
        found = {row["case_id"] for row in stored if row["arm"] == arm}
        assert found == {case.case_id for case in items} - {"poison"}, arm
    assert "nothing to do" not in severity.out
    lost = {row["arm"] for row in stored if row["case_id"] in ("lost", "beside")}
    assert lost == {"stale", "span", "clean", "edit-local@32"}

    recovery = store.query(results, "FROM edit_recovery WHERE family IS NULL AND condition = 'derived'").to_pylist()
    by_arm = {row["arm"]: row for row in recovery}
    assert by_arm["stale"]["mean"] == 0
    assert by_arm["clean"]["mean"] == 1
    margins = [rows[case, "edit-local@8"]["margin_recovery"] for case in kept[:2]]
    assert by_arm["edit-local@8"]["mean"] == pytest.approx(sum(margins) / 2)
    assert "2,000 are wanted" in by_arm["edit-local@8"]["evidence"]
    assert store.query(results, "SELECT count(*) AS n FROM edit_contrasts").column("n")[0].as_py() > 0
    table = DecisionTable.load(results / "edit-policy.json")
    assert table.otherwise.policy == "re-prefill"
    runs = store.query(results, "SELECT run_id, status FROM runs").to_pylist()
    assert {row["status"] for row in runs} == {"done"}
    assert any(row["run_id"].endswith("-operators-embedded-dev") for row in runs)


@pytest.mark.slow
def test_sequences_and_cost(go, tiny_edits: tuple[Path, LoadedModel], monkeypatch, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    cohort = _cohort("embedded-sequences-dev", [sequence_case(tiny_edits[1], 3, 2), sequence_case(tiny_edits[1], 4, 5)])
    work = replace(edit_sequence_work.WORK, build=lambda tokenizer, roster: cohort)
    monkeypatch.setattr(edit_sequence_work, "WORK", work)
    results = tmp_path / "results"
    sequences = ("--set", "study=sequences", "--set", "policies=edit-local", "--set", "length=600")
    ended = go(results, *sequences)
    assert ended.code == 0
    counts = Counter((row["case_id"], row["mode"], row["policy"]) for row in read_rows(results, "edit_sequences"))
    few, many = (case.case_id for case in cohort.cases)
    for policy in ("span", "edit-local"):
        assert counts[few, "at-once", policy] == 2
        assert counts[few, "successive", policy] == 3
        assert counts[many, "successive", policy] == counts[many, "successive-limit", policy] == 15
    assert "nothing to do" in go(results, *sequences).out

    cost_alone = ("--set", "study=cost", "--set", "lengths=100,150", "--set", "length=null")
    cost = go(results, *cost_alone)
    assert cost.code == 0
    timed = Counter((row["length"], row["executor"], row["k"]) for row in read_rows(results, "edit_timings"))
    # Two lengths: a re-prefill, and a refresh by two executors at two K, with a copy and in place.
    assert sum(timed.values()) == 2 * (1 + 2 * 2 * 2)
    assert {timed[key] for key in timed if key[2] is not None} == {2}
    rows = store.query(results, "FROM edit_cost").to_pylist()
    assert len(rows) == 16
    assert all(row["ratio"] > 0 for row in rows)
    assert "nothing to do" in go(results, *cost_alone).out


def test_distances_and_conditions_have_their_own_arms(
    go,  # type: ignore[no-untyped-def]
    tiny_edits: tuple[Path, LoadedModel],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    (near,) = retained_cases(tiny_edits[1], 1)
    direct = replace(near, case_id="direct", condition="direct")
    far = replace(near, case_id="far", distance=192)
    lost = replace(near, case_id="lost", distance=64, new_answer="Quillon", old_answer="Tarn")
    cohort = _cohort("embedded-dev", [near, direct, far, lost])
    monkeypatch.setattr(edit_work, "WORK", replace(edit_work.WORK, build=lambda tokenizer, roster: cohort))
    ended = go(tmp_path, "--set", "study=main", "--set", "policies=edit-local,causal-oracle-screened")
    assert ended.code == 0
    chosen: dict[str, set[str]] = {}
    for case, arm in _arms(tmp_path):
        if "@" in arm:
            chosen.setdefault(case, set()).add(arm)
    assert chosen == {
        near.case_id: {"edit-local@8", "edit-local@32", "causal-oracle-screened@8", "causal-oracle-screened@32"},
        "direct": {"edit-local@32", "causal-oracle-screened@32"},
        "far": {"edit-local@32"},
    }
    assert "0 retained of 1" in ended.out
    for distance in (0, 64, 192):
        assert f"derived d={distance} shows nothing: the shortest context has" in ended.out


def test_a_cohort_that_cannot_be_built_ends_the_run_before_any_work(go, items: list[EditCase], tmp_path: Path) -> None:
    results = tmp_path / "results"
    # Contexts of 400 tokens hold no ten records; the items of "main", which comes first, would run.
    ended = go(results, "--set", "study=all", "--set", "k=8,16")
    assert ended.code == 2
    line = ended.err.splitlines()[-1]
    assert line.startswith("error: roster 'embedded-sequences-dev' has no usable candidate")
    assert line.endswith("give a longer length")
    assert not [path for path in results.rglob("*") if path.is_file()]


def test_operators_alone_say_that_main_comes_first(go, items: list[EditCase], tmp_path: Path) -> None:
    ended = go(tmp_path / "results", "--set", "study=operators")
    assert ended.code == 2
    assert ended.err.splitlines()[-1].startswith("error: study 'operators' replays what study 'main' recorded")
