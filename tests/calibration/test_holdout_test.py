"""Corrected repeated-holdout tests against SciPy's uncorrected test and by hand."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import t as student
from scipy.stats import ttest_1samp

from cachemend.calibration.holdout_test import (
    NON_INFERIORITY,
    SUPERIORITY,
    choose_claim,
    corrected_holdout_test,
    joint_holdout_test,
    split_rates,
)


@given(st.lists(st.integers(-50, 50), min_size=2, max_size=25).filter(lambda x: len(set(x)) > 1), st.integers(-20, 20))
def test_t_is_scipys_divided_by_the_root_of_the_correction(values: list[int], null: int) -> None:
    """Var/J becomes Var*(1/J + 1/4): a factor of 1 + J/4."""
    n = len(values)
    found = corrected_holdout_test(values, n_train=400, n_test=100, null=null)
    plain = ttest_1samp(values, null)
    t = plain.statistic / math.sqrt(1 + n / 4)
    assert found.t == pytest.approx(t)
    assert found.df == n - 1
    assert found.p == pytest.approx(student.sf(t, n - 1))
    less = corrected_holdout_test(values, n_train=400, n_test=100, null=null, alternative="less")
    assert less.p == pytest.approx(1 - found.p)


def test_by_hand() -> None:
    """Mean 2, s^2 = 1, J = 3: t = 2 / sqrt(1/3 + 1/4); over 20 splits df is 19."""
    found = corrected_holdout_test([1.0, 2.0, 3.0], n_train=[79, 80, 81], n_test=20)
    assert found.standard_error == pytest.approx(math.sqrt(7 / 12))
    assert found.t == pytest.approx(2 / math.sqrt(7 / 12))
    assert corrected_holdout_test(np.arange(20.0), n_train=4, n_test=1).df == 19


@pytest.mark.parametrize("constant", [0.0, 0.3, -0.3])
def test_no_spread_is_said_and_claims_nothing(constant: float) -> None:
    found = corrected_holdout_test(np.full(20, constant) + 1e-17, n_train=450, n_test=112)
    assert found.no_spread
    assert found.p == 1
    assert math.isnan(found.t)
    assert found.mean == pytest.approx(constant)


def test_false_alarms_of_overlapping_splits_are_rarer_than_without_the_correction() -> None:
    """Two methods of equal rate on 100 clusters; 20 random test subsets of 20. The plain t alarms far too often."""
    rng = np.random.default_rng(1)
    corrected, plain = [], []
    for _ in range(200):
        difference = rng.normal(size=100)
        means = [difference[rng.permutation(100)[:20]].mean() for _ in range(20)]
        corrected.append(corrected_holdout_test(means, n_train=80, n_test=20).p)
        plain.append(ttest_1samp(means, 0, alternative="greater").pvalue)
    assert np.mean(np.array(plain) < 0.05) > 0.2
    assert np.mean(np.array(corrected) < 0.05) < 0.12


def test_the_joint_p_is_the_larger_and_the_claim_moves_the_null() -> None:
    rng = np.random.default_rng(0)
    vchr, fh = rng.normal(-0.002, 0.002, 20), rng.normal(-0.05, 0.01, 20)
    sizes = {"n_train": 450, "n_test": 112}
    non_inferior = joint_holdout_test(vchr, fh, claim=NON_INFERIORITY, **sizes)
    superior = joint_holdout_test(vchr, fh, claim=SUPERIORITY, **sizes)
    assert non_inferior.vchr == corrected_holdout_test(vchr, null=-0.01, **sizes)
    assert (
        non_inferior.fh
        == superior.fh
        == corrected_holdout_test(-fh, **sizes)._replace(
            mean=pytest.approx(fh.mean()), t=pytest.approx(non_inferior.fh.t)
        )
    )
    assert non_inferior.p == max(non_inferior.vchr.p, non_inferior.fh.p) < 0.05
    assert superior.p == superior.vchr.p > 0.5


def test_the_claim_comes_from_calibration() -> None:
    assert choose_claim([0.01, 0.03, -0.01]) == SUPERIORITY
    assert choose_claim([0.01, -0.01]) == choose_claim([-0.1]) == NON_INFERIORITY


def test_rates_of_splits() -> None:
    rates = split_rates([3, 0, 0], [1, 0, 2], [10, 5, 4])
    assert rates.vchr == pytest.approx([0.3, 0, 0])
    assert rates.fh == pytest.approx([0.25, 0, 1])
    assert rates.n_without_hits == 1


@pytest.mark.parametrize("counts", [([1], [1, 0], [5, 5]), ([3], [3], [5]), ([0], [0], [0]), ([-1], [1], [5])])
def test_rates_refuse(counts: tuple[list[int], list[int], list[int]]) -> None:
    with pytest.raises(ValueError):
        split_rates(*counts)


def test_refusals() -> None:
    with pytest.raises(ValueError, match="at least two"):
        corrected_holdout_test([0.1], n_train=4, n_test=1)
    with pytest.raises(ValueError, match="no ratio"):
        corrected_holdout_test([0.1, 0.2], n_train=4, n_test=0)
    with pytest.raises(ValueError, match="'greater' nor 'less'"):
        corrected_holdout_test([0.1, 0.2], n_train=4, n_test=1, alternative="two-sided")
    with pytest.raises(ValueError, match="claim 'better'"):
        joint_holdout_test([0.1, 0.2], [0.1, 0.2], n_train=4, n_test=1, claim="better")
    with pytest.raises(ValueError, match="shapes"):
        joint_holdout_test([0.1, 0.2], [0.1], n_train=4, n_test=1, claim=SUPERIORITY)
