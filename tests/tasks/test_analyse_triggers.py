"""Base rates, severity and gates of an unrepaired cache, on records made by hand and computed by plain sums."""

import json
from dataclasses import replace
from random import Random
from statistics import median

import pytest

from cachemend.repair_core.features import EditFeatures
from cachemend.tasks.analyse_triggers import trigger_rows

from support.edit_observed import CLEAN, SPAN, STALE, Row, observed, record
from support.edit_rows import ArmName

LOCAL = ArmName("edit-local", 32)
# By case: answered rightly by the clean cache, the stale one and the repaired one; the question's words in the block.
RELEVANT = [(1, 0, 1, 1), (1, 0, 1, 1), (1, 1, 0, 1), (1, 0, 1, 0), (0, 0, 0, 0), (0, 1, 1, 0)]
IRRELEVANT = [(1, 1, 1, 0), (1, 1, 1, 0), (1, 1, 1, 1), (1, 0, 1, 1), (1, 1, 1, 0), (0, 1, 0, 1)]


def by_kind(rows: list[Row], kind: str) -> list[Row]:
    return [row for row in rows if row["kind"] == kind]


def gate_records() -> tuple[list[Row], dict[str, EditFeatures]]:
    """Relevant edits repaired by edit-local, irrelevant ones by their span; the rest must count nowhere."""
    rows, features = [], {}
    for condition, cases in (("derived", RELEVANT), ("irrelevant", IRRELEVANT)):
        relevant = condition == "derived"
        for item, (clean, stale, repaired, overlap) in enumerate(cases):
            told = {"condition": condition, "retained": relevant and item < 3}
            span, local = (False, bool(repaired)) if relevant else (bool(repaired), False)
            rows += [
                record(item, CLEAN, 1.0, flip=bool(clean), t_refresh=10.0 + item, **told),
                record(item, STALE, 0.0, flip=bool(stale), t_refresh=None, **told),
                record(item, SPAN, 0.0, flip=span, t_refresh=0.5, **told),
                record(item, LOCAL, 1.0, flip=local, t_refresh=1.0 + item**2, **told),
                record(item, ArmName("edit-local", 8), 0.0, flip=False, t_refresh=99.0, **told),
                record(item, ArmName("edit-local", 32, "transplant"), 0.0, flip=False, t_refresh=98.0, **told),
                record(item, STALE, 0.0, flip=True, distance=64, **told),
            ]
            features[rows[-2]["case_digest"]] = EditFeatures("in-block", "<=16", bool(overlap))
    features |= {row["case_digest"]: EditFeatures("beyond", "more", True) for row in rows if row["distance"]}
    return rows, features


def test_a_gate_is_weighed_over_what_the_clean_cache_answers() -> None:
    rows, features = gate_records()
    found = {(row["subject"], row["share"]): row for row in by_kind(trigger_rows(observed(rows), features, 32), "gate")}
    rates = []
    for cases in (RELEVANT, IRRELEVANT):
        right = [case for case in cases if case[0]]
        rates.append([sum(not c[1] for c in right), sum(not c[2] for c in right), sum(c[3] for c in right), len(right)])
    (stale, repaired, sent, n), (stale_0, repaired_0, sent_0, n_0) = [
        [x / each[3] for x in each[:3]] + each[3:] for each in rates
    ]
    assert len({stale, repaired, sent, stale_0, repaired_0, sent_0}) == 6 - 1  # the kinds differ in all they hold
    repair = median(1.0 + item**2 for item, case in enumerate(RELEVANT) if case[0])
    prefill = median(10.0 + i for cases in (RELEVANT, IRRELEVANT) for i, case in enumerate(cases) if case[0])
    for share in (0.1, 0.25, 0.5, 0.75, 1.0):
        rest = 1 - share
        when = share * (sent * repaired + (1 - sent) * stale) + rest * (sent_0 * repaired_0 + (1 - sent_0) * stale_0)
        wanted = {
            "repair never": (share * stale + rest * stale_0, 0.0),
            "repair always": (share * repaired + rest * repaired_0, repair),
            "repair when predicted": (when, (share * sent + rest * sent_0) * repair),
            "re-prefill always": (0.0, prefill),
        }
        for rule, (failures, seconds) in wanted.items():
            row = found.pop((rule, share))
            assert (row["failures"], row["seconds"]) == (pytest.approx(failures), pytest.approx(seconds)), (rule, share)
            assert row["n"] == n + n_0
    assert not found


@pytest.mark.parametrize("condition", ["derived", "irrelevant"])
def test_one_kind_of_edit_makes_no_gate(condition: str) -> None:
    rows, features = gate_records()
    mine = [row for row in rows if row["condition"] == condition]
    assert by_kind(trigger_rows(observed(mine), features, 32), "gate") == []


def test_base_rates_count_wrong_stale_answers_of_each_condition() -> None:
    rows, features = gate_records()
    rows += [record(0, STALE, 0.0, condition="direct", flip=False)]
    rows += [record(1, STALE, 0.0, condition="direct", flip=None, outcome="case_error")]
    found = {row["condition"]: row for row in by_kind(trigger_rows(observed(rows), features, 32), "base-rate")}
    wrong = {
        "derived": (sum(not case[1] for case in RELEVANT) / 6, 6),
        "irrelevant": (sum(not case[1] for case in IRRELEVANT) / 6, 6),
        "direct": (1.0, 1),
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
    found = by_kind(trigger_rows(observed(rows), {}, 32), "severity")
    assert [row["subject"] for row in found] == ["ridge", "random-forest"]
    assert {(row["n"], row["n_groups"]) for row in found} == {(28, 18)}
    assert found[0]["rho"] > 0.95
    assert found[0]["r2"] > 0.9
    # Neither irrelevant edits, nor other distances, nor cases that lack a reference move a figure.
    more = severity_records("irrelevant", range(40), -30.0)
    more += [row | {"distance": 64, "case_digest": row["case_digest"] + "-64"} for row in rows]
    more += severity_records("derived", range(30, 31), 3.0)[1:]
    assert by_kind(trigger_rows(observed([*rows, *more]), {}, 32), "severity") == found


def test_severity_is_foretold_from_the_texts_too() -> None:
    rows = severity_records("derived", range(15), 0.0)
    given = observed(rows)
    lengths = {digest: 1 + 7 * place % 15 for place, digest in enumerate(sorted(given.cases))}
    cases = {d: replace(case, relevance_ids=(1,) * lengths[d]) for d, case in given.cases.items()}
    told = tuple(row | {"margin_clean": row["margin_stale"] + lengths[row["case_digest"]]} for row in rows)
    found = by_kind(trigger_rows(replace(given, rows=told, cases=cases), {}, 32), "severity")
    assert found[0]["rho"] > 0.95


def test_too_few_items_foretell_nothing() -> None:
    assert by_kind(trigger_rows(observed(severity_records("derived", range(4), 1.0)), {}, 32), "severity") == []
