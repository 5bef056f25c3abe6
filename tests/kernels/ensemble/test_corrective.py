import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import approx_fprime
from sklearn.linear_model import Lasso, LogisticRegression

from vicinal._kernels.ensemble._corrective import (
    LeastSquaresRefit,
    corrective_coefficients,
    derivatives,
    l1_path,
    largest_useful_penalty,
    objective,
)
from vicinal._kernels.ensemble._losses import Logistic, Multinomial, SquaredError


@pytest.fixture
def members(rng):
    Phi = np.asfortranarray(np.column_stack([np.ones(120), rng.normal(size=(120, 5))]))
    score = Phi @ np.array([0.3, 1.0, -0.5, 0.0, 0.0, 0.2])
    return Phi, score + rng.normal(size=120), rng.uniform(0.5, 2.0, 120)


def test_least_squares_refit_equals_lstsq(members):
    Phi, y, w = members
    refit = LeastSquaresRefit(y, w, 6)
    for m in range(1, 7):
        refit.add(Phi[:, :m])
        root = np.sqrt(w)
        expected = np.linalg.lstsq(root[:, None] * Phi[:, :m], root * y, rcond=None)[0]
        assert_allclose(refit.solve(np.zeros(m)), expected, atol=1e-10)


def test_newton_equals_the_normal_equations_for_squared_error(members):
    Phi, y, w = members
    refit = LeastSquaresRefit(y, w, 6)
    refit.add(Phi)
    ridge = np.r_[0.0, np.full(5, 0.1)]
    found = corrective_coefficients(SquaredError(), y, w, Phi, np.zeros(6), ridge)
    assert_allclose(found, refit.solve(ridge), atol=1e-9)


def test_identical_members_share_their_coefficient(members):
    Phi, y, w = members
    refit = LeastSquaresRefit(y, w, 3)
    refit.add(np.asfortranarray(Phi[:, [0, 1, 1]]))
    found = refit.solve(np.zeros(3))
    assert_allclose(found[1], found[2], rtol=1e-6)


def test_logistic_refit_equals_scikit_learn(members):
    Phi, score, w = members
    y = (score > 0).astype(float)
    ridge = np.r_[0.0, np.full(5, 0.05)]
    found = corrective_coefficients(Logistic(), y, w, Phi, np.zeros(6), ridge)
    reference = LogisticRegression(C=1.0 / (0.05 * w.sum()), tol=1e-10, max_iter=10_000)
    reference.fit(Phi[:, 1:], y, sample_weight=w)
    assert_allclose(found[1:], reference.coef_[0], atol=1e-5)
    assert_allclose(found[0], reference.intercept_[0], atol=1e-5)


def test_multinomial_derivatives_agree_with_differences(rng):
    n, K, m = 30, 3, 4
    Phi = np.asfortranarray(rng.normal(size=(n * K, m)))
    y, share = rng.randint(0, K, n), rng.dirichlet(np.ones(n))
    theta, loss = rng.normal(size=m), Multinomial(K)
    gradient, hessian = derivatives(loss, y, share, Phi, theta)
    none = np.zeros(m)
    differences = approx_fprime(theta, lambda t: objective(loss, y, share, Phi, t, none), 1e-7)
    assert_allclose(gradient, differences, atol=1e-6)
    for j in range(m):
        step = 1e-5 * np.eye(m)[j]
        up = derivatives(loss, y, share, Phi, theta + step)[0]
        down = derivatives(loss, y, share, Phi, theta - step)[0]
        assert_allclose(hessian[j], (up - down) / 2e-5, atol=1e-7)


def test_l1_path_equals_lasso(members):
    Phi, y, _ = members
    w = np.ones(len(y))
    start = np.r_[y.mean(), np.zeros(5)]
    top = largest_useful_penalty(SquaredError(), y, w, Phi, 1, start)
    penalties = top * np.array([1.0, 0.3, 0.05])
    path = l1_path(SquaredError(), y, w, Phi, 1, penalties, start)
    assert not path[0, 1:].any()
    for penalty, theta in zip(penalties[1:], path[1:], strict=True):
        reference = Lasso(alpha=penalty, tol=1e-10).fit(Phi[:, 1:], y)
        assert_allclose(theta[1:], reference.coef_, atol=1e-5)
        assert_allclose(theta[0], reference.intercept_, atol=1e-5)


def test_l1_path_of_the_logistic_loss_is_stationary(members):
    Phi, score, w = members
    y, loss = (score > 0).astype(float), Logistic()
    start = np.r_[loss.constant(y, w), np.zeros(5)]
    top = largest_useful_penalty(loss, y, w, Phi, 1, start)
    penalty = 0.1 * top
    theta = l1_path(loss, y, w, Phi, 1, np.array([top, penalty]), start, tol=1e-13)[-1]
    gradient, _ = derivatives(loss, y, w / w.sum(), Phi, theta)
    assert abs(gradient[0]) < 1e-6
    active = theta[1:] != 0
    assert 0 < active.sum()
    assert_allclose(gradient[1:][active], -penalty * np.sign(theta[1:][active]), atol=1e-6)
    assert (np.abs(gradient[1:][~active]) <= penalty + 1e-6).all()
