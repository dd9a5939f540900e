"""Certified selection against the oracles: two kinds of hits, cluster e-values, fixed sequence, risk control."""

import math
from fractions import Fraction
from hashlib import sha256
from random import Random
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from cachemend.calibration.certified import (
    certification,
    certify_by_binomial_tests,
    certify_by_e_values,
    control_risk,
    e_values,
    learn_then_test,
    risk_control,
)
from cachemend.calibration.certified.sampling import pairs_per_cluster
from cachemend.calibration.intervals import SEED

from oracles import routing_bounds as oracle
from support.oracle_cases import QUICK, notices

MOST = 4


class Case(NamedTuple):
    """Hits of a few policies on clustered pairs, and levels; `regions`: which kinds of hit each policy has."""

    accepted: np.ndarray
    verified: np.ndarray
    regions: np.ndarray
    valid: np.ndarray
    clusters: np.ndarray
    ids: np.ndarray
    alpha: float
    delta: float
    starts: tuple[int, ...]
    bets: list[float]


def case_of(seed: int) -> Case:
    """Draw a case: loose levels, so that some policies are certified on a few dozen pairs."""
    random, rng = Random(seed), np.random.default_rng(seed)
    policies, pairs = random.randint(1, 5), random.randint(1, 40)
    regions = np.array([random.choice([(1, 1), (1, 0), (0, 1)]) for _ in range(policies)], dtype=bool)
    direct = regions[:, :1] & (rng.random((policies, pairs)) < 0.4)
    verified = regions[:, 1:] & ~direct & (rng.random((policies, pairs)) < 0.6)
    return Case(
        accepted=direct | (verified & (rng.random((policies, pairs)) < 0.8)),
        verified=verified,
        regions=regions,
        valid=rng.random(pairs) < random.choice([0.7, 0.95, 1]),
        clusters=rng.integers(0, max(1, pairs // random.choice([1, 2, 8])), pairs),
        ids=rng.permutation(pairs),
        alpha=random.choice([0.0, 0.1, 0.2, 0.5]),
        delta=random.choice([0.05, 0.3, 0.6]),
        starts=tuple(random.sample(range(policies), random.randint(1, min(policies, 2)))),
        bets=[random.choice([0.0, 0.25, 0.5, 0.75]) for _ in range(policies)],
    )


CASES = st.integers(0, 10**6).map(case_of)


def compare_tests(case: Case) -> None:
    found = certify_by_binomial_tests(
        case.accepted,
        case.verified,
        case.valid,
        case.clusters,
        case.ids,
        alpha=case.alpha,
        delta=case.delta,
        regions=case.regions,
        starts=case.starts,
    )
    assert found.n_clusters == len(set(case.clusters.tolist()))
    wanted = []
    for hit, called, on in zip(case.accepted, case.verified, case.regions, strict=True):
        drawn = [first_hits(hit & kind, case) for kind, there in zip((~called, called), on, strict=True) if there]
        arms = [(sum(not case.valid[row] for row in rows), len(rows)) for rows in drawn]
        wanted.append(oracle.two_arm_p(arms, case.alpha))
    assert found.p == pytest.approx([float(p) for p in wanted], rel=1e-9)
    compare_conclusion(found, oracle.fixed_sequence(wanted, case.delta, case.starts), case)


def first_hits(hit: np.ndarray, case: Case) -> list[int]:
    """Return the hit of each cluster that comes first when pairs are hashed; clusters without a hit have none."""
    found: dict[int, int] = {}
    for row in np.flatnonzero(hit).tolist():
        rank = sha256(f"{SEED}\x1f{case.clusters[row]}\x1f{case.ids[row]}".encode()).hexdigest()
        name = int(case.clusters[row])
        if name not in found or rank < sha256(f"{SEED}\x1f{name}\x1f{case.ids[found[name]]}".encode()).hexdigest():
            found[name] = row
    return list(found.values())


def compare_e_values(case: Case) -> None:
    found = certify_by_e_values(
        case.accepted,
        case.valid,
        case.clusters,
        case.ids,
        alpha=case.alpha,
        bets=case.bets,
        delta=case.delta,
        starts=case.starts,
    )
    rows = pairs_per_cluster(case.clusters, case.ids, MOST)
    e = [
        oracle.e_value(per_cluster(hit, case, rows), case.alpha, bet, MOST)
        for hit, bet in zip(case.accepted, case.bets, strict=True)
    ]
    assert found.p == pytest.approx([min(1.0, float(1 / value)) for value in e], rel=1e-9)
    rejected = oracle.fixed_sequence([1 / value for value in e], case.delta, case.starts)
    passed = [oracle.e_rejects(value, case.delta, len(case.starts)) for value in e]
    assert all(passed[at] for at in rejected)
    compare_conclusion(found, rejected, case)


def per_cluster(hit: np.ndarray, case: Case, rows: NDArray[np.intp]) -> list[tuple[int, int]]:
    """Return hits and invalid hits of every cluster."""
    counts = {name: [0, 0] for name in case.clusters.tolist()}
    for row in rows:
        counts[int(case.clusters[row])][0] += int(hit[row])
        counts[int(case.clusters[row])][1] += int(hit[row] and not case.valid[row])
    return [(hits, invalid) for hits, invalid in counts.values()]


def compare_conclusion(found: certification.Certification, rejected: list[int], case: Case) -> None:
    assert list(found.certified) == rejected
    if not rejected:
        assert found.chosen is None
        assert found.reason
        return
    right, wrong = (
        {at: int((case.accepted[at] & flag).sum()) for at in rejected} for flag in (case.valid, ~case.valid)
    )
    assert found.chosen == max(rejected, key=lambda at: (right[at], -wrong[at], -at))


def compare_risk_control(case: Case) -> None:
    """The family returns more and more; a cluster loses the share of its pairs that is returned though invalid."""
    nested = np.logical_or.accumulate(case.accepted, axis=0)
    found = control_risk(nested, case.valid, case.clusters, alpha=case.alpha)
    sizes = {name: int((case.clusters == name).sum()) for name in case.clusters.tolist()}
    losses = [
        [
            Fraction(int((hit & ~case.valid & (case.clusters == name)).sum()), size)
            for name, size in sorted(sizes.items())
        ]
        for hit in nested
    ]
    assert found.chosen == oracle.risk_control(losses, case.alpha)
    assert found.bound == pytest.approx([float((sum(row) + 1) / (len(row) + 1)) for row in losses], rel=1e-12)


@settings(QUICK, max_examples=60)
@given(CASES)
def test_binomial_tests_of_two_kinds_of_hits(case: Case) -> None:
    compare_tests(case)


@settings(QUICK, max_examples=60)
@given(CASES)
def test_cluster_e_values(case: Case) -> None:
    compare_e_values(case)


@settings(QUICK, max_examples=60)
@given(CASES)
def test_risk_control(case: Case) -> None:
    compare_risk_control(case)


@QUICK
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=12), st.integers(0, 99))
def test_log_e_of_many_bets(clusters: list[tuple[int, int]], share: int) -> None:
    hits, invalid = np.array([[a + b for a, b in clusters]]), np.array([[b for _, b in clusters]])
    table = e_values.hit_table(hits, invalid, 6)
    bet = Fraction(share, 100) / Fraction(9, 10)
    wanted = oracle.e_value([(a + b, b) for a, b in clusters], 0.1, bet, 6)
    found = e_values.log_e_values(table, np.array([[float(bet)]]), 0.1)
    assert found[0, 0] == pytest.approx(math.log(wanted), abs=1e-9)


SEQUENCE, P, LOG_E, TABLE, BOUND, FIRST = (
    certification.fixed_sequence,
    learn_then_test.binomial_p,
    e_values.log_e_values,
    e_values.hit_table,
    risk_control.risk_bound,
    learn_then_test.first_of_clusters,
)
TEST_FAULTS: list[tuple[Any, str, Any]] = [
    (learn_then_test, "binomial_p", lambda invalid, hits, alpha: P(invalid - 1, hits, alpha)),
    (learn_then_test, "binomial_p", lambda invalid, hits, alpha: 1 - P(invalid, hits, alpha)),
    (learn_then_test, "_regions", lambda regions, kinds: np.ones(kinds.shape[:2], dtype=bool)),
    (learn_then_test, "first_of_clusters", lambda flags, clusters, order: FIRST(flags, clusters, order[::-1])),
    (learn_then_test, "first_of_clusters", lambda flags, clusters, order: FIRST(flags, clusters // 2, order)),
    (learn_then_test, "first_of_clusters", lambda flags, *rest: FIRST(np.ones_like(flags), *rest)),
    (certification, "fixed_sequence", lambda p, delta, starts: SEQUENCE(p, delta * len(starts), starts)),
    (certification, "fixed_sequence", lambda p, delta, starts: SEQUENCE(p, delta, (0,))),
    (certification, "fixed_sequence", lambda p, delta, starts: np.asarray(p) <= delta / len(starts)),
]
E_FAULTS: list[tuple[Any, str, Any]] = [
    (e_values, "log_e_values", lambda table, bets, alpha: LOG_E(table, bets, alpha * 0.9)),
    (e_values, "log_e_values", lambda table, bets, alpha: LOG_E(table, bets / 2, alpha)),
    (e_values, "log_e_values", lambda table, bets, alpha: -LOG_E(table, bets, alpha)),
    (e_values, "pairs_per_cluster", lambda names, ids, most, seed: pairs_per_cluster(names, ids, most - 1, seed)),
    (e_values, "hit_table", lambda hits, invalid, most: TABLE(hits, np.minimum(invalid, 1), most)),
]
RISK_FAULTS: list[tuple[Any, str, Any]] = [
    (risk_control, "risk_bound", lambda loss, n: loss),
    (risk_control, "risk_bound", lambda loss, n: BOUND(loss, n + 1)),
    (risk_control, "last_controlled", lambda bound, alpha: (bound < alpha).argmin(axis=-1) - 1),
]


@pytest.mark.parametrize("fault", TEST_FAULTS)
def test_a_fault_in_the_tests_is_noticed(fault: tuple[Any, str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*fault)
    assert notices(compare_tests, CASES)


@pytest.mark.parametrize("fault", E_FAULTS)
def test_a_fault_in_the_e_values_is_noticed(fault: tuple[Any, str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*fault)
    assert notices(compare_e_values, CASES)


@pytest.mark.parametrize("fault", RISK_FAULTS)
def test_a_fault_in_the_risk_control_is_noticed(fault: tuple[Any, str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*fault)
    assert notices(compare_risk_control, CASES)
