"""Base rates, severity and gates of an unrepaired cache, on records made by hand and computed by plain sums."""

import json
from dataclasses import replace
from random import Random
from statistics import median
from typing import Any

import pytest

from cachemend.tasks.analyse_gate import failure_predictor
from cachemend.tasks.analyse_triggers import trigger_rows

from support.edit_observed import CLEAN, SPAN, STALE, Row, observed, record
from support.edit_rows import ArmName

LOCAL = ArmName("edit-local", 32)
# By case: whether the clean, the stale and the repaired cache answer rightly.
OUTCOMES = {
    "direct": [(1, 0, 1), (1, 0, 0), (0, 0, 0), (1, 0, 1)],
    "derived": [(1, 0, 1), (1, 0, 1), (1, 1, 0), (1, 0, 1), (0, 0, 0), (0, 1, 1)],
    "irrelevant": [(1, 1, 1), (1, 1, 1), (1, 1, 1), (1, 0, 1), (1, 1, 0), (0, 1, 0)],
}
SHARES = (0.1, 0.25, 0.5, 0.75, 1.0)


def by_kind(rows: list[Row], kind: str) -> list[Row]:
    return [row for row in rows if row["kind"] == kind]


def item_records(item: int, condition: str, outcome: tuple[int, int, int], **more: Any) -> list[Row]:
    """What the severity study leaves of a case, and records that must count nowhere in it."""
    clean, stale, repaired = map(bool, outcome)
    # Retention would leave out the irrelevant edits, and one relevant edit in three.
    told = {"condition": condition, "retained": condition != "irrelevant" and item % 3 > 0}
    return [
        record(item, CLEAN, 1.0, flip=clean, t_refresh=10.0 + item, **told),
        record(item, STALE, 0.0, flip=stale, t_refresh=None, **told, **more),
        record(item, SPAN, 0.0, flip=not repaired, t_refresh=0.5, **told),
        record(item, LOCAL, 1.0, flip=repaired, t_refresh=1.0 + item**2, **told),
        record(item, ArmName("edit-local", 8), 0.0, flip=False, t_refresh=99.0, **told),
        record(item, ArmName("edit-local", 32, "transplant"), 0.0, flip=False, t_refresh=98.0, **told),
        record(item, STALE, 0.0, flip=True, distance=64, **told),
        record(item, CLEAN, 0.0, flip=True, distance=64, **told),
    ]


def gate_records() -> list[Row]:
    return [
        row
        for condition, cases in OUTCOMES.items()
        for item, outcome in enumerate(cases)
        for row in item_records(item, condition, outcome)
    ]


def test_each_kind_of_edit_is_weighed_over_what_the_clean_cache_answers() -> None:
    found = by_kind(trigger_rows(observed(gate_records()), 32, None), "gate")
    assert len(found) == 2 * 5 * 3
    assert "repair when predicted" not in {row["subject"] for row in found}
    for condition in ("direct", "derived"):
        rows = {(row["subject"], row["share"]): row for row in found if row["condition"] == condition}
        mine, others = ([c for c in OUTCOMES[name] if c[0]] for name in (condition, "irrelevant"))
        counted = [i for name in (condition, "irrelevant") for i, c in enumerate(OUTCOMES[name]) if c[0]]
        repair, prefill = median(1.0 + i**2 for i in counted), median(10.0 + i for i in counted)
        for share in SHARES:
            stale, repaired = (
                share * sum(not c[at] for c in mine) / len(mine)
                + (1 - share) * sum(not c[at] for c in others) / len(others)
                for at in (1, 2)
            )
            for rule, wanted in (
                ("repair never", (stale, 0.0)),
                ("repair always", (repaired, repair)),
                ("re-prefill always", (0.0, prefill)),
            ):
                row = rows[rule, share]
                assert (row["failures"], row["seconds"]) == pytest.approx(wanted), (condition, rule, share)
                assert row["n"] == len(counted)


def test_one_kind_of_edit_makes_no_gate() -> None:
    rows = gate_records()
    for left_out, kept in (("irrelevant", set()), ("direct", {"derived"}), ("derived", {"direct"})):
        mine = [row for row in rows if row["condition"] != left_out]
        assert {row["condition"] for row in by_kind(trigger_rows(observed(mine), 32, None), "gate")} == kept


def test_repairs_of_retained_items_alone_are_no_sample_of_all_edits() -> None:
    rows = gate_records()
    retained = [row for row in rows if row["retained"] or row["arm"] != LOCAL.name or row["condition"] != "derived"]
    assert {row["condition"] for row in by_kind(trigger_rows(observed(retained), 32, None), "gate")} == {"direct"}
    # A repair that was run and failed is a case less; it does not make the others unfit.
    failed = [
        row | {"outcome": "case_error"} if (row["item_id"], row["arm"]) == (rows[0]["item_id"], LOCAL.name) else row
        for row in rows
    ]
    [first, *_] = by_kind(trigger_rows(observed(failed), 32, None), "gate")
    assert (first["condition"], first["n"]) == ("direct", 2 + 4)


def told_apart(split: str, signal: bool = True, n: int = 15) -> Any:
    """Items whose stale cache fails on relevant edits and on no other, which an embedding feature tells or does not."""
    rows = []
    for condition in ("direct", "derived", "irrelevant"):
        relevant = condition != "irrelevant"
        for item in range(n):
            noise = Random(f"{split} {condition} {item}")
            features = {"signal": relevant + noise.random() / 2 if signal else 0.5, "noise": noise.random()}
            # The repair of every fifth relevant edit is wrong, and that of every third other one.
            repaired = item % 5 > 0 if relevant else item % 3 > 0
            outcome = (1, int(not relevant), int(repaired))
            rows += item_records(item, condition, outcome, embedding_features=json.dumps(features))
    return observed([row | {"split": split} for row in rows if row["distance"] == 0], split)


def test_a_predictor_that_tells_all_failures_saves_the_other_repairs() -> None:
    predictor = failure_predictor(told_apart("dev"))
    assert predictor is not None
    held_out = told_apart("held-out")
    rows = trigger_rows(held_out, 32, predictor)
    quality = {(row["subject"], row["condition"]): row for row in by_kind(rows, "predictor")}
    assert {key: (row["rate"], row["n"]) for key, row in quality.items()} == {
        ("edits sent", "direct"): (1.0, 15),
        ("failures sent", "direct"): (1.0, 15),
        ("edits sent", "derived"): (1.0, 15),
        ("failures sent", "derived"): (1.0, 15),
        ("edits sent", "irrelevant"): (0.0, 15),
    }
    # Wilson's ends at none and at all of 15 are z^2 / (15 + z^2) from there.
    reach = 1.959964**2 / (15 + 1.959964**2)
    assert quality["edits sent", "irrelevant"]["high"] == pytest.approx(reach)
    assert quality["failures sent", "derived"]["low"] == pytest.approx(1 - reach)
    repair = median(1.0 + i**2 for i in range(15))
    gates = {(row["condition"], row["subject"], row["share"]): row for row in by_kind(rows, "gate")}
    assert len(gates) == 2 * 5 * 4
    for condition in ("direct", "derived"):
        for share in SHARES:
            row = gates[condition, "repair when predicted", share]
            assert row["failures"] == pytest.approx(share * 3 / 15)
            assert row["seconds"] == pytest.approx(share * repair)
            assert gates[condition, "repair always", share]["failures"] == pytest.approx(
                share * 3 / 15 + (1 - share) * 5 / 15
            )
            assert gates[condition, "repair never", share]["failures"] == pytest.approx(share)
    # What was fitted to a cohort is not tried on it.
    subjects = {row["subject"] for row in trigger_rows(told_apart("dev"), 32, predictor) if row["kind"] == "gate"}
    assert subjects == {"repair never", "repair always", "re-prefill always"}
    assert by_kind(trigger_rows(told_apart("dev"), 32, predictor), "predictor") == []


def test_the_kind_of_edit_is_hidden_from_the_predictor() -> None:
    """Where nothing but the kind tells the failures, nearly everything must be sent to catch them."""
    predictor = failure_predictor(told_apart("dev", signal=False))
    assert predictor is not None
    assert not [name for name in predictor.names if name.startswith("is_")]
    rows = by_kind(trigger_rows(told_apart("held-out", signal=False), 32, predictor), "predictor")
    sent = {(row["subject"], row["condition"]): row["rate"] for row in rows}
    assert sent["edits sent", "irrelevant"] > 0.6


def test_too_few_failures_or_others_on_dev_items_make_no_predictor() -> None:
    assert failure_predictor(told_apart("dev", n=4)) is None
    assert failure_predictor(told_apart("dev", n=10)) is not None
    wrong = [row | {"flip": False} if row["policy"] == "clean" else row for row in told_apart("dev").rows]
    assert failure_predictor(observed(wrong, "dev")) is None


def test_base_rates_count_wrong_stale_answers_of_each_condition() -> None:
    rows = gate_records()
    rows += [record(9, STALE, 0.0, condition="direct", flip=None, outcome="case_error")]
    found = {row["condition"]: row for row in by_kind(trigger_rows(observed(rows), 32, None), "base-rate")}
    wrong = {
        name: (sum(not stale for _, stale, _ in cases) / len(cases), len(cases)) for name, cases in OUTCOMES.items()
    }
    assert {name: (row["rate"], row["n"]) for name, row in found.items()} == wrong
    assert all(row["low"] <= row["rate"] <= row["high"] for row in found.values())


def severity_records(condition: str, items: range, sign: float) -> list[Row]:
    """A severity that one embedding feature foretells, upwards or downwards."""
    rows = []
    for item in items:
        signal = Random(f"{condition} {item}").random()
        told = {"margin_stale": -1.0 - item % 3, "margin_clean": -1.0 - item % 3 + 4 + sign * signal}
        embedded = json.dumps({"signal": signal, "noise": Random(item).random()})
        rows += [
            record(item, STALE, 0.0, condition=condition, embedding_features=embedded, retained=item % 2 == 0, **told),
            record(item, CLEAN, 1.0, condition=condition, retained=item % 2 == 0, **told),
        ]
    return rows


def test_severity_is_foretold_from_direct_and_derived_edits_alone() -> None:
    rows = severity_records("direct", range(14), 3.0) + severity_records("derived", range(4, 18), 3.0)
    found = by_kind(trigger_rows(observed(rows), 32, None), "severity")
    assert [row["subject"] for row in found] == ["ridge", "random-forest"]
    assert {(row["n"], row["n_groups"]) for row in found} == {(28, 18)}
    assert found[0]["rho"] > 0.95
    assert found[0]["r2"] > 0.9
    # Neither irrelevant edits, nor other distances, nor cases that lack a reference move a figure.
    more = severity_records("irrelevant", range(40), -30.0)
    more += [row | {"distance": 64, "case_digest": row["case_digest"] + "-64"} for row in rows]
    more += severity_records("derived", range(30, 31), 3.0)[1:]
    assert by_kind(trigger_rows(observed([*rows, *more]), 32, None), "severity") == found


def test_severity_is_foretold_from_the_texts_too() -> None:
    rows = severity_records("derived", range(15), 0.0)
    given = observed(rows)
    lengths = {digest: 1 + 7 * place % 15 for place, digest in enumerate(sorted(given.cases))}
    cases = {d: replace(case, relevance_ids=(1,) * lengths[d]) for d, case in given.cases.items()}
    told = tuple(row | {"margin_clean": row["margin_stale"] + lengths[row["case_digest"]]} for row in rows)
    found = by_kind(trigger_rows(replace(given, rows=told, cases=cases), 32, None), "severity")
    assert found[0]["rho"] > 0.95


def test_too_few_items_foretell_nothing() -> None:
    assert by_kind(trigger_rows(observed(severity_records("derived", range(4), 1.0)), 32, None), "severity") == []
