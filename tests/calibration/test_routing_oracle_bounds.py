"""Bounds of a rate and the corrected t against the oracles, which work in fractions and finite series."""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cachemend.calibration import bounds, holdout_test
from cachemend.calibration.holdout_test import (
    NON_INFERIORITY,
    SUPERIORITY,
    corrected_holdout_test,
    joint_holdout_test,
)

from oracles import routing_bounds as oracle
from support.oracle_cases import QUICK, notices

COUNTS = st.integers(0, 60).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))
LEVELS = st.sampled_from([0.5, 0.8, 0.9, 0.95, 0.99])
DIFFERENCE = st.integers(-60, 90).map(lambda step: step / 1000)
SPLITS = st.lists(st.tuples(DIFFERENCE, DIFFERENCE), min_size=2, max_size=20)
RATIO = st.tuples(st.integers(1, 200), st.integers(1, 200))
MARGINS = st.sampled_from([0.0, 0.01, 0.02])


def compare_bounds(counts: tuple[int, int], level: float) -> None:
    k, n = counts
    assert bounds.wilson_upper(k, n, level) == pytest.approx(oracle.wilson_upper(k, n, level), abs=1e-9)
    assert bounds.exact_upper(k, n, level) == pytest.approx(oracle.exact_upper(k, n, level), abs=1e-9)


def compare_t(splits: list[tuple[float, float]], clusters: tuple[int, int], margin: float) -> None:
    train, test = clusters
    vchr, fh = zip(*splits, strict=True)
    claim = NON_INFERIORITY if margin else SUPERIORITY
    found = joint_holdout_test(vchr, fh, n_train=train, n_test=test, claim=claim, margin=margin)
    wanted = []
    for half, differences, allowed in ((found.vchr, vchr, margin), (found.fh, [-x for x in fh], 0.0)):
        t, p = oracle.corrected_t(differences, Fraction(test, train), allowed)
        sign = 1 if half is found.vchr else -1
        assert half.df == len(splits) - 1
        assert half.mean == pytest.approx(sign * math.fsum(differences) / len(splits), abs=1e-12)
        if max(differences) == min(differences):
            # Without spread the formula gives an infinite t and p = 0; ours claims nothing from it, and says so.
            assert (half.no_spread, half.p) == (True, 1)
            wanted.append(1.0)
        else:
            assert (sign * half.t, half.p) == pytest.approx((t, p), rel=1e-9, abs=1e-9)
            wanted.append(p)
    assert found.p == pytest.approx(max(wanted), rel=1e-9, abs=1e-9)


@QUICK
@given(COUNTS, LEVELS)
def test_bounds(counts: tuple[int, int], level: float) -> None:
    compare_bounds(counts, level)


@QUICK
@given(SPLITS, RATIO, MARGINS)
def test_corrected_t(splits: list[tuple[float, float]], clusters: tuple[int, int], margin: float) -> None:
    compare_t(splits, clusters, margin)


class Without:
    """A distribution with fewer degrees of freedom."""

    @staticmethod
    def sf(t: float, df: int) -> float:
        return float(STUDENT.sf(t, max(df - 1, 1)))


INTERVAL, BETA, STUDENT, TESTED = (
    bounds.proportion_confint,
    bounds.beta,
    holdout_test.student,
    corrected_holdout_test,
)
BOUND_FAULTS: list[tuple[Any, str, Any]] = [
    (bounds, "proportion_confint", lambda k, n, alpha, method: INTERVAL(k, n, alpha=alpha / 2, method=method)),
    (bounds, "proportion_confint", lambda k, n, alpha, method: INTERVAL(k, n, alpha=alpha, method="normal")),
    (bounds, "proportion_confint", lambda k, n, alpha, method: INTERVAL(k + 1, n + 2, alpha=alpha, method=method)),
    (bounds.beta, "ppf", lambda level, a, b: type(BETA).ppf(BETA, level, a - 0.5, b + 0.5)),
    (bounds.beta, "ppf", lambda level, a, b: type(BETA).ppf(BETA, (1 + level) / 2, a, b)),
]
T_FAULTS: list[tuple[Any, str, Any]] = [
    (holdout_test, "student", Without),
    (
        holdout_test,
        "corrected_holdout_test",
        lambda x, n_train, n_test, **more: TESTED(x, n_train=n_train, n_test=1e-12, **more),
    ),
    (
        holdout_test,
        "corrected_holdout_test",
        lambda x, n_train, n_test, **more: TESTED(x, n_train=n_test, n_test=n_train, **more),
    ),
    (holdout_test, "corrected_holdout_test", lambda x, null=0.0, **more: TESTED(x, null=-null, **more)),
    (holdout_test, "corrected_holdout_test", lambda x, **more: TESTED(x, **more | {"alternative": "greater"})),
    (holdout_test, "max", min),
]


@pytest.mark.parametrize("fault", BOUND_FAULTS)
def test_a_fault_in_the_bounds_is_noticed(fault: tuple[Any, str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*fault)
    assert notices(compare_bounds, COUNTS, LEVELS)


@pytest.mark.parametrize("fault", T_FAULTS)
def test_a_fault_in_the_t_is_noticed(fault: tuple[Any, str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*fault, raising=False)
    assert notices(compare_t, SPLITS, RATIO, MARGINS)


def test_bounds_of_arrays_are_those_of_each() -> None:
    k, n = np.array([0, 1, 5, 9]), np.array([0, 7, 5, 4968])
    for ours, theirs in ((bounds.wilson_upper, oracle.wilson_upper), (bounds.exact_upper, oracle.exact_upper)):
        assert ours(k, n) == pytest.approx([theirs(*counts) for counts in zip(k.tolist(), n.tolist(), strict=True)])
