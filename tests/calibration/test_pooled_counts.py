"""Pooled hits against the routing paper's figures and by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cachemend.calibration.bounds import exact_upper
from cachemend.calibration.errors import CalibrationError
from cachemend.calibration.pooled_counts import at_prevalence, hit_bounds, pooled_risk

# Routing paper, table 11: accepted, valid, invalid.
TABLE_11 = [
    (4968, 4959, 9),
    (5478, 5457, 21),
    (5579, 5555, 24),
    (7473, 5897, 1576),
    (6755, 5690, 1065),
    (6016, 5391, 625),
    (5588, 5248, 340),
    (5335, 5235, 100),
    (5279, 5235, 44),
    (6626, 5789, 837),
    (6101, 5553, 548),
    (5471, 5248, 223),
    (7126, 5813, 1313),
    (2890, 2581, 309),
    (2901, 2607, 294),
    (67, 65, 2),
]


def test_the_papers_counts() -> None:
    assert all(accepted == valid + invalid for accepted, valid, invalid in TABLE_11)
    for (accepted, _, invalid), (rate, upper) in zip(
        TABLE_11, [(0.181, 0.311), (0.383, 0.547), (0.430, 0.600)], strict=False
    ):
        found = hit_bounds(invalid, accepted)
        assert (100 * found.rate, 100 * found.wilson) == pytest.approx((rate, upper), abs=6e-4)
        assert found.rate < found.exact == exact_upper(invalid, accepted)
    without, with_guard = hit_bounds(50, 5052), hit_bounds(9, 4968)
    assert 100 * (without.rate - with_guard.rate) == pytest.approx(0.8085, abs=5e-5)


def test_repeated_exposures_of_a_pair_are_one_distinct_pair() -> None:
    ids = ["p", "p", "p", "q", "q", "r", "s"]
    valid = [0, 0, 0, 1, 1, 0, 1]
    accepted = [1, 1, 0, 1, 0, 0, 0]
    found = pooled_risk(accepted, valid, ids)
    assert found.exposures[:3] == (2, 3, 2 / 3)
    assert found.distinct == hit_bounds(1, 2)


def test_no_hits_bound_nothing() -> None:
    assert pooled_risk([0, 0], [1, 0], ["a", "b"]).exposures == (0, 0, 0.0, 1.0, 1.0)


def test_a_pair_has_one_label() -> None:
    with pytest.raises(CalibrationError, match="pair 'p' is valid in one exposure"):
        pooled_risk([1, 1], [1, 0], ["p", "p"])


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=2, max_size=60))
def test_the_pools_own_prevalence_gives_the_measured_rates(rows: list[tuple[bool, bool]]) -> None:
    hit, valid = (np.array(column) for column in zip(*rows, strict=True))
    if valid.all() or not valid.any():
        with pytest.raises(CalibrationError, match="needs some of both"):
            at_prevalence(hit, valid, 0.5)
        return
    found = at_prevalence(hit, valid, [float((~valid).mean()), 0.0, 1.0])
    assert found.vchr[0] == pytest.approx((hit & valid).mean())
    assert found.fh[0] == pytest.approx((hit & ~valid).sum() / max(hit.sum(), 1))
    assert found.fh[1] == 0
    assert found.fh[2] == (1 if (hit & ~valid).any() else 0)


def test_reweighting_by_repetition() -> None:
    """Nine valid exposures for each invalid one: the same as a pool in which they are repeated so often."""
    hit, valid = np.array([1, 1, 0, 1, 0, 0, 0], bool), np.array([1, 1, 1, 0, 0, 0, 0], bool)
    times = np.where(valid, 12, 1)
    many_hit, many_valid = np.repeat(hit, times), np.repeat(valid, times)
    found = at_prevalence(hit, valid, 0.1)
    assert (found.vchr[0], found.fh[0]) == pytest.approx(
        ((many_hit & many_valid).mean(), (many_hit & ~many_valid).sum() / many_hit.sum())
    )
    with pytest.raises(ValueError, match="outside 0 to 1"):
        at_prevalence(hit, valid, 1.1)
