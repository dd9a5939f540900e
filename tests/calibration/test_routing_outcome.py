"""Outcome and cost: by hand and with the published figures."""

import numpy as np
import pytest

from cachemend.calibration.errors import CalibrationError
from cachemend.calibration.routing import REGENERATE, REUSE, VERIFY, outcome, relative_cost, replay
from cachemend.calibration.routing.outcome import LOCAL_COST, VERIFIER_COST


def test_ten_candidates_by_hand() -> None:
    actions = [REUSE] * 3 + [VERIFY] * 5 + [REGENERATE] * 2
    verdicts = np.array([False, False, False, True, True, False, True, True, True, True])
    valid = np.array([True, True, False, True, False, True, True, True, True, False])
    found = outcome(replay(actions, verdicts, np.arange(10), 0.4), valid, local_cost=0.01)
    # Directly 2 of 3; the first four to verify get a call: 1 right, 1 wrong, 1 refused, 1 right; the fifth gets none.
    assert found[:4] == (10, 6, 4, 2)
    assert found.vchr == 0.4
    assert found.fh == pytest.approx(1 / 3)
    assert found.verifier_rate == 0.4
    assert found.relative_cost == pytest.approx(0.01 + 0.4 * 0.0605 + 0.4)


def test_without_a_hit_the_false_hit_rate_is_0() -> None:
    found = outcome(replay([REGENERATE] * 4, np.ones(4, bool), np.arange(4), 0.3), np.ones(4, bool), local_cost=0)
    assert (found.accepted, found.fh, found.vchr, found.relative_cost) == (0, 0.0, 0.0, 1.0)


def test_the_papers_cost_of_the_balanced_setting() -> None:
    """Table 3: 0.003779 local, 0.01113 for the verifier and 0.597 for the backend make 0.612 (appendix K)."""
    assert pytest.approx(0.003779, abs=1e-6) == LOCAL_COST
    assert relative_cost(0.01113 / VERIFIER_COST, 0.597) == pytest.approx(0.6119, abs=5e-5)


def test_bad_input_raises() -> None:
    with pytest.raises(CalibrationError, match="no candidates"):
        outcome(replay(np.zeros(0, int), np.zeros(0, bool), np.zeros(0, int), 0.3), np.zeros(0, bool))
    with pytest.raises(ValueError, match="give 1 booleans"):
        outcome(replay([REUSE], np.ones(1, bool), [0], 0.3), np.ones(2, bool))
