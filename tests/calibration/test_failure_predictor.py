"""The predictor of stale failures: its threshold against scikit-learn's own predictions, and when there is none."""

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import StratifiedGroupKFold, cross_val_predict

from cachemend.calibration.failure_predictor import fit_failure_predictor

NAMES = ("a", "b", "c")


def items(n: int = 60, noise: float = 0.7) -> tuple[NDArray, NDArray, NDArray]:
    """Three items of a group; failure hangs on the first feature."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=(n, 3))
    return x, (x[:, 0] + noise * rng.normal(size=n) > 0).astype(float), np.arange(n) // 3


def test_the_threshold_is_the_largest_that_sends_nearly_all_failures_out_of_fold() -> None:
    x, fails, groups = items()
    order = np.lexsort((*x.T[::-1], fails, groups))
    x, fails, groups = x[order], fails[order], groups[order]
    found = fit_failure_predictor(x, NAMES, fails, groups, 5)
    assert found is not None
    forest = RandomForestClassifier(100, min_samples_leaf=5, random_state=5)
    folds = StratifiedGroupKFold(5)
    chance = cross_val_predict(forest, x, fails, groups=groups, cv=folds, method="predict_proba")[:, 1]
    failing = chance[fails == 1]
    enough = [t for t in np.unique(chance) if np.mean(failing >= t) >= 0.95]
    assert found.threshold == max(enough)
    new = np.random.default_rng(8).normal(size=(40, 3))
    wanted = forest.fit(x, fails).predict_proba(new)[:, 1] >= found.threshold
    assert found.sends(new, NAMES).tolist() == wanted.tolist()
    assert 0 < wanted.sum() < 40

    mixed = np.random.default_rng(1).permutation(60)
    again = fit_failure_predictor(x[mixed], NAMES, fails[mixed], groups[mixed], 5)
    assert again is not None
    assert (again.threshold, again.sends(new, NAMES).tolist()) == (found.threshold, wanted.tolist())


def test_failures_that_a_feature_tells_are_sent_and_nothing_else() -> None:
    x, fails, groups = items(noise=0.0)
    found = fit_failure_predictor(x, NAMES, fails, groups, 0)
    assert found is not None
    clear = np.array([[2.0, 0, 0], [-2.0, 0, 0], [1.5, 1, 1], [-1.5, 1, 1]])
    assert found.sends(clear, NAMES).tolist() == [True, False, True, False]


def test_noise_sends_nearly_everything() -> None:
    """To catch 95 % of failures that nothing foretells, most other edits must be repaired, too."""
    rng = np.random.default_rng(0)
    x, fails, groups = rng.normal(size=(300, 3)), rng.random(300) < 0.5, np.arange(300) // 3
    found = fit_failure_predictor(x, NAMES, fails, groups, 0)
    assert found is not None
    assert found.sends(rng.normal(size=(400, 3)), NAMES).mean() > 0.8


def test_too_little_makes_no_predictor() -> None:
    x, _, groups = items()
    for n, wanted in ((9, None), (10, "fitted"), (50, "fitted"), (51, None)):
        found = fit_failure_predictor(x, NAMES, np.arange(60) < n, groups, 0)
        assert (found is None) == (wanted is None), n
    assert fit_failure_predictor(x, NAMES, np.arange(60) < 30, np.arange(60) % 4, 0) is None


def test_a_threshold_that_sends_everything_is_no_predictor() -> None:
    """Failures of one group leave a training part without any: their own chance is 0."""
    x, _, _ = items()
    groups = np.r_[np.zeros(10), np.arange(50) // 3 + 1]
    assert fit_failure_predictor(x, NAMES, np.arange(60) < 10, groups, 0) is None


def test_bad_input_raises() -> None:
    x, fails, groups = items()
    with pytest.raises(ValueError, match="0 or 1"):
        fit_failure_predictor(x, NAMES, fails / 2, groups, 0)
    with pytest.raises(ValueError, match="groups has shape"):
        fit_failure_predictor(x, NAMES, fails, groups[1:], 0)
    with pytest.raises(ValueError, match="'b' holds"):
        fit_failure_predictor(x * [1, np.nan, 1], NAMES, fails, groups, 0)
    found = fit_failure_predictor(x, NAMES, fails, groups, 0)
    assert found is not None
    with pytest.raises(ValueError, match="was fitted on"):
        found.sends(x, ("a", "c", "b"))
