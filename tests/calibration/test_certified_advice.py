"""What a number of clusters can certify."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cachemend.calibration.bounds import exact_upper
from cachemend.calibration.certified import advise
from cachemend.calibration.certified.advice import error_free_hits


def test_the_numbers_needed() -> None:
    assert [error_free_hits(alpha, 0.05) for alpha in (0.025, 0.05, 0.10)] == [119, 59, 29]
    assert error_free_hits(0, 0.05) is None


@given(st.floats(0.001, 0.9), st.floats(0.001, 0.5))
def test_the_exact_bound_agrees(alpha: float, delta: float) -> None:
    n = error_free_hits(alpha, delta)
    assert n is not None
    assert (1 - alpha) ** n <= delta
    assert n == 1 or (1 - alpha) ** (n - 1) > delta
    assert exact_upper(0, n, max(1 - delta, 0.5)) <= alpha * (1 + 1e-9)


def test_powers_that_meet_delta_exactly() -> None:
    assert error_free_hits(0.5, 0.125) == 3
    assert error_free_hits(0.5, 0.5) == 1


@pytest.mark.parametrize(
    ("n", "possible"),
    [(0, ()), (28, ()), (29, (0.10,)), (59, (0.05, 0.10)), (118, (0.05, 0.10)), (119, (0.025, 0.05, 0.10))],
)
def test_advice(n: int, possible: tuple[float, ...]) -> None:
    assert advise(n).possible == possible


def test_sentences() -> None:
    assert advise(112).sentence == (
        "112 calibration clusters can certify a risk of 5 % or 10 % at best, with confidence 95 % "
        "(2.5 % needs 119 hits without an error; 5 % needs 59 hits without an error; 10 % needs 29 hits without an "
        "error)."
    )
    nothing = advise(10_000, alphas=(0,))
    assert nothing.possible == ()
    assert nothing.sentence.startswith("10000 calibration clusters cannot certify any risk asked for")
    assert "0 % can never be certified" in nothing.sentence


def test_starts_divide_delta() -> None:
    assert advise(60, n_starts=2).possible == (0.10,)
    assert advise(72, n_starts=2).possible == (0.05, 0.10)


def test_refusals() -> None:
    with pytest.raises(ValueError, match="-1 clusters"):
        advise(-1)
    with pytest.raises(ValueError, match="0 starts"):
        advise(5, n_starts=0)
    with pytest.raises(ValueError, match="delta 2"):
        advise(5, delta=2)
