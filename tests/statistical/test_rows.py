"""Clean tables raise no finding, intervals cover on real tables."""

import numpy as np
import pytest
from sklearn.datasets import load_diabetes
from sklearn.ensemble import RandomForestRegressor
from sklearn.model_selection import train_test_split

from vicinal.inspection import drift
from vicinal.inspection.checks import leaking_columns
from vicinal.uncertainty import ConformalRegressor

pytestmark = pytest.mark.statistical


def test_clean_tables_raise_nothing_in_twenty_seeds():
    for seed in range(20):
        rng = np.random.RandomState(seed)
        X = rng.normal(size=(400, 5))
        y = X[:, 0] + np.sin(2 * X[:, 1]) + 0.5 * rng.normal(size=400)
        assert not leaking_columns(X, y)
        assert not drift(X[:200], X[200:], level=0.001)


@pytest.mark.parametrize("coverage", [0.8, 0.9, 0.95])
def test_mean_coverage_of_ten_splits(coverage):
    X, y = load_diabetes(return_X_y=True)
    covered = []
    for seed in range(10):
        A, B, a, b = train_test_split(X, y, random_state=seed)
        forest = RandomForestRegressor(50, min_samples_leaf=3, random_state=seed)
        model = ConformalRegressor(forest, random_state=seed).fit(A, a)
        low, high = model.predict_interval(B, coverage).T
        covered.append(np.mean((low <= b) & (b <= high)))
    # 1,110 rows: one standard error is about a point.
    assert abs(np.mean(covered) - coverage) < 0.03
