"""`cachemend simulate`: the table, its limits and what it says about a shortfall."""

import pytest
from scipy.stats import binom

from cachemend.calibration.certified.simulation import BOTH_KINDS, RISK_CONTROL, SimulationRow
from cachemend.flows.simulate import keeps


def test_the_command_prints_every_row_and_explains_what_falls_short(command) -> None:  # type: ignore[no-untyped-def]
    ended = command("simulate", "--clusters", "120", "--replicates", "200", "--seed", "3")
    assert ended.code == 0
    assert "200 data sets of 120 clusters each" in ended.out
    assert ended.out.count("learn-then-test, direct and verified hits") >= 6
    assert ended.out.count(RISK_CONTROL) >= 3
    # Of 120 clusters some 87 have a verified hit, and 119 error-free ones are needed at 2.5 %.
    assert "87 clusters with a verified hit are too few even without an error" in ended.out
    assert "short of 80%" in ended.out


def test_the_command_refuses_what_is_no_number_of_data_sets(command) -> None:  # type: ignore[no-untyped-def]
    ended = command("simulate", "--replicates", "1")
    assert ended.code == 2
    assert "--replicates" in ended.err


@pytest.mark.parametrize(
    ("risk", "certified", "mean", "kept"),
    [
        (0.0501, 0.059, None, True),
        (0.0501, 0.061, None, False),
        (0.0125, 0.99, None, True),
        (None, 1.0, 0.0504, True),
        (None, 1.0, 0.0601, False),
    ],
)
def test_limits(risk: float | None, certified: float, mean: float | None, kept: bool) -> None:
    delta = None if risk is None else 0.05
    row = SimulationRow(BOTH_KINDS, 0.05, delta, risk, 400, 2000, certified, 0.005, mean)
    assert keeps(row) is kept


def test_the_arithmetic_of_the_shortfall_at_the_default_size() -> None:
    """By hand: of 290 hits at most 2 wrong ones have p <= 5 % at a risk of 2.5 %, and 3 have not."""
    assert binom.cdf(2, 290, 0.025) <= 0.05 < binom.cdf(3, 290, 0.025)
    assert binom.cdf(2, 290, 0.00625) == pytest.approx(0.73, abs=0.005)
