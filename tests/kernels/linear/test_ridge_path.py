"""Global ridge at several penalties against a solve for each."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.linear_model import Ridge

from vicinal._kernels.linear._ridge_path import ridge_path


@pytest.mark.parametrize("shape", [(30, 4), (5, 9)])
def test_path_equals_ridge(rng, shape):
    n, d = shape
    Z, Y, w = rng.normal(size=shape) + 3.0, rng.normal(size=(n, 2)), rng.uniform(0.5, 2.0, n)
    path = ridge_path(Z, Y, w, [0.01, 1.0])
    centred = Z - w @ Z / w.sum()
    unit = w @ (centred**2).sum(axis=1) / d
    for a, alpha in enumerate((0.01, 1.0)):
        model = Ridge(alpha * unit, tol=1e-12).fit(Z, Y, w)
        assert_allclose(path.predict(Z)[a], model.predict(Z), rtol=1e-7)


def test_constant_columns_predict_the_mean():
    path = ridge_path(np.ones((4, 2)), np.arange(4.0)[:, None], None, [0.0, 1.0])
    assert_allclose(path.predict(np.array([[9.0, -9.0]])), 1.5)


def test_no_penalty_is_the_limit_of_a_small_one(rng):
    Z, Y = rng.normal(size=(20, 3)), rng.normal(size=(20, 1))
    path = ridge_path(Z, Y, None, [0.0, 1e-9])
    assert_allclose(path.coef[0], path.coef[1], rtol=1e-6)
