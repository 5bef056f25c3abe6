import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from scipy.optimize import approx_fprime
from scipy.special import expit, softmax

from vicinal._kernels.cascade._soft import (
    fit_soft_cascade,
    gate_log_priors,
    mixture_loss_gradient,
    unpack,
)


@pytest.fixture
def problem(rng):
    n, d, r, c = 40, 3, 4, 3
    X, codes, weight = rng.normal(size=(n, d)), rng.randint(c, size=n), rng.uniform(size=n)
    theta = rng.normal(size=r * c * (d + 1) + (r - 1) * (d + 1))
    return X, codes, weight, r, c, theta


def test_priors_by_hand_and_sum_to_one():
    h = np.array([[0.0, 0.0], [3.0, -1.0]])
    s = expit(h)
    expected = np.column_stack([1 - s[:, 0], s[:, 0] * (1 - s[:, 1]), s[:, 0] * s[:, 1]])
    assert_allclose(np.exp(gate_log_priors(h)), expected)
    assert_allclose(np.exp(gate_log_priors(np.array([[800.0, -800.0]]))), [[0, 1, 0]], atol=1e-300)


def test_loss_is_the_mixture_likelihood(problem):
    X, codes, weight, r, c, theta = problem
    coefs, intercepts, gates, offsets = unpack(theta, r, c, 3)
    pi = np.exp(gate_log_priors(X @ gates.T + offsets))
    p = softmax(np.einsum("nd,rcd->nrc", X, coefs) + intercepts, axis=2)
    likelihood = (pi * p[np.arange(40), :, codes]).sum(axis=1)
    penalty = 0.5 * 2.0 * (np.sum(coefs**2) + np.sum(gates**2))
    expected = (-(weight @ np.log(likelihood)) + penalty) / weight.sum()
    assert_allclose(mixture_loss_gradient(theta, X, codes, weight, r, c, 2.0)[0], expected)


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
def test_gradient_agrees_with_differences(problem, make):
    X, codes, weight, r, c, theta = problem
    arguments = (make(X), codes, weight, r, c, 0.3)
    numeric = approx_fprime(theta, lambda t: mixture_loss_gradient(t, *arguments)[0], 1e-7)
    gradient = mixture_loss_gradient(theta, *arguments)[1]
    assert_allclose(gradient, numeric, rtol=1e-4, atol=1e-6)


def test_blocks_of_rows_add_up(rng):
    X, codes = rng.normal(size=(9000, 2)), rng.randint(2, size=9000)
    theta = rng.normal(size=2 * 2 * 3 + 3)
    loss, gradient = mixture_loss_gradient(theta, X, codes, np.ones(9000), 2, 2, 0.0)
    parts = [
        mixture_loss_gradient(theta, X[s], codes[s], np.ones(3000), 2, 2, 0.0)
        for s in (slice(0, 3000), slice(3000, 6000), slice(6000, 9000))
    ]
    assert_allclose(loss, np.mean([part[0] for part in parts]))
    assert_allclose(gradient, np.mean([part[1] for part in parts], axis=0))


def test_fit_decreases_the_objective_and_solves_xor(rng):
    X = rng.uniform(-1, 1, size=(300, 2))
    codes = (X[:, 0] * X[:, 1] > 0).astype(int)
    parameters, objectives, _ = fit_soft_cascade(
        X, codes, np.ones(300), 2, 2, 0.01, 300, 1e-6, np.random.RandomState(1)
    )
    assert np.all(np.diff(objectives) <= 1e-12)
    assert objectives[-1] < 0.15
    assert parameters[0].shape == (2, 2, 2)
