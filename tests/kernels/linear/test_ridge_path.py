"""Ridge regression for many penalties, its leave-one-out residuals and evidence."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import multivariate_normal
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.model_selection import LeaveOneOut, cross_val_predict

from vicinal._kernels.linear._ridge_path import ridge_log_evidence, ridge_path, ridge_summary


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


@pytest.fixture
def table(rng):
    X = rng.normal(size=(30, 4)) + 2.0
    return X, X @ rng.normal(size=4) + rng.normal(size=30)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("alpha", [0.0, 3.0])
def test_leave_one_out_equals_thirty_fits(table, alpha, fit_intercept):
    X, y = table
    model = Ridge(alpha, fit_intercept=fit_intercept)
    if alpha == 0.0:
        model = LinearRegression(fit_intercept=fit_intercept)
    found = ridge_summary(X, y, np.ones(30), alpha, fit_intercept=fit_intercept)
    assert_allclose(found.leave_one_out, cross_val_predict(model, X, y, cv=LeaveOneOut()))
    assert_allclose(found.fitted, model.fit(X, y).predict(X))


def test_a_weight_of_two_leaves_out_one_of_two_rows(table, rng):
    X, y = table
    times = rng.randint(1, 4, 30)
    weighted = ridge_summary(X, y, times.astype(float), 2.0, fit_intercept=True)
    repeated = ridge_summary(
        np.repeat(X, times, axis=0),
        np.repeat(y, times),
        np.ones(times.sum()),
        2.0,
        fit_intercept=True,
    )
    assert_allclose(np.repeat(weighted.leave_one_out, times), repeated.leave_one_out)
    assert_allclose(weighted.effective_parameters, repeated.effective_parameters)


def test_effective_parameters_are_the_trace_of_the_hat_matrix(table):
    X, y = table
    Xc = X - X.mean(axis=0)
    hat = Xc @ np.linalg.solve(Xc.T @ Xc + 5.0 * np.eye(4), Xc.T)
    found = ridge_summary(X, y, np.ones(30), 5.0, fit_intercept=True)
    assert_allclose(found.effective_parameters, np.trace(hat) + 1.0)


def test_dependent_columns_are_counted_once(table):
    X, y = table
    found = ridge_summary(np.column_stack([X, X[:, 0]]), y, np.ones(30), 0.0, fit_intercept=True)
    assert_allclose(found.effective_parameters, 5.0)


def test_evidence_is_the_density_of_the_targets(table):
    X, y = table
    alpha, variance = 2.0, 1.7
    covariance = variance * (np.eye(30) + X @ X.T / alpha)
    expected = multivariate_normal(np.zeros(30), covariance).logpdf(y)
    found = ridge_log_evidence(
        X, y, np.ones(30), alpha, fit_intercept=False, noise_variance=variance
    )
    assert_allclose(found, expected, rtol=1e-10)


def test_unknown_noise_takes_its_most_likely_value(table):
    X, y = table
    free = ridge_log_evidence(X, y, np.ones(30), 2.0, fit_intercept=True)
    grid = [
        ridge_log_evidence(X, y, np.ones(30), 2.0, fit_intercept=True, noise_variance=v)
        for v in np.linspace(0.2, 5.0, 2000)
    ]
    assert free >= max(grid)
    assert_allclose(free, max(grid), rtol=1e-5)


def test_flat_intercept_is_the_limit_of_a_wide_prior(table):
    X, y = table
    wide = 1e8

    def difference(columns):
        with_prior = multivariate_normal(
            np.zeros(30),
            1.5 * (np.eye(30) + columns @ columns.T / 2.0) + wide * np.ones((30, 30)),
            allow_singular=True,
        ).logpdf(y)
        flat = ridge_log_evidence(
            columns, y, np.ones(30), 2.0, fit_intercept=True, noise_variance=1.5
        )
        return with_prior - flat

    # The unknown constant of a flat prior is the same for every model.
    assert_allclose(difference(X), difference(X[:, :2]), atol=1e-3)


def test_evidence_of_weights_equals_repetition(table, rng):
    X, y = table
    times = rng.randint(1, 4, 30)
    weighted = ridge_log_evidence(X, y, times.astype(float), 2.0, fit_intercept=True)
    repeated = ridge_log_evidence(
        np.repeat(X, times, axis=0),
        np.repeat(y, times),
        np.ones(times.sum()),
        2.0,
        fit_intercept=True,
    )
    assert_allclose(weighted, repeated, rtol=1e-10)
