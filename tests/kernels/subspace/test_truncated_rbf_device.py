"""Truncated RBF ridge on another array library equals the host's, and its own definition."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn import config_context

from vicinal._kernels.calibration._temperature import fit_slope
from vicinal._kernels.subspace._truncated_rbf import (
    feature_blocks,
    monomial_plan,
    primal_leverage,
    ridge_dual,
    ridge_primal,
    truncated_rbf_features,
    truncated_rbf_kernel,
)
from vicinal._kernels.subspace._truncated_rbf_device import (
    device_dual_scores,
    device_feature_blocks,
    device_primal_leverage,
    device_ridge_dual,
    device_ridge_primal,
    device_scores,
    device_slope,
    plan_on_device,
    solve_lower,
)

torch = pytest.importorskip("torch")
GAMMA, ALPHA, ORDER = 0.2, 0.05, 2


@pytest.fixture
def data(rng):
    Z, Y, weights = rng.normal(size=(30, 3)), rng.normal(size=(30, 2)), rng.uniform(0.5, 2.0, 30)
    return Z, Y, weights


@pytest.fixture
def device_data(data):
    return tuple(torch.from_numpy(array) for array in data)


def test_triangular_systems_both_ways(rng):
    lower = np.tril(rng.normal(size=(4, 4))) + 4 * np.eye(4)
    right = rng.normal(size=(4, 2))
    for name in ("torch", "numpy"):
        L, b = (torch.from_numpy(a) if name == "torch" else a for a in (lower, right))
        assert_allclose(np.asarray(solve_lower(L, b)), np.linalg.solve(lower, right))
        back = solve_lower(L, b, transposed=True)
        assert_allclose(np.asarray(back), np.linalg.solve(lower.T, right))


def test_features_multiply_to_the_kernel(device_data):
    Z = device_data[0]
    plan = plan_on_device(monomial_plan(3, ORDER), Z)
    P = truncated_rbf_features(Z, GAMMA, plan)
    assert P.shape == (30, 10)
    assert_allclose(P @ P.T, truncated_rbf_kernel(Z, Z, GAMMA, ORDER), rtol=1e-10)


def test_the_primal_equals_the_host(data, device_data):
    Z, Y, weights = data
    plan = monomial_plan(3, ORDER)
    host_blocks = feature_blocks(Z, GAMMA, plan)
    coef, intercept, state = ridge_primal(host_blocks, Y, weights, ALPHA, plan.n_outputs)
    blocks = device_feature_blocks(device_data[0], GAMMA, plan)
    found = device_ridge_primal(blocks, *device_data[1:], ALPHA, plan.n_outputs)
    assert_allclose(found[0], coef, rtol=1e-8, atol=1e-10)
    assert_allclose(found[1], intercept, rtol=1e-8)
    leverage = device_primal_leverage(blocks, device_data[2].sum(), found[2])
    expected = primal_leverage(host_blocks, 30, weights.sum(), state)
    assert_allclose(leverage, expected, rtol=1e-8)


def test_the_primal_solves_its_normal_equations(data, device_data):
    Z, Y, weights = data
    plan = monomial_plan(3, ORDER)
    blocks = device_feature_blocks(device_data[0], GAMMA, plan)
    coef, intercept, _ = device_ridge_primal(blocks, *device_data[1:], ALPHA, plan.n_outputs)
    P = truncated_rbf_features(Z, GAMMA, plan)
    residual = weights[:, None] * (Y - P @ coef.numpy() - intercept.numpy())
    assert_allclose(residual.sum(axis=0), 0.0, atol=1e-10)
    assert_allclose(P.T @ residual, ALPHA * coef.numpy(), atol=1e-10)


def test_primal_and_dual_say_the_same(data, device_data):
    Z, Y, weights = device_data
    plan = monomial_plan(3, ORDER)
    blocks = device_feature_blocks(Z, GAMMA, plan)
    coef, intercept, state = device_ridge_primal(blocks, Y, weights, ALPHA, plan.n_outputs)
    K = truncated_rbf_kernel(Z, Z, GAMMA, ORDER)
    dual, free, leverage = device_ridge_dual(K, Y, weights, ALPHA)
    mean = torch.zeros(3, dtype=Z.dtype)
    straight = device_scores(Z, mean, GAMMA, plan, coef, intercept)
    around = device_dual_scores(Z, mean, GAMMA, ORDER, Z, dual, free)
    assert_allclose(straight, around, rtol=1e-7, atol=1e-9)
    assert_allclose(leverage, device_primal_leverage(blocks, weights.sum(), state), rtol=1e-7)
    host = ridge_dual(K.numpy(), data[1], data[2], ALPHA)
    for one, other in zip((dual, free, leverage), host, strict=True):
        assert_allclose(one, other, rtol=1e-7, atol=1e-9)


def test_leverage_is_the_slope_of_a_fitted_value(data):
    """Adding h to one target moves its own prediction by weight times leverage times h."""
    Z, Y, weights = (torch.from_numpy(array) for array in data)
    K = truncated_rbf_kernel(Z, Z, GAMMA, ORDER)
    dual, free, leverage = device_ridge_dual(K, Y, weights, ALPHA)
    moved = Y.clone()
    moved[4, 0] += 1.0
    dual_moved, free_moved, _ = device_ridge_dual(K, moved, weights, ALPHA)
    change = (K @ dual_moved + free_moved - K @ dual - free)[4, 0]
    assert_allclose(change, weights[4] * leverage[4], rtol=1e-8)


def test_answers_do_not_depend_on_the_blocks(device_data):
    Z, Y, weights = device_data
    plan = monomial_plan(3, ORDER)
    mean = torch.zeros(3, dtype=Z.dtype)

    def answers():
        blocks = device_feature_blocks(Z, GAMMA, plan)
        coef, intercept, _ = device_ridge_primal(blocks, Y, weights, ALPHA, plan.n_outputs)
        return device_scores(Z, mean, GAMMA, plan, coef, intercept)

    whole = answers()
    with config_context(working_memory=0.002):
        assert len(list(device_feature_blocks(Z, GAMMA, plan)())) > 1
        assert_allclose(answers(), whole, rtol=1e-9)


def test_the_slope_is_that_of_the_host(rng):
    scores, codes = rng.normal(size=(60, 3)), rng.randint(0, 3, 60)
    scores[np.arange(60), codes] += 0.7
    weights = rng.uniform(0.5, 2.0, 60)
    found = device_slope(*(torch.from_numpy(array) for array in (scores, codes, weights)))
    assert_allclose(found, fit_slope(scores, codes, weights), rtol=1e-9)
    flat = torch.zeros((4, 2), dtype=torch.float64)
    assert device_slope(flat, torch.tensor([0, 1, 0, 1]), torch.ones(4, dtype=torch.float64)) == 1.0
