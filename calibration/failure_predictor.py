"""Predicting that a stale cache fails: the trigger that repairing always is to be measured against.

Source: edit paper, "Repair Should Be Unconditional".
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import StratifiedGroupKFold

from cachemend.calibration.feature_rows import feature_matrix, one_each
from cachemend.calibration.trigger import N_FOLDS, N_TREES

CLASSIFIER = "random-forest"
LEAST_SENT = 0.95
# Fewer of either outcome leave a fold with one or none, and a threshold that hangs on single items.
LEAST_OF_EACH = 10


@dataclass(frozen=True, kw_only=True)
class FailurePredictor:
    """A random forest and the probability of failure from which an edit is sent to repair.

    Attributes:
        forest: fitted on all development items.
        names: its features, in order.
        threshold: the largest one that sent `LEAST_SENT` of the development failures to repair, out of fold; above 0.
    """

    forest: RandomForestClassifier
    names: tuple[str, ...]
    threshold: float

    def sends(self, features: ArrayLike, names: Sequence[str]) -> NDArray[np.bool_]:
        """Return which edits are sent to repair, shape ``[n]``.

        Args:
            features: shape ``[n, f]``.
            names: name of each feature, as it was fitted.

        Raises:
            ValueError: other features, or a value that is not finite.
        """
        if tuple(names) != self.names:
            raise ValueError(f"the features are {tuple(names)}; the predictor was fitted on {self.names}")
        x = feature_matrix(features, names, len(np.asarray(features)))
        return np.asarray(_chance(self.forest, x) >= self.threshold)


def fit_failure_predictor(
    features: ArrayLike, names: Sequence[str], fails: ArrayLike, groups: ArrayLike, seed: int
) -> FailurePredictor | None:
    """Fit the predictor to development items; its threshold comes from five-fold predictions that keep groups whole.

    The order of the rows does not matter.

    Args:
        features: what a trigger sees, shape ``[n, f]``.
        names: name of each feature.
        fails: 1 where the stale answer is wrong and the clean one right, else 0, shape ``[n]``.
        groups: what must not be split between training and test (the item), shape ``[n]``.
        seed: seed of the forest.

    Returns:
        the predictor; None with fewer than `LEAST_OF_EACH` failures, as few of the others, or five groups, and where
        its threshold would be 0, which sends every edit and so predicts nothing.

    Raises:
        ValueError: lengths that differ, a value that is not finite, or outcomes other than 0 and 1.
    """
    outcome = np.asarray(fails, dtype=np.float64)
    if not np.isin(outcome, (0, 1)).all():
        raise ValueError("fails must be 0 or 1; leave items without an answer out before")
    x, y = feature_matrix(features, names, len(outcome)), outcome.astype(bool)
    labels, group = np.unique(one_each("groups", groups, len(y)), return_inverse=True)
    if len(labels) < N_FOLDS or min(y.sum(), (~y).sum()) < LEAST_OF_EACH:
        return None
    # One order of the rows, whatever the caller's: the forest draws rows by their place.
    order = np.lexsort((*x.T[::-1], y, group))
    x, y, group = x[order], y[order], group[order]
    chance = np.empty(len(y))
    for train, test in StratifiedGroupKFold(N_FOLDS).split(x, y, group):
        chance[test] = _chance(_forest(seed).fit(x[train], y[train]), x[test])
    threshold = _threshold(np.sort(chance[y])[::-1])
    if threshold <= 0:
        return None
    return FailurePredictor(forest=_forest(seed).fit(x, y), names=tuple(names), threshold=threshold)


def _threshold(falling: NDArray[np.float64]) -> float:
    """The largest value that `LEAST_SENT` of these, in falling order, reach."""
    return float(falling[ceil(LEAST_SENT * len(falling)) - 1])


def _forest(seed: int) -> RandomForestClassifier:
    return RandomForestClassifier(N_TREES, min_samples_leaf=5, random_state=seed, n_jobs=1)


def _chance(forest: RandomForestClassifier, x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Probability of failure, shape ``[n]``; a training part may hold one outcome alone."""
    by_class = dict(zip(forest.classes_.tolist(), forest.predict_proba(x).T, strict=True))
    return np.asarray(by_class.get(True, np.zeros(len(x))))
