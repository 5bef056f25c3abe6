"""The logistic and squared-hinge solvers: derivatives, optima, warm starts, weights."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.optimize import approx_fprime, minimize
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

from vicinal._kernels.linear import _logistic, _logistic_steps, _squared_hinge
from vicinal._kernels.linear import _objective as _linear_model
from vicinal._kernels.linear._lbfgs import answer_all, minimize_lbfgs
from vicinal._kernels.linear._logistic import (
    fit_logistic,
    logistic_loss,
    multinomial_blocks,
    multinomial_value_gradient,
)
from vicinal._kernels.linear._objective import margin_value_gradient, weighted_gram
from vicinal._kernels.linear._squared_hinge import fit_squared_hinge, squared_hinge_loss

LOSSES = {"logistic": logistic_loss, "squared_hinge": squared_hinge_loss}
FITS = {"logistic": fit_logistic, "squared_hinge": fit_squared_hinge}


@pytest.fixture(params=[2, 4])
def data(request, rng):
    n_classes = request.param
    codes = rng.randint(n_classes, size=150)
    X = rng.normal(size=(150, 6)) + 0.7 * rng.normal(size=(n_classes, 6))[codes]
    return X, codes, n_classes, rng.uniform(0.2, 2.0, size=150)


@pytest.fixture(params=["newton", "gram metric", "diagonal metric"])
def path(request, monkeypatch):
    """Force each of the three ways to solve."""
    if request.param != "newton":
        monkeypatch.setattr(_logistic, "NEWTON_FEATURES", 0)
        monkeypatch.setattr(_logistic_steps, "NEWTON_FEATURES", 0)
        monkeypatch.setattr(_squared_hinge, "_NEWTON_FEATURES", 0)
    if request.param == "diagonal metric":
        monkeypatch.setattr(_linear_model, "GRAM_FEATURES", 0)
        monkeypatch.setattr(_logistic_steps, "GRAM_FEATURES", 0)


@pytest.mark.parametrize("kind", [sparse.csr_matrix, sparse.csr_array])
def test_sparse_matrices_and_arrays_give_the_dense_fit(data, kind):
    X, codes, n_classes, weights = data
    X = np.where(X > 0, X, 0.0)
    dense = fit_logistic(X, codes, weights, n_classes, alpha=1.0, tol=1e-10)
    rows = fit_logistic(kind(X), codes, weights, n_classes, alpha=1.0, tol=1e-10)
    assert_allclose(rows.coef, dense.coef, atol=1e-5)


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_steps_answered_by_two_halves_of_the_rows_end_where_the_fit_does(data, path, fit_intercept):
    X, codes, n_classes, weights = data
    options = {"alpha": 0.5, "fit_intercept": fit_intercept, "tol": 1e-4, "max_iter": 50}
    whole = fit_logistic(X, codes, weights, n_classes, **options)

    def answer(question):
        halves = [
            _logistic_steps.logistic_sums(X[h], codes[h], weights[h], n_classes, question)
            for h in (slice(0, 40), slice(40, None))
        ]
        return tuple(a + b for a, b in zip(*halves, strict=True))

    steps = _logistic_steps.logistic_steps(weights.sum(), 6, n_classes, start=None, **options)
    coef, intercept = answer_all(steps, answer)
    assert_allclose(coef, whole.coef, atol=1e-10)
    assert_allclose(intercept, whole.intercept, atol=1e-10)


@pytest.mark.parametrize("name", sorted(LOSSES))
def test_margin_losses_by_differences(rng, name):
    loss = LOSSES[name]
    scores, signs = rng.normal(size=20) * 3, np.where(rng.uniform(size=20) < 0.5, 1.0, -1.0)
    weights = rng.uniform(size=20)
    slopes, curvatures, unused = np.empty(20), np.empty(20), np.empty(20)
    loss(scores, signs, weights, slopes, curvatures)
    step = 1e-6
    for i in range(20):
        sides = []
        for shift in (step, -step):
            moved, moved_slopes = scores.copy(), np.empty(20)
            moved[i] += shift
            sides.append((loss(moved, signs, weights, moved_slopes, unused), moved_slopes[i]))
        assert_allclose((sides[0][0] - sides[1][0]) / (2 * step), slopes[i], atol=1e-7)
        assert_allclose((sides[0][1] - sides[1][1]) / (2 * step), curvatures[i], atol=1e-7)


def test_margin_losses_by_hand():
    slopes, curvatures = np.empty(2), np.empty(2)
    scores, signs, weights = np.array([0.0, 0.5]), np.array([1.0, -1.0]), np.array([1.0, 2.0])
    assert_allclose(
        logistic_loss(scores, signs, weights, slopes, curvatures),
        np.log(2) + 2 * np.log1p(np.exp(0.5)),
    )
    assert_allclose(slopes[0], -0.5)
    assert_allclose(curvatures[0], 0.25)
    assert_allclose(squared_hinge_loss(scores, signs, weights, slopes, curvatures), 1 + 2 * 1.5**2)
    assert_array_equal(slopes, [-2.0, 6.0])
    assert_array_equal(curvatures, [2.0, 4.0])


def test_logistic_loss_does_not_overflow():
    slopes, curvatures = np.empty(2), np.empty(2)
    value = logistic_loss(np.array([1e4, -1e4]), np.ones(2), np.ones(2), slopes, curvatures)
    assert value == 1e4
    assert_array_equal(slopes, [0.0, -1.0])


@pytest.mark.parametrize("name", sorted(LOSSES))
def test_margin_gradient_by_differences(data, rng, name):
    X, codes, _, weights = data
    signs = np.where(codes == 1, 1.0, -1.0)
    parameters = rng.normal(size=7)

    def value(p):
        return margin_value_gradient(p, X, signs, weights, LOSSES[name], 0.3)[0]

    _, gradient = margin_value_gradient(parameters, X, signs, weights, LOSSES[name], 0.3)
    assert_allclose(gradient, approx_fprime(parameters, value, 1e-7), rtol=1e-4, atol=1e-4)


def test_multinomial_gradient_by_differences(data, rng):
    X, codes, _, weights = data
    blocks = multinomial_blocks(X, codes, weights, 4)
    parameters = rng.normal(size=28)
    _, gradient = multinomial_value_gradient(parameters, blocks, 4, 0.3)
    numeric = approx_fprime(
        parameters, lambda p: multinomial_value_gradient(p, blocks, 4, 0.3)[0], 1e-7
    )
    assert_allclose(gradient, numeric, rtol=1e-4, atol=1e-4)


def test_multinomial_value_at_zero_is_the_log_of_the_number_of_classes(data):
    X, codes, _, weights = data
    blocks = multinomial_blocks(X, codes, weights, 4)
    value, _ = multinomial_value_gradient(np.zeros(28), blocks, 4, 1.0)
    assert_allclose(value, weights.sum() * np.log(4))


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_logistic_equals_scikit_learn(data, path, fit_intercept):
    X, codes, n_classes, weights = data
    fitted = fit_logistic(
        X,
        codes,
        weights,
        n_classes,
        alpha=0.5,
        fit_intercept=fit_intercept,
        tol=1e-9,
        max_iter=500,
    )
    theirs = LogisticRegression(
        C=2.0, fit_intercept=fit_intercept, tol=1e-10, max_iter=5000, solver="newton-cholesky"
    ).fit(X, codes, sample_weight=weights)
    assert fitted.converged
    assert_allclose(fitted.coef, theirs.coef_, atol=1e-6)
    # Intercepts of more than two classes are determined up to a constant.
    offset = fitted.intercept - theirs.intercept_
    assert_allclose(offset - (offset.mean() if n_classes > 2 else 0.0), 0.0, atol=1e-6)


@pytest.mark.parametrize("sparse_input", [False, True])
def test_squared_hinge_equals_liblinear(data, path, sparse_input):
    """Without an intercept both solve the same problem."""
    X, codes, n_classes, weights = data
    fitted = fit_squared_hinge(
        sparse.csr_array(X) if sparse_input else X,
        codes,
        weights,
        n_classes,
        alpha=0.5,
        fit_intercept=False,
        tol=1e-10,
        max_iter=500,
    )
    theirs = LinearSVC(C=2.0, fit_intercept=False, dual=False, tol=1e-12, max_iter=10000)
    theirs.fit(X, codes, sample_weight=weights)
    assert_allclose(fitted.coef, theirs.coef_, atol=1e-6)
    assert_array_equal(fitted.intercept, 0.0)


def test_squared_hinge_with_intercept_is_the_minimum(data, path):
    X, codes, n_classes, weights = data
    fitted = fit_squared_hinge(X, codes, weights, n_classes, alpha=0.5, tol=1e-10, max_iter=500)
    total = 0.0
    for row, positive in enumerate([1] if n_classes == 2 else range(n_classes)):
        signs = np.where(codes == positive, 1.0, -1.0)
        best = minimize(
            margin_value_gradient,
            np.zeros(7),
            (X, signs, weights, squared_hinge_loss, 0.5),
            jac=True,
            options={"gtol": 1e-6},
        )
        assert_allclose(fitted.coef[row], best.x[:-1], atol=1e-4)
        assert_allclose(fitted.intercept[row], best.x[-1], atol=1e-4)
        total += best.fun
    assert_allclose(fitted.value, total, rtol=1e-9)


@pytest.mark.parametrize("name", sorted(FITS))
def test_dense_equals_csr(data, name):
    X, codes, n_classes, weights = data
    X = np.where(np.abs(X) < 0.5, 0.0, X)
    dense, csr = (
        FITS[name](rows, codes, weights, n_classes, alpha=0.5, tol=1e-10, max_iter=500)
        for rows in (X, sparse.csr_array(X))
    )
    assert_allclose(csr.coef, dense.coef, atol=1e-7)
    assert_allclose(csr.value, dense.value, rtol=1e-10)


@pytest.mark.parametrize("name", sorted(FITS))
def test_warm_start_at_the_optimum_does_nothing(data, path, name):
    X, codes, n_classes, weights = data
    cold = FITS[name](X, codes, weights, n_classes, alpha=0.5, tol=1e-6, max_iter=500)
    warm = FITS[name](X, codes, weights, n_classes, alpha=0.5, tol=1e-5, start=cold[:2])
    assert warm.n_iter == 0
    assert_allclose(warm.coef, cold.coef)


@pytest.mark.parametrize("name", sorted(FITS))
def test_warm_start_saves_steps_and_ends_in_the_same_place(data, path, name):
    X, codes, n_classes, weights = data
    arguments = {"alpha": 0.5, "tol": 1e-8, "max_iter": 500}
    near = FITS[name](X, codes, weights, n_classes, **arguments)
    other = weights.copy()
    other[:3] *= 1.5
    cold = FITS[name](X, codes, other, n_classes, **arguments)
    warm = FITS[name](X, codes, other, n_classes, start=near[:2], **arguments)
    assert warm.n_iter <= cold.n_iter
    assert_allclose(warm.coef, cold.coef, atol=1e-6)


@pytest.mark.parametrize("name", sorted(FITS))
def test_weights_equal_repetition(data, name):
    X, codes, n_classes, _ = data
    counts = np.arange(150) % 3
    again = np.repeat(np.arange(150), counts)
    arguments = {"alpha": 0.5, "tol": 1e-11, "max_iter": 500}
    weighted = FITS[name](X, codes, counts.astype(float), n_classes, **arguments)
    repeated = FITS[name](X[again], codes[again], None, n_classes, **arguments)
    assert_allclose(weighted.coef, repeated.coef, atol=1e-8)


@pytest.mark.parametrize("name", sorted(FITS))
def test_too_few_steps_are_reported(data, name):
    X, codes, n_classes, weights = data
    fitted = FITS[name](X, codes, weights, n_classes, alpha=1e-6, tol=1e-12, max_iter=1)
    assert not fitted.converged
    assert fitted.n_iter == 1


@pytest.mark.parametrize("name", sorted(FITS))
def test_absent_class_never_wins(rng, name):
    X = rng.normal(size=(80, 3))
    codes = np.where(X[:, 0] > 0, 2, 0)
    fitted = FITS[name](X, codes, None, 3, alpha=1.0)
    assert np.isfinite(fitted.coef).all()
    assert not np.any((X @ fitted.coef.T + fitted.intercept).argmax(axis=1) == 1)


@pytest.mark.parametrize("name", sorted(FITS))
def test_float32_data_are_solved_in_double(data, name):
    X, codes, n_classes, weights = data
    fitted = FITS[name](X.astype(np.float32), codes, weights.astype(np.float32), n_classes, alpha=1)
    expected = FITS[name](X, codes, weights, n_classes, alpha=1)
    assert fitted.coef.dtype == np.float64
    assert_allclose(fitted.coef, expected.coef, atol=1e-3)


def test_blocks_do_not_change_the_gram(rng):
    from sklearn import config_context

    X, weights = rng.normal(size=(50, 3)), rng.uniform(size=50) * (rng.uniform(size=50) < 0.6)
    wide = np.hstack([X, np.ones((50, 1))])
    expected = wide.T @ (wide * weights[:, None])
    assert_allclose(weighted_gram(X, weights), expected, rtol=1e-12, atol=1e-12)
    with config_context(working_memory=48 * 7 / 2**20):
        assert_allclose(weighted_gram(X, weights), expected, rtol=1e-12, atol=1e-12)


def test_lbfgs_solves_a_quadratic_in_its_own_metric_at_once(rng):
    root = rng.normal(size=(6, 6))
    hessian = root @ root.T + np.eye(6)
    target = rng.normal(size=6)

    def value_gradient(x):
        gradient = hessian @ (x - target)
        return 0.5 * (x - target) @ gradient, gradient

    found = minimize_lbfgs(
        value_gradient,
        np.zeros(6),
        lambda q: np.linalg.solve(hessian, q),
        gradient_tol=1e-9,
        max_iter=10,
    )
    assert found.n_iter == 1
    assert_allclose(found.point, target, atol=1e-9)


def test_lbfgs_shortens_steps_that_overshoot():
    """A metric twenty times too long still leads to the minimum of cosh."""
    found = minimize_lbfgs(
        lambda x: (float(np.cosh(x[0])), np.sinh(x)),
        np.array([3.0]),
        lambda q: 20.0 * q,
        gradient_tol=1e-8,
        max_iter=50,
    )
    assert found.converged
    assert_allclose(found.point, 0.0, atol=1e-8)
