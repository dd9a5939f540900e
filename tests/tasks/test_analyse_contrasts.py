"""Families of tests between policies, on records made by hand; differences, ranks and Holm computed anew."""

from collections.abc import Mapping, Sequence
from itertools import combinations
from random import Random
from typing import Any

import pytest
from scipy.stats import wilcoxon

from cachemend.tasks.analyse_contrasts import contrast_rows

from oracles.edit_metrics import win_tie_loss
from oracles.stats import holm
from support.edit_observed import CLEAN, SPAN, Row, observed, record
from support.edit_rows import ArmName

RIVALS = ("structural", "attention", "cacheblend", "random")
SIX = ("edit-local", *RIVALS, "causal-oracle")
OURS = ("edit-local-boundary", "sur", "edit-local-sur", "edit-to-carrier", "two-stage")
OWN = ("edit-local-boundary", "edit-to-carrier", "carrier-window", "span-to-carrier")
ITEMS = range(9)


def values_of(policies: Sequence[str], items: Sequence[int] = ITEMS) -> dict[str, dict[int, float]]:
    """A recovery for every policy and item that no other has."""
    return {name: {i: Random(f"{name} {i}").random() + len(name) / 50 for i in items} for name in policies}


def records(values: Mapping[str, Mapping[int, float]], k: int = 32, **changes: Any) -> list[Row]:
    """Their records; rules with their own length have no K."""
    return [
        record(item, ArmName(name, None if name in OWN else k), value, **changes)
        for name, found in values.items()
        for item, value in found.items()
    ]


def contrasts(rows: list[Row], k: int = 32) -> dict[frozenset[str], Row]:
    """Rows of one cell by their pair."""
    found = contrast_rows(observed(rows), k)
    by_pair = {frozenset((row["policy_a"], row["policy_b"])): row for row in found}
    assert len(by_pair) == len(found)
    return by_pair


def check_family(
    found: Mapping[frozenset[str], Row], pairs: Sequence[tuple[str, str]], values: Mapping[str, Mapping[int, float]]
) -> None:
    """Every pair of a family, and nothing of another one in its correction."""
    common = set.intersection(*(set(values[name]) for pair in pairs for name in pair))
    ps = []
    for a, b in pairs:
        row = found[frozenset((a, b))]
        sign = 1 if row["policy_a"] == a else -1
        ours, theirs = [values[a][i] for i in sorted(common)], [values[b][i] for i in sorted(common)]
        differences = [x - y for x, y in zip(ours, theirs, strict=True)]
        assert row["n"] == len(common)
        assert sign * row["difference"] == pytest.approx(sum(differences) / len(differences))
        ps.append(float(wilcoxon(differences, zero_method="pratt").pvalue))
        assert row["p"] == pytest.approx(ps[-1])
        for band, width in (("05", 0.05), ("01", 0.01), ("10", 0.1)):
            tally = win_tie_loss(ours, theirs, width)
            told = (row[f"wins_{band}"], row[f"ties_{band}"], row[f"losses_{band}"])
            assert told == (tally.wins, tally.ties, tally.losses)[::sign]
        assert row["family_size"] == len(pairs)
    for (a, b), adjusted in zip(pairs, holm(ps), strict=True):
        assert found[frozenset((a, b))]["p_holm"] == pytest.approx(adjusted)


@pytest.mark.parametrize("condition", ["direct", "derived"])
def test_six_policies_are_one_family_of_15_and_our_rules_another(condition: str) -> None:
    values = values_of((*SIX, *OURS, "carrier-window"))
    found = contrasts(records(values, condition=condition))
    assert len(found) == 15 + 5
    check_family(found, list(combinations(SIX, 2)), values)
    check_family(found, [(name, "edit-local") for name in OURS], values)


def test_four_rivals_are_the_family_of_a_distance() -> None:
    values = values_of((*SIX, *OURS))
    found = contrasts(records(values, distance=64))
    assert len(found) == 4 + 5
    check_family(found, [("edit-local", name) for name in RIVALS], values)
    check_family(found, [(name, "edit-local") for name in OURS], values)


def test_nothing_but_retained_recomputed_answers_at_the_k_is_compared() -> None:
    values = values_of(("edit-local", "attention", "edit-local-boundary"))
    rows = records(values)
    rows += [record(i, ArmName(name, 8), 40.0) for name in ("edit-local", "attention") for i in ITEMS]
    rows += [record(i, ArmName(name, 32, "transplant"), 50.0) for name in ("edit-local", "attention") for i in ITEMS]
    rows += [record(20, ArmName(name, 32), 60.0, retained=False) for name in ("edit-local", "attention")]
    rows += [record(21, ArmName(name, 32), 70.0, outcome="case_error") for name in ("edit-local", "attention")]
    rows += [record(i, arm, 1.0) for i in ITEMS for arm in (SPAN, CLEAN)]
    rows += [record(i, ArmName("attention", 32), 0.5, condition="irrelevant") for i in ITEMS]
    found = contrasts(rows)
    assert len(found) == 2
    check_family(found, [("edit-local", "attention")], values)
    check_family(found, [("edit-local-boundary", "edit-local")], values)


def test_a_rule_with_its_own_length_meets_edit_local_at_the_k_asked_for() -> None:
    at_8, at_32 = values_of(("edit-local", "edit-to-carrier")), {"edit-local": dict.fromkeys(ITEMS, 0.25)}
    rows = records(at_8, k=8) + records(at_32)
    pair = [("edit-to-carrier", "edit-local")]
    check_family(contrasts(rows, k=8), pair, at_8)
    check_family(contrasts(rows, k=32), pair, at_8 | at_32)
    assert contrasts(rows, k=64) == {}


@pytest.mark.parametrize(
    ("exhaustive", "screened", "taken"),
    [
        (ITEMS, ITEMS, "causal-oracle"),
        (ITEMS, (), "causal-oracle"),
        ((), ITEMS, "causal-oracle-screened"),
        (range(8), ITEMS, "causal-oracle-screened"),
        (range(8), (), "causal-oracle"),
        (range(8), range(30, 32), "causal-oracle"),
        (range(40), range(8), "causal-oracle"),
    ],
)
def test_one_oracle_takes_part(exhaustive: Sequence[int], screened: Sequence[int], taken: str) -> None:
    values = values_of(SIX[:5])
    values |= values_of(["causal-oracle"], exhaustive) if exhaustive else {}
    values |= values_of(["causal-oracle-screened"], screened) if screened else {}
    found = contrasts(records(values))
    assert len(found) == 15
    check_family(found, list(combinations((*SIX[:5], taken), 2)), values)


def test_an_oracle_that_lacks_an_item_only_the_policies_do_not_share_is_whole() -> None:
    values = values_of((*SIX, "causal-oracle-screened"))
    del values["random"][3], values["causal-oracle"][3]
    check_family(contrasts(records(values)), list(combinations(SIX, 2)), values)


def test_without_edit_local_the_others_are_compared_where_the_answer_is_adjacent() -> None:
    values = values_of((*RIVALS, "causal-oracle-screened", *OURS))
    found = contrasts(records(values))
    assert len(found) == 10
    check_family(found, list(combinations((*RIVALS, "causal-oracle-screened"), 2)), values)
    assert contrasts(records(values, distance=64)) == {}


def test_edit_local_alone_meets_nobody() -> None:
    assert contrasts(records(values_of(["edit-local"]))) == {}
