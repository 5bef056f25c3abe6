from math import comb

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import poisson
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics.pairwise import rbf_kernel

from vicinal._kernels.subspace import _truncated_rbf as trbf


@pytest.fixture
def rows(rng):
    return rng.normal(scale=0.4, size=(40, 4))


@pytest.fixture
def weights(rng):
    return rng.uniform(0.5, 2.0, size=40)


def _blocks(X, gamma, order, size=7):
    """Features in small blocks, as a long table would come."""
    plan = trbf.monomial_plan(X.shape[1], order)
    P = trbf.truncated_rbf_features(X, gamma, plan)
    starts = range(0, len(X), size)
    return lambda: iter([(slice(s, s + size), P[s : s + size]) for s in starts]), P


def test_two_features_of_order_two_by_hand():
    x, gamma = np.array([[0.3, -0.5]]), 0.7
    decay, root = np.exp(-gamma * 0.34), np.sqrt(2 * gamma)
    a, b = root * 0.3, root * -0.5
    expected = decay * np.array([1.0, a, b, a * a / np.sqrt(2), a * b, b * b / np.sqrt(2)])
    P = trbf.truncated_rbf_features(x, gamma, trbf.monomial_plan(2, 2))
    assert_allclose(P[0], expected, rtol=1e-14)


@pytest.mark.parametrize("order", [1, 2, 3, 5])
def test_features_span_the_kernel_exactly(rows, order):
    plan = trbf.monomial_plan(4, order)
    P = trbf.truncated_rbf_features(rows, 0.8, plan)
    assert P.shape[1] == plan.n_outputs == comb(4 + order, order)
    assert_allclose(P @ P.T, trbf.truncated_rbf_kernel(rows, rows, 0.8, order), atol=1e-12)


@pytest.mark.parametrize("order", [1, 2, 4])
def test_worst_error_is_the_poisson_tail(rows, order):
    gamma = 0.8
    error = rbf_kernel(rows, gamma=gamma) - trbf.truncated_rbf_kernel(rows, rows, gamma, order)
    reach = 2 * gamma * (rows**2).sum(axis=1).max()
    assert_allclose(np.abs(error).max(), poisson.sf(order, reach), rtol=1e-8)


def test_kernel_converges_to_the_rbf(rows):
    assert_allclose(
        trbf.truncated_rbf_kernel(rows, rows, 0.5, 25), rbf_kernel(rows, gamma=0.5), atol=1e-12
    )


def test_other_array_libraries_give_the_same_features(rows, to_array):
    plan = trbf.monomial_plan(4, 3)
    X = to_array(rows)
    got = trbf.truncated_rbf_features(X, 0.6, plan)
    assert type(got) is type(X)
    assert_allclose(np.asarray(got), trbf.truncated_rbf_features(rows, 0.6, plan), atol=1e-14)
    kernel = trbf.truncated_rbf_kernel(X, X, 0.6, 3)
    assert_allclose(np.asarray(kernel), trbf.truncated_rbf_kernel(rows, rows, 0.6, 3), atol=1e-14)


def test_primal_ridge_is_scikit_learns_and_equals_the_dual(rows, weights, rng):
    Y = rng.normal(size=(40, 2))
    blocks, P = _blocks(rows, 0.5, 2)
    coef, intercept, state = trbf.ridge_primal(blocks, Y, weights, 0.1, P.shape[1])
    reference = Ridge(alpha=0.1, tol=1e-12).fit(P, Y, sample_weight=weights)
    assert_allclose(coef.T, reference.coef_, atol=1e-9)
    assert_allclose(intercept, reference.intercept_, atol=1e-9)
    K = P @ P.T
    dual, dual_intercept, leverage = trbf.ridge_dual(K, Y, weights, 0.1)
    assert_allclose(K @ dual + dual_intercept, P @ coef + intercept, atol=1e-10)
    assert_allclose(leverage, trbf.primal_leverage(blocks, 40, weights.sum(), state), atol=1e-10)


def test_leave_one_out_formula_equals_refitting(rows, rng):
    Y, weights = rng.normal(size=(40, 1)), np.ones(40)
    blocks, P = _blocks(rows, 0.5, 2)
    coef, intercept, state = trbf.ridge_primal(blocks, Y, weights, 0.1, P.shape[1])
    leverage = trbf.primal_leverage(blocks, 40, 40.0, state)
    scores = trbf.leave_one_out_scores(Y, P @ coef + intercept, leverage, weights)
    for i in (0, 17, 39):
        kept = np.arange(40) != i
        refit = Ridge(alpha=0.1, tol=1e-12).fit(P[kept], Y[kept])
        assert_allclose(scores[i], refit.predict(P[i : i + 1])[0], atol=1e-8)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_logistic_is_scikit_learns_optimum(rows, weights, rng, n_classes):
    codes = np.digitize(rows[:, 0] + 0.3 * rng.normal(size=40), [0.0, 0.3][: n_classes - 1])
    blocks, P = _blocks(rows, 0.5, 2)
    coef, intercept, _, converged = trbf.fit_logistic(
        blocks, codes, n_classes, weights, 0.05, P.shape[1], tol=1e-10, max_iter=50
    )
    assert converged
    reference = LogisticRegression(C=20.0, tol=1e-10, max_iter=10_000)
    reference.fit(P, codes, sample_weight=weights)
    p = trbf.softmax_or_expit(P @ coef + intercept)
    expected = reference.predict_proba(P)
    assert_allclose(p, expected[:, 1:] if n_classes == 2 else expected, atol=1e-5)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_derivatives_of_the_log_loss_by_differences(rng, n_classes):
    k = 1 if n_classes == 2 else 3
    scores, codes, weights = rng.normal(size=(5, k)), rng.randint(n_classes, size=5), np.ones(5)
    direction, step = rng.normal(size=(5, k)), 1e-6
    _, residual, p = trbf._log_loss(scores, codes, weights)
    up = trbf._log_loss(scores + step * direction, codes, weights)
    down = trbf._log_loss(scores - step * direction, codes, weights)
    assert_allclose((residual * direction).sum(), (up[0] - down[0]) / (2 * step), rtol=1e-7)
    assert_allclose(trbf._curve(p, direction), (up[1] - down[1]) / (2 * step), atol=1e-8)
