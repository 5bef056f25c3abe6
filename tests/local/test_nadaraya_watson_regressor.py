"""NadarayaWatsonRegressor: averages by hand."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.metrics.pairwise import rbf_kernel

from vicinal.local import NadarayaWatsonRegressor


def test_gaussian_average_by_hand(rng):
    X, y, Q = rng.normal(size=(50, 2)), rng.normal(size=50), rng.normal(size=(8, 2))
    model = NadarayaWatsonRegressor(0.8, kernel="gaussian", metric="euclidean").fit(X, y)
    W = rbf_kernel(Q, X, gamma=0.5 / 0.64)
    assert_allclose(model.predict(Q), W @ y / W.sum(axis=1), rtol=1e-6)


def test_predictions_stay_in_the_range_of_targets(rng):
    X, y = rng.normal(size=(80, 3)), rng.normal(size=80)
    values = NadarayaWatsonRegressor().fit(X, y).predict(10 * rng.normal(size=(30, 3)))
    assert y.min() <= values.min() <= values.max() <= y.max()


def test_infinite_bandwidth_is_the_mean(rng):
    X, y = rng.normal(size=(20, 2)), rng.normal(size=20)
    assert_allclose(NadarayaWatsonRegressor(np.inf).fit(X, y).predict(X), y.mean())


@pytest.mark.parametrize("kernel", ["epanechnikov", "bisquare", "cosine", "triangular"])
def test_callable_kernel_equals_the_named_one(rng, kernel):
    from vicinal._kernels.local._smoothing import KERNELS

    X, y = rng.normal(size=(40, 2)), rng.normal(size=40)
    for rule in ({"bandwidth": 1.0}, {"n_neighbors": 9}):
        named = NadarayaWatsonRegressor(kernel=kernel, metric="euclidean", **rule).fit(X, y)
        given = NadarayaWatsonRegressor(kernel=KERNELS[kernel], metric="euclidean", **rule)
        assert_allclose(given.fit(X, y).predict(X), named.predict(X), rtol=1e-12)
