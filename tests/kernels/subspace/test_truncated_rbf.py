from math import comb

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import poisson
from sklearn import config_context
from sklearn.linear_model import Ridge
from sklearn.metrics.pairwise import rbf_kernel

from vicinal._base import solve_lower
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


@pytest.fixture(params=["held", "in blocks"])
def fitted(request, rows, weights, rng):
    """Return a function that fits one problem, primal and dual, in the library of its rows."""
    Y, mean = rng.normal(size=(40, 2)) + 1e3, rows.mean(axis=0)
    memory = 0.01 if request.param == "in blocks" else 1024

    def answers(to_array):
        Z, T, w = to_array(rows - mean), to_array(Y), to_array(weights)
        with config_context(working_memory=memory):
            blocks = trbf.feature_blocks(Z, 0.5, trbf.monomial_plan(4, 2))
            assert (len(list(blocks())) == 1) == (request.param == "held")
            coef, intercept, state = trbf.ridge_primal(blocks, T, w, 0.1)
            primal = trbf.fitted_and_leverage(blocks, coef, intercept, float(weights.sum()), state)
        K = trbf.truncated_rbf_kernel(Z, Z, 0.5, 2)
        dual, free, leverage = trbf.ridge_dual(K, T, w, 0.1)
        loo = trbf.leave_one_out_scores(T, *primal, w)
        found = (coef, intercept, *primal, K @ dual + free, leverage, loo)
        return [np.asarray(array) for array in found]

    return answers


def test_other_array_libraries_give_the_same_ridge(fitted, to_array):
    for found, expected in zip(fitted(to_array), fitted(np.asarray), strict=True):
        assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


def test_primal_and_dual_say_the_same(fitted):
    _, _, values, leverage, dual_values, dual_leverage, _ = fitted(np.asarray)
    assert_allclose(dual_values, values, rtol=1e-10)
    assert_allclose(dual_leverage, leverage, rtol=1e-7)


def test_sums_of_two_halves_are_those_of_all_rows(rows, weights, rng):
    Y, plan = rng.normal(size=(40, 2)), trbf.monomial_plan(4, 2)

    def sums(part):
        blocks = trbf.feature_blocks(rows[part], 0.5, plan, hold=False)
        return trbf.ridge_sums(blocks, Y[part], weights[part])

    both = trbf.RidgeSums(
        *(a + b for a, b in zip(sums(slice(15)), sums(slice(15, 40)), strict=True))
    )
    blocks, _ = _blocks(rows, 0.5, 2)
    expected = trbf.ridge_primal(blocks, Y, weights, 0.1)
    for found, wanted in zip(trbf.ridge_from_sums(both, 0.1)[:2], expected[:2], strict=True):
        assert_allclose(found, wanted, atol=1e-10)


def test_leverage_is_the_slope_of_a_fitted_value(rows, weights, rng):
    """Adding h to one target moves its own prediction by weight times leverage times h."""
    Y, K = rng.normal(size=(40, 1)), trbf.truncated_rbf_kernel(rows, rows, 0.5, 2)
    dual, free, leverage = trbf.ridge_dual(K, Y, weights, 0.1)
    moved = Y.copy()
    moved[4] += 1.0
    dual_moved, free_moved, _ = trbf.ridge_dual(K, moved, weights, 0.1)
    change = (K @ dual_moved + free_moved - K @ dual - free)[4, 0]
    assert_allclose(change, weights[4] * leverage[4], rtol=1e-8)


def test_triangular_systems_both_ways(rng, to_array):
    lower = np.tril(rng.normal(size=(4, 4))) + 4 * np.eye(4)
    right = rng.normal(size=(4, 2))
    for convert in (np.asarray, to_array):
        L, b = convert(lower), convert(right)
        assert_allclose(np.asarray(solve_lower(L, b)), np.linalg.solve(lower, right))
        back = solve_lower(L, b, transposed=True)
        assert_allclose(np.asarray(back), np.linalg.solve(lower.T, right))


def test_primal_ridge_is_scikit_learns_and_equals_the_dual(rows, weights, rng):
    Y = rng.normal(size=(40, 2))
    blocks, P = _blocks(rows, 0.5, 2)
    coef, intercept, state = trbf.ridge_primal(blocks, Y, weights, 0.1)
    reference = Ridge(alpha=0.1, tol=1e-12).fit(P, Y, sample_weight=weights)
    assert_allclose(coef.T, reference.coef_, atol=1e-9)
    assert_allclose(intercept, reference.intercept_, atol=1e-9)
    K = P @ P.T
    dual, dual_intercept, leverage = trbf.ridge_dual(K, Y, weights, 0.1)
    assert_allclose(K @ dual + dual_intercept, P @ coef + intercept, atol=1e-10)
    fitted = trbf.fitted_and_leverage(blocks, coef, intercept, float(weights.sum()), state)
    assert_allclose(fitted[0], P @ coef + intercept, atol=1e-12)
    assert_allclose(fitted[1], leverage, atol=1e-10)


def test_leave_one_out_formula_equals_refitting(rows, rng):
    Y, weights = rng.normal(size=(40, 1)), np.ones(40)
    blocks, P = _blocks(rows, 0.5, 2)
    fit = trbf.ridge_primal(blocks, Y, weights, 0.1)
    fitted = trbf.fitted_and_leverage(blocks, *fit[:2], 40.0, fit[2])
    scores = trbf.leave_one_out_scores(Y, *fitted, weights)
    for i in (0, 17, 39):
        kept = np.arange(40) != i
        refit = Ridge(alpha=0.1, tol=1e-12).fit(P[kept], Y[kept])
        assert_allclose(scores[i], refit.predict(P[i : i + 1])[0], atol=1e-8)
