"""Coverage of the bootstrap ensemble's intervals: twenty seeds on each of three problems."""

import numpy as np
import pytest
from sklearn.datasets import make_friedman1
from sklearn.linear_model import LinearRegression
from sklearn.tree import DecisionTreeRegressor

from vicinal.ensemble import BootstrapEnsembleRegressor


def friedman(rng):
    return make_friedman1(1000, noise=1.0, random_state=rng)


def skewed(rng):
    """Noise with one long tail: the two ends of the interval must differ."""
    X = rng.uniform(-2, 2, size=(1000, 3))
    return X, X[:, 0] ** 2 + X[:, 1] + rng.exponential(1.0, size=1000)


def uneven(rng):
    """Noise that grows along a column; coverage is promised on average over queries."""
    X = rng.uniform(0, 1, size=(1000, 4))
    return X, 3 * X[:, 0] + (0.2 + X[:, 1]) * rng.normal(size=1000)


@pytest.mark.statistical
@pytest.mark.parametrize("problem", [friedman, skewed, uneven])
@pytest.mark.parametrize(
    "learner", [DecisionTreeRegressor(), LinearRegression()], ids=["trees", "lines"]
)
def test_ninety_percent_intervals_cover_ninety_percent(problem, learner):
    covered = []
    for seed in range(20):
        X, y = problem(np.random.RandomState(seed))
        model = BootstrapEnsembleRegressor(learner, random_state=seed).fit(X[:500], y[:500])
        low, high = model.predict_interval(X[500:], coverage=0.9).T
        covered.append(np.mean((low <= y[500:]) & (y[500:] <= high)))
    assert 0.87 <= np.mean(covered) <= 0.93


@pytest.mark.statistical
def test_tails_of_skewed_noise_are_cut_evenly():
    low_misses, high_misses = [], []
    for seed in range(20):
        X, y = skewed(np.random.RandomState(seed))
        model = BootstrapEnsembleRegressor(random_state=seed).fit(X[:500], y[:500])
        low, high = model.predict_interval(X[500:], coverage=0.9).T
        low_misses.append(np.mean(y[500:] < low))
        high_misses.append(np.mean(y[500:] > high))
    assert 0.03 <= np.mean(low_misses) <= 0.07
    assert 0.03 <= np.mean(high_misses) <= 0.07
