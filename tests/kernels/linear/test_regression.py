import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.optimize import approx_fprime
from scipy.stats import multivariate_normal
from sklearn import config_context
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.model_selection import LeaveOneOut, cross_val_predict

from vicinal._kernels.linear import _regression
from vicinal._kernels.linear._regression import (
    fit_logistic,
    gram_metric,
    gram_sums,
    lbfgs_steps,
    logistic_loss,
    logistic_steps,
    logistic_sums,
    multinomial_blocks,
    multinomial_value_gradient,
    penalised_factor,
    ridge_log_evidence,
    ridge_path,
    ridge_summary,
    run_steps,
    weighted_gram,
)


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


def test_signs_of_coefficients_bound_the_minimum(rng):
    Z, w = rng.normal(size=(40, 3)), rng.uniform(0.5, 2.0, 40)
    Y = Z @ rng.normal(size=(3, 2)) + rng.normal(size=(40, 2))
    free = ridge_path(Z, Y, w, [0.1])
    signs = np.sign(free.coef[0])
    assert_allclose(ridge_path(Z, Y, w, [0.1], signs).coef, free.coef, rtol=1e-8)
    signs[:, 0] *= -1.0
    signs[:, 1] = 0.0
    path = ridge_path(Z, Y, w, [0.1, 1.0], signs)
    centred, targets = Z - path.centre, Y - path.level
    unit = w @ (centred**2).sum(axis=1) / 3
    for coef, alpha in zip(path.coef, (0.1, 1.0), strict=True):
        gradient = coef @ (centred.T @ (w[:, None] * centred) + alpha * unit * np.eye(3))
        gradient -= (targets * w[:, None]).T @ centred
        # A bounded coefficient is zero, and the objective rises where its sign allows it to go.
        assert_array_equal(coef[:, 0], 0.0)
        assert (gradient[:, 0] * signs[:, 0] > 0.0).all()
        assert (coef[:, 2] * signs[:, 2] > 0.0).all()
        assert_allclose(gradient[:, 1:], 0.0, atol=1e-9)


def test_constant_columns_predict_the_mean():
    path = ridge_path(np.ones((4, 2)), np.arange(4.0)[:, None], None, [0.0, 1.0])
    assert_allclose(path.predict(np.array([[9.0, -9.0]])), 1.5)


def test_no_penalty_is_the_limit_of_a_small_one(rng):
    Z, Y = rng.normal(size=(20, 3)), rng.normal(size=(20, 1))
    path = ridge_path(Z, Y, None, [0.0, 1e-9])
    assert_allclose(path.coef[0], path.coef[1], rtol=1e-6)


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
        monkeypatch.setattr(_regression, "NEWTON_FEATURES", 0)
    if request.param == "diagonal metric":
        monkeypatch.setattr(_regression, "GRAM_FEATURES", 0)


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
            logistic_sums(X[h], codes[h], weights[h], n_classes, question)
            for h in (slice(0, 40), slice(40, None))
        ]
        return tuple(a + b for a, b in zip(*halves, strict=True))

    steps = logistic_steps(weights.sum(), 6, n_classes, start=None, **options)
    found = run_steps(steps, answer)
    assert_allclose(found.coef, whole.coef, atol=1e-10)
    assert_allclose(found.intercept, whole.intercept, atol=1e-10)
    assert (found.n_iter, found.converged) == (whole.n_iter, whole.converged)


def test_logistic_loss_by_differences(rng):
    scores, signs = rng.normal(size=20) * 3, np.where(rng.uniform(size=20) < 0.5, 1.0, -1.0)
    weights = rng.uniform(size=20)
    slopes, curvatures, unused = np.empty(20), np.empty(20), np.empty(20)
    logistic_loss(scores, signs, weights, slopes, curvatures)
    step = 1e-6
    for i in range(20):
        sides = []
        for shift in (step, -step):
            moved, moved_slopes = scores.copy(), np.empty(20)
            moved[i] += shift
            sides.append(
                (logistic_loss(moved, signs, weights, moved_slopes, unused), moved_slopes[i])
            )
        assert_allclose((sides[0][0] - sides[1][0]) / (2 * step), slopes[i], atol=1e-7)
        assert_allclose((sides[0][1] - sides[1][1]) / (2 * step), curvatures[i], atol=1e-7)


def test_logistic_loss_by_hand():
    slopes, curvatures = np.empty(2), np.empty(2)
    scores, signs, weights = np.array([0.0, 0.5]), np.array([1.0, -1.0]), np.array([1.0, 2.0])
    assert_allclose(
        logistic_loss(scores, signs, weights, slopes, curvatures),
        np.log(2) + 2 * np.log1p(np.exp(0.5)),
    )
    assert_allclose(slopes[0], -0.5)
    assert_allclose(curvatures[0], 0.25)


def test_logistic_loss_does_not_overflow():
    slopes, curvatures = np.empty(2), np.empty(2)
    value = logistic_loss(np.array([1e4, -1e4]), np.ones(2), np.ones(2), slopes, curvatures)
    assert value == 1e4
    assert_array_equal(slopes, [0.0, -1.0])


def test_sums_of_two_classes_by_differences(data, rng):
    X, codes, _, weights = data
    parameters = 0.3 * rng.normal(size=7)

    def sums(p):
        return logistic_sums(X, codes, weights, 2, p)

    _, gradient, curvature = sums(parameters)
    numeric = approx_fprime(parameters, lambda p: sums(p)[0], 1e-7)
    assert_allclose(gradient, numeric, rtol=1e-4, atol=1e-4)
    numeric = approx_fprime(parameters, lambda p: sums(p)[1], 1e-7)
    assert_allclose(curvature, numeric, rtol=1e-4, atol=1e-4)


def test_multinomial_gradient_by_differences(data, rng):
    X, codes, _, weights = data
    blocks = multinomial_blocks(X, codes, weights, 4)
    parameters = rng.normal(size=28)
    _, gradient = multinomial_value_gradient(parameters, blocks, 4)
    numeric = approx_fprime(parameters, lambda p: multinomial_value_gradient(p, blocks, 4)[0], 1e-7)
    assert_allclose(gradient, numeric, rtol=1e-4, atol=1e-4)


def test_multinomial_value_at_zero_is_the_log_of_the_number_of_classes(data):
    X, codes, _, weights = data
    blocks = multinomial_blocks(X, codes, weights, 4)
    value, _ = multinomial_value_gradient(np.zeros(28), blocks, 4)
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


def test_dense_equals_csr(data):
    X, codes, n_classes, weights = data
    X = np.where(np.abs(X) < 0.5, 0.0, X)
    dense, csr = (
        fit_logistic(rows, codes, weights, n_classes, alpha=0.5, tol=1e-10, max_iter=500)
        for rows in (X, sparse.csr_array(X))
    )
    assert_allclose(csr.coef, dense.coef, atol=1e-7)
    assert_allclose(csr.value, dense.value, rtol=1e-10)


def test_warm_start_at_the_optimum_does_nothing(data, path):
    X, codes, n_classes, weights = data
    cold = fit_logistic(X, codes, weights, n_classes, alpha=0.5, tol=1e-6, max_iter=500)
    warm = fit_logistic(X, codes, weights, n_classes, alpha=0.5, tol=1e-5, start=cold[:2])
    assert warm.n_iter == 0
    assert_allclose(warm.coef, cold.coef)


def test_warm_start_saves_steps_and_ends_in_the_same_place(data, path):
    X, codes, n_classes, weights = data
    arguments = {"alpha": 0.5, "tol": 1e-8, "max_iter": 500}
    near = fit_logistic(X, codes, weights, n_classes, **arguments)
    other = weights.copy()
    other[:3] *= 1.5
    cold = fit_logistic(X, codes, other, n_classes, **arguments)
    warm = fit_logistic(X, codes, other, n_classes, start=near[:2], **arguments)
    assert warm.n_iter <= cold.n_iter
    assert_allclose(warm.coef, cold.coef, atol=1e-6)


def test_weights_equal_repetition(data):
    X, codes, n_classes, _ = data
    counts = np.arange(150) % 3
    again = np.repeat(np.arange(150), counts)
    arguments = {"alpha": 0.5, "tol": 1e-11, "max_iter": 500}
    weighted = fit_logistic(X, codes, counts.astype(float), n_classes, **arguments)
    repeated = fit_logistic(X[again], codes[again], None, n_classes, **arguments)
    assert_allclose(weighted.coef, repeated.coef, atol=1e-8)


def test_too_few_steps_are_reported(data):
    X, codes, n_classes, weights = data
    fitted = fit_logistic(X, codes, weights, n_classes, alpha=1e-6, tol=1e-12, max_iter=1)
    assert not fitted.converged
    assert fitted.n_iter == 1


def test_absent_class_never_wins(rng):
    X = rng.normal(size=(80, 3))
    codes = np.where(X[:, 0] > 0, 2, 0)
    fitted = fit_logistic(X, codes, None, 3, alpha=1.0)
    assert np.isfinite(fitted.coef).all()
    assert not np.any((X @ fitted.coef.T + fitted.intercept).argmax(axis=1) == 1)


def test_float32_data_are_solved_in_double(data):
    X, codes, n_classes, weights = data
    fitted = fit_logistic(
        X.astype(np.float32), codes, weights.astype(np.float32), n_classes, alpha=1
    )
    expected = fit_logistic(X, codes, weights, n_classes, alpha=1)
    assert fitted.coef.dtype == np.float64
    assert_allclose(fitted.coef, expected.coef, atol=1e-3)


def test_blocks_do_not_change_the_gram(rng):
    X, weights = rng.normal(size=(50, 3)), rng.uniform(size=50) * (rng.uniform(size=50) < 0.6)
    wide = np.hstack([X, np.ones((50, 1))])
    expected = wide.T @ (wide * weights[:, None])
    assert_allclose(weighted_gram(X, weights), expected, rtol=1e-12, atol=1e-12)
    with config_context(working_memory=48 * 7 / 2**20):
        assert_allclose(weighted_gram(X, weights), expected, rtol=1e-12, atol=1e-12)


def test_factor_of_an_indefinite_hessian_is_that_of_a_slightly_larger_one():
    """The addition is a part of the largest entry of the diagonal, whatever the smallest is."""
    hessian = np.array([[1.0, 0.01 * (1.0 + 1e-6)], [0.01 * (1.0 + 1e-6), 1e-4]])
    assert np.linalg.eigvalsh(hessian)[0] < 0.0
    factor = np.tril(penalised_factor(hessian.copy(), 0.0))
    assert_allclose(factor @ factor.T, hessian + 1e-8 * np.eye(2), rtol=0.0, atol=2e-12)


def test_lbfgs_solves_a_quadratic_in_its_own_metric_at_once(rng):
    root = rng.normal(size=(6, 6))
    hessian = root @ root.T + np.eye(6)
    target = rng.normal(size=6)

    def value_gradient(x):
        gradient = hessian @ (x - target)
        return 0.5 * (x - target) @ gradient, gradient

    found = run_steps(
        lbfgs_steps(
            np.zeros(6), lambda q: np.linalg.solve(hessian, q), gradient_tol=1e-9, max_iter=10
        ),
        value_gradient,
    )
    assert found.n_iter == 1
    assert_allclose(found.point, target, atol=1e-9)


def test_lbfgs_shortens_steps_that_overshoot():
    """A metric twenty times too long still leads to the minimum of cosh."""
    found = run_steps(
        lbfgs_steps(np.array([3.0]), lambda q: 20.0 * q, gradient_tol=1e-8, max_iter=50),
        lambda x: (float(np.cosh(x[0])), np.sinh(x)),
    )
    assert found.converged
    assert_allclose(found.point, 0.0, atol=1e-8)


@pytest.mark.parametrize("is_sparse", [False, True])
def test_gram_metric_leaves_the_intercept_unpenalised(rng, is_sparse):
    X, weights, right = rng.normal(size=(40, 3)), rng.uniform(size=40), rng.normal(size=(4, 2))
    gram = gram_sums(sparse.csr_array(X) if is_sparse else X, weights)
    wide = np.hstack([X, np.ones((40, 1))])
    system = wide.T @ (wide * weights[:, None]) + np.diag([0.7, 0.7, 0.7, 0.0])
    if is_sparse:
        system = np.diag(np.diag(system))
    assert_allclose(gram_metric(gram, 0.7)(right), np.linalg.solve(system, right), rtol=1e-8)


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
