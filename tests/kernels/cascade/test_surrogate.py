import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression

from vicinal._kernels.cascade._soft import (
    alternate_blocks,
    phi,
    surrogate_value,
)
from vicinal._kernels.linear._regression import newton_logistic


def test_phi_bounds_the_error():
    z = np.linspace(-5, 5, 101)
    assert np.all(phi(z) >= (z <= 0))
    assert_allclose(phi(np.zeros(1)), 1.0)


def test_value_by_hand():
    scores = np.array([[0.0], [0.0], [0.0]])
    thetas = np.array([[2.0, 9.0], [0, 0], [0, 0]])
    # phi = 1 everywhere: 1 + 1, plus alpha / 2 times 2^2; offsets are free.
    assert_allclose(surrogate_value(scores, np.ones(1), np.ones(1), thetas, 3.0), 2.0 + 6.0)


@pytest.fixture
def block(rng):
    Z = np.column_stack([rng.normal(size=(50, 3)), np.ones(50)])
    return Z, rng.uniform(size=50), rng.uniform(size=50)


def test_block_minimiser_equals_scikit_learn(block):
    Z, positive, negative = block
    theta = newton_logistic(Z, positive, negative, np.zeros(4), 0.5 * np.log(2))
    peer = LogisticRegression(C=1 / (0.5 * np.log(2)), tol=1e-12, max_iter=1000)
    labels = np.repeat([1, 0], 50)
    peer.fit(np.vstack([Z, Z])[:, :3], labels, sample_weight=np.r_[positive, negative])
    assert_allclose(theta, np.r_[peer.coef_[0], peer.intercept_], rtol=1e-4, atol=1e-6)


def test_block_minimiser_equals_a_general_optimiser(block):
    Z, a, b = block

    def value(theta):
        s = Z @ theta
        return a @ phi(s) + b @ phi(-s) + 0.25 * theta[:3] @ theta[:3]

    theta = newton_logistic(Z, a, b, np.full(4, 3.0), 0.5 * np.log(2))
    best = minimize(value, np.zeros(4), tol=1e-12)
    assert value(theta) <= best.fun + 1e-9


@pytest.mark.parametrize("seed", range(3))
def test_unpenalised_value_bounds_the_training_error(seed):
    rng = np.random.RandomState(seed)
    X = rng.uniform(-1, 1, size=(150, 2))
    signs = np.sign(X[:, 0] * X[:, 1])
    Z, weight = np.column_stack([X, np.ones(150)]), np.ones(150)
    for sweeps in (1, 2, 5, 20):
        thetas, _, _ = alternate_blocks(
            Z, signs, weight, 0.1, sweeps, 0.0, np.random.RandomState(seed)
        )
        scores = (Z @ thetas.T).T
        own = np.where(scores[0] > 0, scores[2], scores[1])
        assert np.mean(signs * own <= 0) <= surrogate_value(scores, signs, weight, thetas, 0.0)
