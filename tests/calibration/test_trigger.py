"""The severity study against scikit-learn's own search, planted signals and planted traps; base rates."""

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import spearmanr
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import Ridge
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from cachemend.calibration.trigger import PENALTIES, REGRESSORS, TriggerResult, base_rates, severity_study

N = 80


def study(x: NDArray, y: NDArray, groups: NDArray, seed: int = 0) -> dict[str, TriggerResult]:
    results = severity_study(x, [f"f{i}" for i in range(x.shape[1])], y, groups, seed)
    assert [found.regressor for found in results] == list(REGRESSORS)
    return {found.regressor: found for found in results}


def test_a_planted_signal_is_found() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(N, 4)) * [1, 1000, 1, 1]  # units of the features do not matter
    y = x[:, 0] + x[:, 1] / 1000 + rng.normal(0, 0.1, N)
    for found in study(x, y, np.arange(N) // 2).values():
        assert found.rho > 0.8
        assert found.rho_p < 1e-6
        assert 0.5 < found.r2 <= 1
        assert (found.n, found.n_groups) == (N, N // 2)


def test_noise_is_not_predicted() -> None:
    """Out-of-fold ranks of pure noise lean below 0, and never explain variance."""
    rng = np.random.default_rng(5)
    for found in study(rng.normal(size=(N, 4)), rng.normal(size=N), np.arange(N) // 2).values():
        assert -0.5 < found.rho < 0.25
        assert found.r2 < 0.05


def test_what_items_of_a_group_share_is_no_signal() -> None:
    """Features that name the group: folds that split groups would predict nearly all of it."""
    rng = np.random.default_rng(1)
    groups = np.repeat(np.arange(20), 4)
    x, y = rng.normal(size=(20, 4))[groups], rng.normal(size=20)[groups] + rng.normal(0, 0.01, N)
    for found in study(x, y, groups).values():
        assert found.rho < 0.4
        assert found.r2 < 0.2


def test_ridge_against_a_grid_search_of_scikit_learn_and_the_order_of_rows() -> None:
    rng = np.random.default_rng(2)
    groups = np.repeat(np.arange(20), 3)
    x = rng.normal(5, 3, size=(60, 4))
    x[:, 3] = 2.0  # a feature that never varies
    y = x @ [0.2, 0.0, -0.1, 1.0] + rng.normal(size=60)
    order = np.lexsort((y, groups))  # the rows as the study takes them: by group, then severity
    x, y, groups = x[order], y[order], groups[order]
    predicted = np.empty(60)
    for train, test in GroupKFold(5).split(x, y, groups):
        search = GridSearchCV(
            make_pipeline(StandardScaler(), Ridge()),
            {"ridge__alpha": PENALTIES},
            scoring="neg_mean_squared_error",
            cv=GroupKFold(5),
        ).fit(x[train], y[train], groups=groups[train])
        predicted[test] = search.predict(x[test])
    found = study(x, y, groups)
    assert found["ridge"][1:] == pytest.approx((*spearmanr(predicted, y), r2_score(y, predicted), 60, 20))

    mixed = rng.permutation(60)
    names = np.array([f"item-{group:02d}" for group in groups])
    assert study(x[mixed], y[mixed], names[mixed]) == found
    assert study(x, y, groups, seed=1)["random-forest"] != found["random-forest"]


def test_the_forest_against_scikit_learn() -> None:
    rng = np.random.default_rng(6)
    x, y = rng.normal(size=(30, 3)), np.sort(rng.normal(size=30))
    forest = RandomForestRegressor(100, min_samples_leaf=5, max_features=1 / 3, random_state=3)
    predicted = cross_val_predict(forest, x, y, groups=np.arange(30), cv=GroupKFold(5))
    found = study(x, y, np.arange(30), seed=3)["random-forest"]
    assert (found.rho, found.r2) == pytest.approx((spearmanr(predicted, y).statistic, r2_score(y, predicted)))


def test_base_rates_of_the_paper() -> None:
    """173 of 175 is the 98.8 % that no condition falls below; direct edits break every answer."""
    condition = np.array(["direct"] * 175 + ["derived"] * 175)
    fails = np.r_[np.ones(175), np.ones(173), np.zeros(2)]
    found = base_rates(fails, condition)
    assert list(found) == ["derived", "direct"]
    assert math.floor(1000 * found["derived"].point) == 988
    assert (found["direct"].point, found["direct"].n) == (1.0, 175)
    # Wilson's lower end at 175 of 175 is n / (n + z^2).
    assert found["direct"].low == pytest.approx(175 / (175 + 1.959964**2))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: severity_study(np.zeros((4, 1)), ["a"], np.arange(4.0), np.arange(4), 0), "4 groups cannot fill 5"),
        (lambda: severity_study(np.zeros((9, 1)), ["a"], np.ones(9), np.arange(9), 0), "nothing to predict"),
        (lambda: severity_study(np.zeros((9, 2)), ["a"], np.arange(9.0), np.arange(9), 0), r"need \(9, 1\)"),
        (lambda: severity_study(np.zeros((9, 0)), [], np.arange(9.0), np.arange(9), 0), r"need \(9, 0\)"),
        (lambda: severity_study(np.full((9, 1), np.nan), ["overlap"], np.arange(9.0), np.arange(9), 0), "'overlap'"),
        (lambda: severity_study(np.zeros((9, 1)), ["a"], np.arange(9.0), np.arange(8), 0), "groups has shape"),
        (lambda: severity_study(np.zeros((9, 1)), ["a"], [math.nan] * 9, np.arange(9), 0), "severity holds"),
        (lambda: base_rates([0.5], ["direct"]), "must be 0 or 1"),
        (lambda: base_rates([1], ["direct", "derived"]), "condition has shape"),
        (lambda: base_rates([], []), "not empty"),
    ],
)
def test_bad_input_raises(call, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match=message):
        call()
