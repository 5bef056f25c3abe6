"""The score of the first call is honest: labels of a coin cannot be predicted."""

import numpy as np
import pytest

from vicinal.auto import AutoClassifier, AutoRegressor


def coin_score(seed):
    rng = np.random.RandomState(seed)
    X, y = rng.normal(size=(100, 4)), rng.permutation(np.repeat([0, 1], 50))
    return AutoClassifier(random_state=seed).fit(X, y).score_


@pytest.mark.statistical
def test_the_score_of_coin_labels_is_chance():
    scores = [coin_score(seed) for seed in range(50)]
    error = np.std(scores, ddof=1) / np.sqrt(len(scores))
    assert abs(np.mean(scores) - 0.5) <= 2.0 * error


def forecast(seed, n_rows=150):
    """Return how far a told R2 was from the one on many fresh rows, in its standard errors."""
    rng = np.random.RandomState(seed)
    X = rng.uniform(size=(n_rows + 4000, 6))
    y = 10.0 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20.0 * (X[:, 2] - 0.5) ** 2 + 10.0 * X[:, 3]
    y += 1.5 * rng.standard_normal(len(y))
    own, fresh = slice(n_rows), slice(n_rows, None)
    model = AutoRegressor(["local", "linear"], random_state=seed).fit(X[own], y[own])
    found = 1.0 - np.mean((y[fresh] - model.predict(X[fresh])) ** 2) / y[own].var()
    return (model.score_ - found) / model.score_error_


@pytest.mark.statistical
def test_the_standard_error_of_the_score_is_that_of_a_forecast():
    off = np.array([forecast(seed) for seed in range(60)])
    # Of 60 that hold with a chance of 93 % at least 52 do, but for 3 in 100 times.
    assert np.sum(np.abs(off) <= 2.0) >= 52
    # Nor is it far too large.
    assert off.std() > 0.6
    assert abs(off.mean()) < 0.4
