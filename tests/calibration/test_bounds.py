"""One-sided bounds against the routing paper's table 7, their defining equations and each other."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.stats import binom, norm

from cachemend.calibration.bounds import exact_upper, wilson_upper

COUNTS = st.integers(1, 3000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))
CONFIDENCES = st.sampled_from([0.5, 0.9, 0.95, 0.99])


@pytest.mark.parametrize(("k", "n", "percent"), [(9, 4968, 0.3111), (21, 5478, 0.5473), (24, 5579, 0.6003)])
def test_wilson_gives_the_papers_bounds(k: int, n: int, percent: float) -> None:
    assert 100 * wilson_upper(k, n) == pytest.approx(percent, abs=5e-5)


@pytest.mark.parametrize(("n", "rate"), [(119, 0.025), (59, 0.05), (29, 0.10)])
def test_trials_without_an_error_that_a_rate_needs(n: int, rate: float) -> None:
    assert exact_upper(0, n) <= rate < exact_upper(0, n - 1)


@given(COUNTS, CONFIDENCES)
def test_wilson_solves_the_score_equation(counts: tuple[int, int], confidence: float) -> None:
    k, n = counts
    z = norm.ppf(confidence)
    upper = wilson_upper(k, n, confidence)
    assert k / n <= upper <= 1
    if k == n or z == 0:
        assert upper == pytest.approx(k / n)
    else:
        root = brentq(lambda p: (p - k / n) - z * np.sqrt(p * (1 - p) / n), k / n + 1e-15, 1, xtol=1e-15)
        assert upper == pytest.approx(root, abs=1e-9)


@given(COUNTS, CONFIDENCES)
def test_exact_bound_is_the_rate_at_which_so_few_errors_become_unlikely(
    counts: tuple[int, int], confidence: float
) -> None:
    k, n = counts
    upper = exact_upper(k, n, confidence)
    if k == n:
        assert upper == 1
    else:
        assert binom.cdf(k, n, upper) == pytest.approx(1 - confidence, abs=1e-7)


def test_arrays_are_broadcast_and_no_trials_say_nothing() -> None:
    k, n = np.array([[0], [3]]), np.array([0, 10, 500])
    for bound in (wilson_upper, exact_upper):
        with pytest.raises(ValueError, match="3 errors of 0"):
            bound(k, n)
        found = bound(np.array([[0], [0]]), n)
        assert found.shape == (2, 3)
        assert found[0, 0] == 1
        assert found[1, 2] == bound(0, 500) < found[1, 1] < 1
        assert isinstance(bound(0, 0), float)


@pytest.mark.parametrize(
    ("k", "n", "confidence"), [(-1, 5, 0.95), (6, 5, 0.95), (0.5, 5, 0.95), (1, 5, 0.4), (1, 5, 1.0)]
)
def test_refusals(k: float, n: int, confidence: float) -> None:
    for bound in (wilson_upper, exact_upper):
        with pytest.raises(ValueError):
            bound(k, n, confidence)  # type: ignore[call-overload]
