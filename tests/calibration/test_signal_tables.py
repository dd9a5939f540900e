"""Conflict table and halves of uncertainty by hand and against a loop."""

import math

import numpy as np
import pytest

from cachemend.calibration.signal_tables import conflict_table, uncertainty_halves


def test_conflicts_by_hand() -> None:
    found = conflict_table([1, 1, 1, 0, 0, 1], [1, 0, 1, 1, 0, 1], [1, 0, 0, 1, 1, 1])
    assert found.exposures.tolist() == [[1, 1], [1, 3]]
    assert found.accepted.tolist() == [[1, 1], [0, 2]]
    assert conflict_table([0], [1], [0]).accepted.tolist() == [[0, 0], [0, 0]]


def test_halves_against_a_loop() -> None:
    rng = np.random.default_rng(0)
    d, u, valid = rng.permutation(40) / 40, rng.random(40), rng.random(40) < 0.5
    found = uncertainty_halves(d, u, valid)
    order = np.argsort(d)
    assert len(found) == 4
    for stratum, rows in zip(found, order.reshape(4, 10), strict=True):
        by_u = rows[np.argsort(u[rows])]
        low, high = by_u[:5], by_u[5:]
        assert stratum == (
            d[rows].min(),
            d[rows].max(),
            5,
            5,
            pytest.approx((~valid[low]).mean()),
            pytest.approx((~valid[high]).mean()),
        )


def test_ties_stay_together() -> None:
    found = uncertainty_halves([0, 0, 0, 0, 0, 0, 1, 1], [1, 1, 1, 1, 1, 1, 0, 1], [1] * 7 + [0])
    assert [(s.d_low, s.d_high, s.n_low, s.n_high) for s in found] == [(0, 0, 6, 0), (1, 1, 1, 1)]
    assert math.isnan(found[0].invalid_high)
    assert (found[1].invalid_low, found[1].invalid_high) == (0, 1)


def test_refusals() -> None:
    with pytest.raises(ValueError, match="one shape"):
        conflict_table([1], [1, 0], [1])
    with pytest.raises(ValueError, match="n_strata 0"):
        uncertainty_halves([0.1], [0.1], [1], n_strata=0)
    with pytest.raises(ValueError, match="not finite"):
        uncertainty_halves([float("nan")], [0.1], [1])
