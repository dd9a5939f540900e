"""How often a stale cache fails, and whether cheap features foretell how badly.

Source: edit paper, "Repair Should Be Unconditional".
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import spearmanr
from sklearn.ensemble import RandomForestRegressor
from sklearn.metrics import r2_score
from sklearn.model_selection import GroupKFold
from sklearn.preprocessing import StandardScaler

from cachemend.calibration.feature_rows import feature_matrix, one_each
from cachemend.calibration.intervals import Interval, finite_values, wilson_interval

N_FOLDS = 5
PENALTIES = (0.01, 0.1, 1.0, 10.0, 100.0, 1000.0, 10000.0)
N_TREES = 100
REGRESSORS = ("ridge", "random-forest")


class TriggerResult(NamedTuple):
    """How well cheap features foretell the severity of a stale cache, all predictions out of fold.

    Attributes:
        regressor: one of `REGRESSORS`.
        rho, rho_p: Spearman's rank correlation of prediction and severity, and its p-value, which takes the
            predictions as independent. Without signal rho tends below 0 rather than to 0: a fold is predicted by
            the mean of the others, which is low where its own is high.
        r2: share of the variance of severity explained; below 0 for worse than its mean.
        n, n_groups: predictions and groups behind them.
    """

    regressor: str
    rho: float
    rho_p: float
    r2: float
    n: int
    n_groups: int


def severity_study(
    features: ArrayLike, names: Sequence[str], severity: ArrayLike, groups: ArrayLike, seed: int
) -> list[TriggerResult]:
    """Predict severity by ridge regression and by a random forest, in grouped five-fold cross-validation.

    The penalty of ridge regression is chosen inside each training part, grouped as well. The order of the rows
    does not matter.

    Args:
        features: shape ``[n, f]``, what is known before any repair.
        names: name of each feature.
        severity: how far the stale cache is off, shape ``[n]``, in any unit.
        groups: what must not be split between training and test (the item), shape ``[n]``.
        seed: seed of the forest.

    Returns:
        one result per regressor, in the order of `REGRESSORS`.

    Raises:
        ValueError: lengths that differ, a value that is not finite, a severity that never varies, or fewer than
            five groups.
    """
    y = finite_values("severity", severity)
    x = feature_matrix(features, names, len(y))
    labels, group = np.unique(one_each("groups", groups, len(y)), return_inverse=True)
    if len(labels) < N_FOLDS:
        raise ValueError(f"{len(labels)} groups cannot fill {N_FOLDS} folds")
    if (y == y[0]).all():
        raise ValueError(f"severity is {y[0]} everywhere; there is nothing to predict")
    # One order of the rows, whatever the caller's: the forest draws rows by their place.
    order = np.lexsort((*x.T[::-1], y, group))
    x, y, group = x[order], y[order], group[order]
    results = []
    for regressor in REGRESSORS:
        predicted = _out_of_fold(regressor, x, y, group, seed)
        rho = spearmanr(predicted, y)
        r2 = float(r2_score(y, predicted))
        results.append(TriggerResult(regressor, float(rho.statistic), float(rho.pvalue), r2, len(y), len(labels)))
    return results


def base_rates(stale_fails: ArrayLike, condition: ArrayLike) -> dict[str, Interval]:
    """Return how often the stale cache fails in each condition, with Wilson's interval; conditions are sorted.

    Args:
        stale_fails: 1 where the unrepaired cache answers wrongly, else 0, shape ``[n]``.
        condition: condition of each item, shape ``[n]``; conditions are never pooled.

    Raises:
        ValueError: no items, lengths that differ, or outcomes other than 0 and 1.
    """
    fails = finite_values("stale_fails", stale_fails)
    if not np.isin(fails, (0, 1)).all():
        raise ValueError("stale_fails must be 0 or 1; leave items without an answer out before")
    kind = one_each("condition", condition, len(fails))
    by_kind = {str(name): fails[kind == name] for name in np.unique(kind)}
    return {name: wilson_interval(int(found.sum()), len(found)) for name, found in by_kind.items()}


def _out_of_fold(
    regressor: str, x: NDArray[np.float64], y: NDArray[np.float64], group: NDArray[np.intp], seed: int
) -> NDArray[np.float64]:
    predicted = np.empty_like(y)
    for train, test in GroupKFold(N_FOLDS).split(x, y, group):
        if regressor == "ridge":
            penalty = _chosen_penalty(x[train], y[train], group[train])
            predicted[test] = _ridge(x[train], y[train], x[test], (penalty,))[0]
        else:
            forest = RandomForestRegressor(N_TREES, min_samples_leaf=5, max_features=1 / 3, random_state=seed, n_jobs=1)
            predicted[test] = forest.fit(x[train], y[train]).predict(x[test])
    return predicted


def _chosen_penalty(x: NDArray[np.float64], y: NDArray[np.float64], group: NDArray[np.intp]) -> float:
    """Return the penalty of least squared error, averaged over folds that keep groups whole; the smaller on ties."""
    folds = GroupKFold(min(N_FOLDS, len(np.unique(group))))
    errors = [
        ((_ridge(x[train], y[train], x[test], PENALTIES) - y[test]) ** 2).mean(axis=1)
        for train, test in folds.split(x, y, group)
    ]
    return PENALTIES[int(np.mean(errors, axis=0).argmin())]


def _ridge(
    x: NDArray[np.float64], y: NDArray[np.float64], at: NDArray[np.float64], penalties: Sequence[float]
) -> NDArray[np.float64]:
    """Predict at `at` from standardised features, the mean unpenalised; shape ``[len(penalties), len(at)]``."""
    scaler = StandardScaler().fit(x)
    # One decomposition serves all penalties.
    u, s, vt = np.linalg.svd(scaler.transform(x), full_matrices=False)
    shrunk = s / (s**2 + np.asarray(penalties)[:, None])
    mean = y.mean()
    return mean + (shrunk * (u.T @ (y - mean))) @ (vt @ scaler.transform(at).T)
