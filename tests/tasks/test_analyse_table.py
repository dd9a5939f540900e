"""The decision table: what it is derived from, what it says and how it does on other items; sums by hand."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from cachemend.datasets.cohort import write_cohort
from cachemend.datasets.edit_build import build_edits
from cachemend.repair_core.decision_table import DecisionTable
from cachemend.repair_core.features import EditFeatures
from cachemend.repair_core.models import load_tokenizer
from cachemend.tasks.analyse_edits import POLICY_FILE, Analysed, analyse_edits
from cachemend.tasks.analyse_table import decision_table, derived, derived_rows, evaluated_rows, observations
from cachemend.tasks.edit_observations import Observed
from cachemend.tasks.edit_work import EditIdentity
from cachemend.tasks.worker_spec import WorkerSpec
from cachemend.warehouse import store
from cachemend.warehouse.parts import write_part

from support.edit_items import small
from support.edit_observed import CLEAN, SPAN, STALE, Row, observed, record
from support.edit_rows import ArmName
from support.tiny_checkpoint import save_tiny

NEAR, FAR, FEW = (
    EditFeatures(*each) for each in (("in-block", "<=16", True), ("beyond", "more", True), ("nowhere", "none", False))
)
AT_8, AT_16, BOUNDARY = ArmName("edit-local", 8), ArmName("edit-local", 16), ArmName("edit-local-boundary", None)
# Recovery of each arm where the answer is near, far, and where there are few items.
SKILL = {AT_8: (0.95, 0.1, 0.99), AT_16: (0.99, 0.2, 0.99), BOUNDARY: (0.3, 0.3, 0.99)}
HELD_OUT = {AT_8: (0.7, 0.15, 0.6), AT_16: (1.0, 0.25, 0.99), BOUNDARY: (1.0, 0.35, 0.99)}
SIZES = ((NEAR, 0, range(12)), (FAR, 64, range(12)), (FEW, 192, range(4)))
SPAN_TOKENS, CONTEXT = 3, 2100


def items(skill: Mapping[ArmName, tuple[float, ...]]) -> tuple[list[Row], dict[str, EditFeatures]]:
    """Items of three cells, and of each kind of record that a table must not be derived from."""
    rows, features = [], {}
    for place, (cell, distance, found) in enumerate(SIZES):
        for item in found:
            told: dict[str, Any] = {"distance": distance}
            mine = [record(item, arm, values[place], **told) for arm, values in skill.items()]
            mine[-1]["n_positions"] = 27
            mine += [record(item, STALE, 0.0, **told), record(item, CLEAN, 1.0, **told)]
            # Cheaper than any arm, and perfect: a choice of one of these is seen at once.
            mine += [record(item, SPAN, 1.0, **told), record(item, ArmName("attention", 1, "transplant"), 1.0, **told)]
            mine += [record(item, ArmName(name, None), 1.0, **told) for name in ("carrier-window", "span-to-carrier")]
            mine += [record(item, ArmName("causal-oracle", 1), 1.0, **told)]
            rows += mine
            features[mine[0]["case_digest"]] = cell
        other = [record(30 + item, ArmName("random", 1), 1.0, distance=distance, retained=False) for item in range(12)]
        other += [
            record(50 + item, ArmName("random", 1), 1.0, distance=distance, condition="irrelevant")
            for item in range(12)
        ]
        rows += other
        features |= {row["case_digest"]: cell for row in other}
    return rows, features


@pytest.fixture(scope="module")
def dev() -> tuple[Observed, Any]:
    rows, features = items(SKILL)
    given = observed(rows, "dev")
    return given, observations(given, features, 16)


def test_deployable_arms_of_retained_items_are_observed(dev: tuple[Observed, Any]) -> None:
    _, found = dev
    assert set(found.arms) == {"edit-local@8", "edit-local@16", "edit-local-boundary", "re-prefill"}
    assert len(found.cases) == 4 * 28
    assert len(set(found.items)) == 12
    spent = {
        "edit-local@8": 8 + SPAN_TOKENS,
        "edit-local@16": 16 + SPAN_TOKENS,
        "edit-local-boundary": 27 + SPAN_TOKENS,
    }
    assert set(zip(found.arms, found.tokens, strict=True)) == {*spent.items(), ("re-prefill", CONTEXT)}
    assert {(arm, cell): value for arm, cell, value in zip(found.arms, found.cells, found.recovery, strict=True)} == {
        **{(arm.name, cell[0]): values[i] for arm, values in SKILL.items() for i, cell in enumerate(SIZES)},
        **{("re-prefill", cell[0]): 1.0 for cell in SIZES},
    }


def test_nothing_retained_is_nothing_observed() -> None:
    rows, features = items(SKILL)
    assert observations(observed([row | {"retained": False} for row in rows]), features, 16) is None


def test_the_cheapest_arm_that_is_good_enough_is_the_table(dev: tuple[Observed, Any]) -> None:
    given, found = dev
    choices = derived(found)
    assert {choice.cell: choice.arm for choice in choices} == {
        NEAR: "edit-local@8",
        FAR: "re-prefill",
        FEW: "re-prefill",
    }
    table = decision_table(choices, given, 12)
    read = DecisionTable.from_json(table.to_json())
    assert read == table
    assert (read.decide(NEAR).policy, read.decide(NEAR).k) == ("edit-local", 8)
    unknown = EditFeatures("beyond", "<=32", False)
    assert [read.decide(cell).policy for cell in (FAR, FEW, unknown)] == ["re-prefill"] * 3
    assert (read.model, read.fingerprint) == (given.identity.model, given.identity.model_fingerprint)
    assert (read.derived_from.cohort_digest, read.derived_from.n_items) == (given.identity.cohort_digest, 12)
    evidence = next(rule.evidence for rule in read.rules if rule.do.policy == "edit-local")
    assert (evidence.n, evidence.mean) == (12, pytest.approx(0.95))


def test_every_arm_of_every_cell_is_listed_with_the_choice(dev: tuple[Observed, Any]) -> None:
    given, found = dev
    rows = {(row["cell"], row["arm"]): row for row in derived_rows(derived(found), given, found)}
    near = "named=in-block reach=<=16 query_overlap=true"
    assert len(rows) == 3 * 4
    assert {key for key, row in rows.items() if row["chosen"] and key[1] != "re-prefill"} == {(near, "edit-local@8")}
    row = rows[near, "edit-local@16"]
    assert (row["stage"], row["policy"], row["k"], row["n"]) == ("derived", "edit-local", 16, 12)
    assert (row["mean"], row["mean_tokens"]) == (pytest.approx(0.99), pytest.approx(16 + SPAN_TOKENS))
    assert rows[near, "edit-local-boundary"]["k"] is None


def test_the_table_is_followed_on_other_items(dev: tuple[Observed, Any]) -> None:
    rows, features = items(HELD_OUT)
    held_out = observed(rows)
    other = observations(held_out, features, 16)
    assert other is not None
    evaluated = evaluated_rows(derived(dev[1]), held_out, other)
    found = {(row["cell"], row["arm"], row["chosen"]): row for row in evaluated}
    table = found["all", "table", True]
    followed = [0.7] * 12 + [1.0] * 16
    assert (table["n"], table["mean"]) == (28, pytest.approx(fmean(followed)))
    assert table["mean_tokens"] == pytest.approx(fmean([8 + SPAN_TOKENS] * 12 + [CONTEXT] * 16))
    assert table["share_re_prefilled"] == pytest.approx(16 / 28)
    for arm, values in HELD_OUT.items():
        fixed = found["all", arm.name, False]
        assert fixed["mean"] == pytest.approx(fmean([values[0]] * 12 + [values[1]] * 12 + [values[2]] * 4))
    assert found["named=in-block reach=<=16 query_overlap=true", "table", True]["mean"] == pytest.approx(0.7)


def evaluate(dev: tuple[Observed, Any], rows: list[Row], features: dict[str, EditFeatures]) -> dict[str, Row]:
    """The rows over all cells, by arm."""
    held_out = observed(rows)
    other = observations(held_out, features, 16)
    assert other is not None
    found = evaluated_rows(derived(dev[1]), held_out, other)
    return {row["arm"]: row for row in found if row["cell"] == "all"}


def test_a_case_that_an_arm_failed_on_counts_for_no_arm(dev: tuple[Observed, Any]) -> None:
    rows, features = items(HELD_OUT)
    whole = evaluate(dev, rows, features)
    # The one case on which the far arm recovers much; what failed says nothing of retention.
    failed = {"outcome": "case_error", "margin_recovery": None, "retained": None, "flip": None}
    lost = next(row for row in rows if row["arm"] == "edit-local@16" and row["distance"] == 64)
    without = evaluate(dev, [row | failed if row is lost else row for row in rows], features)
    assert without.keys() == whole.keys()
    assert {row["n"] for row in whole.values()} == {28}
    assert {row["n"] for row in without.values()} == {27}
    assert without["edit-local-boundary"]["mean"] == pytest.approx(fmean([1.0] * 12 + [0.35] * 11 + [0.99] * 4))
    assert without["table"]["mean_tokens"] == pytest.approx(fmean([8 + SPAN_TOKENS] * 12 + [CONTEXT] * 15))


def test_an_arm_that_was_not_run_on_every_case_is_not_compared(dev: tuple[Observed, Any]) -> None:
    rows, features = items(HELD_OUT)
    near = [row for row in rows if row["arm"] != "edit-local@16" or row["distance"] == 0]
    found = evaluate(dev, near, features)
    assert set(found) == {"table", "edit-local@8", "edit-local-boundary", "re-prefill"}
    assert {row["n"] for row in found.values()} == {28}
    # The table's own arm may be run in its own cell alone.
    own = [row for row in rows if row["arm"] != "edit-local@8" or row["distance"] == 0]
    assert evaluate(dev, own, features)["table"]["n"] == 28
    # Without it the table is not followed, and nothing is compared with it.
    assert evaluate(dev, [row for row in rows if row["arm"] != "edit-local@8"], features) == {}


def test_cases_of_the_severity_study_alone_take_no_part(dev: tuple[Observed, Any]) -> None:
    rows, features = items(SKILL)
    only = [record(70 + i, arm, 0.5) for i in range(5) for arm in (STALE, SPAN, CLEAN, AT_16)]
    features |= {row["case_digest"]: NEAR for row in only}
    found = observations(observed([*rows, *only], "dev"), features, 16)
    assert found is not None
    assert derived(found) == derived(dev[1])
    # Where no other arm was run, they are all there is.
    alone = observations(observed(only, "dev"), features, 16)
    assert alone is not None
    assert set(alone.arms) == {"edit-local@16", "re-prefill"}


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny(tmp_path_factory.mktemp("tiny"), context=1024)


RULES = (AT_8, AT_16)


def store_cohort(results: Path, checkpoint: Path, split: str, good: ArmName, items: int = 12) -> Analysed:
    """Records of a cohort on which one rule is perfect and the other worthless; its file stands where a run puts it."""
    cohort = build_edits(
        load_tokenizer(str(checkpoint)), small(items=items, split=split, name=f"small-{split}", distances=(0,))
    )
    rows = []
    for case in cohort.cases:
        facts = {name: getattr(case, name) for name in ("item_id", "condition", "family", "case_id")}
        mine = {"case_digest": case.digest, "cohort_digest": cohort.digest, "split": split}
        rows += [record(0, arm, float(arm in (good, CLEAN)), **facts) | mine for arm in (*RULES, CLEAN, STALE)]
    write_part(results, "edit_records", rows)
    file = write_cohort(cohort, _cohort_file(results, cohort.digest))
    identity = replace(observed(rows).identity, cohort_digest=cohort.digest)
    assert isinstance(identity, EditIdentity)
    return Analysed(cohort_file=file, identity=identity)


def _cohort_file(results: Path, digest: str) -> Path:
    folder = results / "cohorts"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{digest}.json"


def decisions(results: Path) -> dict[tuple[str, str], Row]:
    """Rows over all cells, and those of the choices on dev items, by stage and arm."""
    sql = "FROM edit_decisions WHERE cell = 'all' OR (stage = 'derived' AND chosen)"
    return {(row["stage"], row["arm"]): row for row in store.query(results, sql).to_pylist()}


def test_the_stored_table_is_that_of_the_dev_items(tmp_path: Path, checkpoint: Path) -> None:
    """On the dev items one rule is perfect and the other worthless; on the held-out ones it is the other way round."""
    spec = WorkerSpec(model=str(checkpoint), max_new_tokens=16, score_rule="flip/1")
    held_out = store_cohort(tmp_path, checkpoint, "held-out", AT_16)
    # Held-out items alone make no table.
    assert analyse_edits.fn(tmp_path, [held_out], spec, run_id="edit-0", primary_k=32) is None
    assert decisions(tmp_path) == {}
    dev = store_cohort(tmp_path, checkpoint, "dev", AT_8)
    file = analyse_edits.fn(tmp_path, [held_out, dev], spec, run_id="edit-1", primary_k=32)
    assert file == tmp_path / POLICY_FILE
    table = DecisionTable.load(file)
    assert table.derived_from.cohort_digest == dev.identity.cohort_digest
    assert {(rule.do.policy, rule.do.k) for rule in table.rules} - {("re-prefill", None)} == {("edit-local", 8)}
    rows = decisions(tmp_path)
    assert {(stage, row["split"]) for (stage, _), row in rows.items()} == {
        ("derived", "dev"),
        ("evaluated", "held-out"),
    }
    assert rows["evaluated", "edit-local@16"]["mean"] == 1.0
    assert json.loads(file.read_text(encoding="utf-8"))["version"] == 1


def test_no_evaluation_stays_behind_its_table_or_its_records(tmp_path: Path, checkpoint: Path) -> None:
    spec = WorkerSpec(model=str(checkpoint), max_new_tokens=16, score_rule="flip/1")
    dev = store_cohort(tmp_path, checkpoint, "dev", AT_8)
    held_out = store_cohort(tmp_path, checkpoint, "held-out", AT_16)
    analyse_edits.fn(tmp_path, [dev, held_out], spec, run_id="edit-1", primary_k=32)
    before = decisions(tmp_path)
    assert before["evaluated", "table"]["mean"] < 1
    assert ("derived", "edit-local@8") in before

    # Held-out records that came later are followed by the dev items that are stored, in a run without them.
    at = {"recorded_at": record(0, STALE, 0.0)["recorded_at"].replace(year=2030)}
    fields = store.query(tmp_path, "SELECT * FROM edit_records").to_pylist()
    again = [{name: value for name, value in row.items() if name not in ("part", "record_key")} for row in fields]
    better = [row | {"margin_recovery": 1.0} | at for row in again if row["split"] == "held-out"]
    write_part(tmp_path, "edit_records", [row for row in better if row["arm"] == "edit-local@8"])
    assert analyse_edits.fn(tmp_path, [held_out], spec, run_id="edit-2", primary_k=32) == tmp_path / POLICY_FILE
    assert decisions(tmp_path)["evaluated", "table"]["mean"] == 1.0

    # A table derived from other dev records is tested on the stored held-out items, in a run without those.
    for arm, value in (("edit-local@8", 0.0), ("edit-local@16", 1.0)):
        rows = [row | {"margin_recovery": value} | at for row in again if row["split"] == "dev" and row["arm"] == arm]
        write_part(tmp_path, "edit_records", rows)
    analyse_edits.fn(tmp_path, [dev], spec, run_id="edit-3", primary_k=32)
    after = decisions(tmp_path)
    assert ("derived", "edit-local@16") in after
    assert after["evaluated", "table"]["run_id"] == "edit-3"

    # Where the held-out cohort's file is gone, nothing can be tested; what an older table came to is not shown.
    _cohort_file(tmp_path, held_out.identity.cohort_digest).unlink()
    for arm, value in (("edit-local@8", 0.95), ("edit-local@16", 0.0)):
        rows = [row | {"margin_recovery": value} | at for row in again if row["split"] == "dev" and row["arm"] == arm]
        write_part(
            tmp_path, "edit_records", [row | {"recorded_at": at["recorded_at"].replace(year=2031)} for row in rows]
        )
    analyse_edits.fn(tmp_path, [dev], spec, run_id="edit-4", primary_k=32)
    last = decisions(tmp_path)
    assert ("derived", "edit-local@8") in last
    assert {stage for stage, _ in last} == {"derived"}
