"""Batches of local fits: definitions written out, scikit-learn's optima, corner cases."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import brentq
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge

from vicinal._kernels.local import _batched
from vicinal._kernels.local._batched import (
    NewtonProblem,
    batched_least_squares,
    batched_newton,
    batched_ridge,
    batched_ridge_values,
    batched_slopes,
    batched_vote,
    gradient_outer_product,
    is_small,
    metric_step,
    one_class_scores,
    small_equivalent_kernels,
    small_slopes,
    solve_positive,
)
from vicinal._kernels.local._polynomials import ridge_equivalent_kernels, ridge_slopes
from vicinal._kernels.local._workspace import Queries


@pytest.fixture(params=[3, 9], ids=["tall", "wide"])
def batch(request, rng):
    """Five neighbourhoods of six rows, in fewer and in more columns than rows."""
    X, Y = rng.normal(size=(40, request.param)), rng.normal(size=(40, 2))
    indices = np.array([rng.permutation(40)[:6] for _ in range(5)])
    weights = rng.uniform(0.2, 1.0, (5, 6))
    weights[0, 4:] = 0.0
    return X, Y, rng.normal(size=(5, request.param)), indices, weights


def scikit_ridge(X, Y, q, rows, w, lam):
    return Ridge(alpha=lam, solver="svd").fit(X[rows] - q, Y[rows], sample_weight=w)


def spread(X, rows, w):
    centred = X[rows] - np.average(X[rows], axis=0, weights=w)
    return (w[:, None] * centred**2).sum()


@pytest.mark.parametrize("relative", [True, False])
def test_ridge_is_scikit_learns_on_every_neighbourhood(batch, relative):
    X, Y, Q, indices, weights = batch
    alphas = [0.1, 3.0]
    values = batched_ridge_values(X, Y, Q, indices, weights, alphas, relative=relative)
    slopes = [batched_slopes(X, Y, Q, indices, weights, a, relative=relative) for a in alphas]
    for t, (q, rows, w) in enumerate(zip(Q, indices, weights, strict=True)):
        for a, alpha in enumerate(alphas):
            lam = alpha * spread(X, rows, w) / X.shape[1] if relative else alpha
            model = scikit_ridge(X, Y, q, rows, w, lam)
            assert_allclose(values[a][t], model.intercept_, rtol=1e-8)
            assert_allclose(slopes[a][t], model.coef_, rtol=1e-8, atol=1e-10)


def test_equivalent_kernels_give_the_values_and_sum_to_one(batch):
    X, Y, Q, indices, weights = batch
    values = batched_ridge_values(X, Y, Q, indices, weights, [0.3], relative=True)[0]
    kernel = batched_ridge(X, Q, indices, weights, [0.3], relative=True)[0]
    assert_allclose(np.einsum("qk,qko->qo", kernel, Y[indices]), values, rtol=1e-9)
    assert_allclose(kernel.sum(axis=1), 1.0)
    assert_array_equal(kernel[0, 4:], 0.0)


def test_a_large_penalty_leaves_the_mean_and_a_small_one_the_line(rng):
    X = rng.normal(size=(8, 2))
    Y = (X @ [2.0, -1.0] + 3.0)[:, None]
    Q, indices, weights = np.zeros((1, 2)), np.arange(8)[None], np.ones((1, 8))
    far, near = batched_ridge_values(X, Y, Q, indices, weights, [1e12, 1e-12], relative=True)
    assert_allclose(far[0, 0], Y.mean(), rtol=1e-9)
    assert_allclose(near[0, 0], 3.0, rtol=1e-9)


def test_rows_without_spread_give_their_mean_and_no_slope():
    X = np.repeat([[2.0, 5.0]], 4, axis=0)
    Y = np.array([[0.0], [1.0], [2.0], [9.0]])
    Q, indices, weights = np.array([[0.0, 1.0]]), np.arange(4)[None], np.ones((1, 4))
    assert_allclose(
        batched_ridge_values(X, Y, Q, indices, weights, [0.1], relative=True), [[[3.0]]]
    )
    assert_array_equal(
        batched_slopes(X, Y, Q, indices, weights, 0.1, relative=True), [[[0.0, 0.0]]]
    )


def test_least_squares_is_the_unpenalised_line(rng):
    X, Y, q = rng.normal(size=(9, 3)), rng.normal(size=9), rng.normal(size=3)
    w = rng.uniform(0.5, 1.0, 9)
    kernel = batched_least_squares(X, q[None], np.arange(9)[None], w[None])[0]
    assert_allclose(kernel @ Y, LinearRegression().fit(X - q, Y, w).intercept_, rtol=1e-9)


def test_votes_by_hand():
    smoother = np.array([[0.5, 0.3, 0.2], [0.1, 0.1, 0.8]])
    labels = np.array([[0, 2, 0], [1, 1, 2]])
    assert_allclose(batched_vote(smoother, labels, 3), [[0.7, 0.0, 0.3], [0.0, 0.2, 0.8]])


def test_outer_product_by_hand():
    slopes = np.array([[[1.0, 2.0]], [[0.0, 3.0]]])
    product = 3.0 * gradient_outer_product(slopes, np.array([1.0, 2.0]))
    assert_allclose(product, [[1.0, 2.0], [2.0, 22.0]])


def test_metric_step_is_the_fourth_root_of_the_product():
    G = np.diag([16.0, 1.0])
    step = metric_step(G, floor=0.0)
    assert_allclose(step, np.diag([2.0, 1.0]) * np.sqrt(2 / 5))
    assert_allclose((metric_step(G, floor=0.1) ** 2).sum(), 2.0)
    turned = np.array([[2.0, 1.0], [1.0, 2.0]])
    assert_allclose(metric_step(turned, floor=0.0, diagonal=True), np.eye(2))
    assert_allclose(metric_step(np.zeros((2, 2)), floor=0.1), np.eye(2))
    # A value at the rounding error of the largest one is zero, not its fourth root.
    assert_array_equal(metric_step(np.diag([1e-14, 1.0]), floor=0.0)[0], 0.0)


@pytest.mark.parametrize("rho", [1e-6, 0.5, 20.0])
def test_the_score_of_one_class_solves_its_equation(rho):
    total, C = np.array([7.0]), 2.0
    hinge = one_class_scores(total, np.array([rho]), C=C, loss="squared_hinge")[0]
    assert_allclose(C * 7.0 * (1.0 - hinge), rho * hinge)
    logistic = one_class_scores(total, np.array([rho]), C=C, loss="log_loss")[0]
    root = brentq(lambda b: C * 7.0 / (1.0 + np.exp(b)) - rho * b, 0.0, 60.0, xtol=1e-13)
    assert_allclose(logistic, root, rtol=1e-9)


def test_one_class_without_penalty_is_certain():
    assert one_class_scores(np.ones(1), np.zeros(1), C=1.0, loss="log_loss")[0] == np.inf


@pytest.fixture
def labelled(rng):
    offsets = rng.normal(size=(4, 12, 2))
    y = np.where(offsets[:, :, 0] + 0.8 * rng.normal(size=(4, 12)) > 0, 1.0, -1.0)
    return offsets, y, rng.uniform(0.2, 1.0, (4, 12))


def newton(offsets, y, weights, loss, rho=0.0, **options):
    penalties = np.full(len(y), 0.7), np.full(len(y), rho)
    limits = {"tol": 1e-10, "max_iter": 100, **options}
    return batched_newton(NewtonProblem(offsets, y, 1.5 * weights, *penalties), loss, **limits)


def test_logistic_newton_is_scikit_learns_optimum(labelled):
    offsets, y, weights = labelled
    theta, converged = newton(offsets, y, weights, "log_loss")
    assert converged.all()
    for t in range(4):
        model = LogisticRegression(C=1.5 / 0.7, tol=1e-12, max_iter=10_000)
        model.fit(offsets[t], y[t], weights[t])
        assert_allclose(theta[t], [*model.coef_[0], *model.intercept_], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("loss", ["log_loss", "squared_hinge"])
def test_the_gradient_vanishes_at_the_minimum(labelled, loss):
    offsets, y, weights = labelled
    theta, _ = newton(offsets, y, weights, loss, rho=0.3)
    margins = y * ((offsets @ theta[:, :2, None])[..., 0] + theta[:, 2:])
    slope = -np.maximum(1 - margins, 0) if loss == "squared_hinge" else -1 / (1 + np.exp(margins))
    pull = 1.5 * weights * slope * y
    assert_allclose((pull[..., None] * offsets).sum(axis=1) + 0.7 * theta[:, :2], 0.0, atol=1e-8)
    assert_allclose(pull.sum(axis=1) + 0.3 * theta[:, 2], 0.0, atol=1e-8)


@pytest.mark.parametrize("loss", ["log_loss", "squared_hinge"])
def test_more_columns_than_rows_are_solved_in_the_span_of_the_rows(rng, loss):
    offsets = rng.normal(size=(3, 5, 8))
    y = np.where(rng.uniform(size=(3, 5)) > 0.5, 1.0, -1.0)
    weights = np.ones((3, 5))
    wide, _ = newton(offsets, y, weights, loss, rho=0.2)
    # Rows of weight zero make the same problem tall.
    more = np.concatenate([offsets, rng.normal(size=(3, 6, 8))], axis=1)
    tall, _ = newton(
        more,
        np.concatenate([y, np.ones((3, 6))], axis=1),
        np.concatenate([weights, np.zeros((3, 6))], axis=1),
        loss,
        rho=0.2,
    )
    assert_allclose(wide, tall, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("loss", ["log_loss", "squared_hinge"])
def test_steps_that_overshoot_are_halved_until_the_objective_falls(labelled, loss):
    offsets, y, weights = labelled
    problem = NewtonProblem(offsets, y, weights, np.full(4, 0.7), np.full(4, 0.1))
    theta, factors = np.zeros((4, 3)), np.array([1.0, 3.0, 30.0, 300.0])

    def objective(at):
        return _batched._objective(problem, at, _batched._margins(problem, at), loss)

    margins = _batched._margins(problem, theta)
    step, slope = _batched._newton_step(problem, theta, margins, loss)
    step, slope = step * factors[:, None], slope * factors
    change, value = _batched._margins(problem, step), objective(theta)
    length, found = _batched._step_length(problem, theta, value, margins, step, change, slope, loss)
    assert length[0] == 1.0
    assert (length[2:] < 1.0).all()
    assert_array_equal(np.exp2(np.round(np.log2(length))), length)
    assert_allclose(found, objective(theta + length[:, None] * step), rtol=1e-12)
    assert (found < value).all()
    # Twice the length of a shortened step does not lower the objective enough.
    twice = objective(theta + 2.0 * length[:, None] * step)
    least = value - _batched._ARMIJO * 2.0 * length * slope
    assert (twice > least)[length < 1.0].all()


def test_each_neighbourhood_is_solved_as_if_alone(labelled):
    together, _ = newton(*labelled, "log_loss", rho=0.1)
    for t in range(4):
        alone, _ = newton(*(part[t : t + 1] for part in labelled), "log_loss", rho=0.1)
        assert_allclose(together[t], alone[0], rtol=1e-9)


def test_one_step_is_not_called_converged(labelled):
    _, converged = newton(*labelled, "log_loss", max_iter=1)
    assert not converged.any()


def test_single_precision_is_polished(labelled):
    exact, _ = newton(*labelled, "log_loss", rho=0.1)
    offsets, y, weights = (part.astype(np.float32) for part in labelled)
    penalties = np.full(4, 0.7, dtype=np.float32), np.full(4, 0.1, dtype=np.float32)
    problem = NewtonProblem(offsets, y, np.float32(1.5) * weights, *penalties)
    theta, converged = batched_newton(problem, "log_loss", tol=1e-6, max_iter=100)
    assert theta.dtype == np.float32
    assert converged.all()
    assert_allclose(theta, exact, rtol=1e-4, atol=1e-5)


def test_systems_of_unlike_scales_are_solved(rng):
    scale = np.array([1e-8, 1.0, 1e6])
    A = rng.normal(size=(3, 3))
    H = scale[:, None] * (A @ A.T + 3 * np.eye(3)) * scale
    x = 1.0 / scale
    assert_allclose(solve_positive(H[None], (H @ x)[None, :, None])[0, :, 0], x, rtol=1e-6)
    # A coefficient that nothing constrains stays where it is.
    H[1], H[:, 1] = 0.0, 0.0
    assert solve_positive(H[None], np.zeros((1, 3, 1)))[0, 1, 0] == 0.0


# --- small tables in NumPy ---

ALPHAS = np.array([0.01, 0.5, 20.0])


@pytest.fixture(params=[1, 2], ids=["degree 1", "degree 2"])
def problem(rng, request):
    """Neighbourhoods of many lengths, one empty, one flat, wide and tall."""
    X, Q = rng.normal(size=(60, 4)), rng.normal(size=(9, 4))
    X[:3] = X[0]
    sizes = [0, 3, 1, 2, 30, 17, 60, 4, 9]
    indices = [np.arange(size) if size == 3 else rng.permutation(60)[:size] for size in sizes]
    indptr = np.concatenate([[0], np.cumsum(sizes)])
    weights = rng.uniform(0.1, 2.0, indptr[-1])
    return Queries(X, Q, indptr, np.concatenate(indices).astype(np.int64), weights, request.param)


@pytest.mark.parametrize("batch", [1, 1 << 16])
def test_kernels_equal_the_compiled_ones(problem, monkeypatch, batch):
    monkeypatch.setattr(_batched, "_BATCH", batch)
    shape, skip = (len(ALPHAS), len(problem.indices)), np.arange(9) == 5
    small, compiled = np.full(shape, np.nan), np.full(shape, np.nan)
    small_equivalent_kernels(problem, ALPHAS, skip, small)
    ridge_equivalent_kernels(problem, ALPHAS, True, skip, compiled, np.ones(9, dtype=bool))
    assert_allclose(small, compiled, rtol=1e-10, atol=1e-12)


def test_slopes_equal_the_compiled_ones(problem, rng):
    Y = rng.normal(size=(60, 2))
    small, compiled = np.zeros((9, 2, 4)), np.zeros((9, 2, 4))
    small_slopes(problem, Y, 0.1, small)
    ridge_slopes(problem, Y, 0.1, True, compiled, np.ones(9, dtype=bool))
    assert_allclose(small, compiled, rtol=1e-9, atol=1e-12)


def test_what_needs_care_is_not_small(problem):
    assert is_small(problem, ALPHAS, relative=True)
    assert not is_small(problem, ALPHAS, relative=False)
    assert not is_small(problem, 1e-9, relative=True)
    assert not is_small(problem, np.inf, relative=True)
    assert not is_small(problem._replace(X=1e90 * problem.X), ALPHAS, relative=True)
    many = np.arange(0, 2_000_001, 20)
    assert not is_small(problem._replace(indptr=many), ALPHAS, relative=True)
    assert not is_small(problem._replace(X=np.ones((1000, 4))), ALPHAS, relative=True)
