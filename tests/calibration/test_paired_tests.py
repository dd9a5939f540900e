"""McNemar's exact test and Holm's correction."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.stats.contingency_tables import mcnemar

from cachemend.calibration import holm, mcnemar_exact

from oracles import stats as oracle

PAIRS = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1)), min_size=1, max_size=60)


@given(PAIRS)
def test_mcnemar_against_two_other_implementations(pairs: list[tuple[int, int]]) -> None:
    a, b = zip(*pairs, strict=True)
    result = mcnemar_exact(a, b)
    table = [[sum((x, y) == (i, j) for x, y in pairs) for j in (0, 1)] for i in (0, 1)]
    assert result.n == len(pairs)
    assert (result.repaired, result.regressed) == (table[1][0], table[0][1])
    assert sum(a) - sum(b) == result.repaired - result.regressed
    assert result.p == pytest.approx(oracle.mcnemar_exact_p(result.repaired, result.regressed))
    assert result.p == pytest.approx(float(mcnemar(table, exact=True).pvalue))


def test_the_papers_transitions_add_up() -> None:
    """Section 8.3: 2.50 % of 1,200 repaired and 0.75 % regressed make +1.75 points; 3.50 and 1.25 make +2.25."""
    for repaired, regressed, points in ((30, 9, 1.75), (42, 15, 2.25)):
        a = np.r_[np.ones(repaired), np.zeros(regressed), np.ones(1200 - repaired - regressed)]
        b = np.r_[np.zeros(repaired), np.ones(regressed), np.ones(1200 - repaired - regressed)]
        result = mcnemar_exact(a, b)
        assert (result.repaired, result.regressed, result.n) == (repaired, regressed, 1200)
        assert 100 * (a.mean() - b.mean()) == pytest.approx(points)


def test_mcnemar_by_hand() -> None:
    assert mcnemar_exact([1] * 5, [0] * 5) == (5, 5, 0, pytest.approx(2 / 32))
    assert mcnemar_exact([1, 1, 0], [1, 1, 0]) == (3, 0, 0, 1.0)
    assert mcnemar_exact([True, False], [False, True]) == (2, 1, 1, 1.0)


@pytest.mark.parametrize(
    ("a", "b", "message"),
    [
        ([1], [1, 0], "equal, non-zero lengths"),
        ([], [], "equal, non-zero lengths"),
        ([0.5], [1], "must be 0 or 1"),
        ([1.0, float("nan")], [1, 0], "must be 0 or 1"),
    ],
)
def test_mcnemar_refuses_what_is_not_paired_outcomes(a: list[float], b: list[float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        mcnemar_exact(a, b)


@settings(max_examples=10, deadline=None)  # the library collects garbage on every call
@given(st.lists(st.floats(0, 1), max_size=20))
def test_holm_against_its_definition(ps: list[float]) -> None:
    assert holm(ps) == pytest.approx(oracle.holm(ps))


def test_holm_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([]).size == 0


@pytest.mark.parametrize("ps", [[-0.1], [1.1], [float("nan")]])
def test_holm_refuses_what_is_no_p_value(ps: list[float]) -> None:
    with pytest.raises(ValueError, match="outside 0 to 1"):
        holm(ps)


def test_holm_refuses_a_matrix() -> None:
    with pytest.raises(ValueError, match="one dimension"):
        holm([[0.1]])
