"""Local polynomials against definitions, scikit-learn and each other."""

from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from vicinal._kernels.local._batched import least_squares_fits
from vicinal._kernels.local._polynomials import (
    LinePoints,
    LineWindow,
    pseudo_inverse_fit,
    ridge_equivalent_kernels,
    ridge_slopes,
    smooth_line,
)
from vicinal._kernels.local._workspace import Queries


def queries(X, Q, sizes, weights, degree=1):
    indptr = np.concatenate([[0], np.cumsum(sizes)])
    indices = np.concatenate([np.arange(size) for size in sizes]).astype(np.int64)
    return Queries(X, Q, indptr, indices, weights, degree)


def kernels(problem, alpha, *, relative=False, skip=False):
    n_queries = len(problem.indptr) - 1
    out, solved = np.full((1, len(problem.indices)), np.nan), np.ones(n_queries, dtype=bool)
    ridge_equivalent_kernels(
        problem, np.array([alpha]), relative, np.full(n_queries, skip), out, solved
    )
    return out[0], solved


def slopes(problem, Y, alpha, *, relative=False):
    n_queries, d = problem.Q.shape
    out, solved = np.zeros((n_queries, Y.shape[1], d)), np.ones(n_queries, dtype=bool)
    ridge_slopes(problem, Y, alpha, relative, out, solved)
    return out, solved


def design_matrix(offsets, weights, degree):
    """Return the rows (1, x_i - q, products divided by the spread)."""
    columns = [np.ones((len(offsets), 1)), offsets]
    if degree == 2:
        d = offsets.shape[1]
        size = np.sqrt(weights @ (offsets**2).sum(axis=1) / (weights.sum() * d))
        columns += [
            offsets[:, [a]] * offsets[:, [b]] / size for a in range(d) for b in range(a + 1)
        ]
    return np.hstack(columns)


def dense(X, q, w, Y, alpha, relative, degree):
    """Solve for (slopes, intercept) of the penalised problem with one dense system."""
    D = design_matrix(X - q, w, degree)[:, 1:]
    centred = D - w @ D / w.sum()
    V = (centred * w[:, None]).T @ centred
    lam = alpha * np.trace(V) / D.shape[1] if relative else alpha
    B = np.linalg.solve(V + lam * np.eye(len(V)), (centred * w[:, None]).T @ Y)
    level = w @ Y / w.sum() - (w @ D / w.sum()) @ B
    return level, B[: X.shape[1]].T


@pytest.mark.parametrize("degree", [1, 2])
@pytest.mark.parametrize("relative", [False, True])
@pytest.mark.parametrize(("k", "d"), [(30, 3), (5, 8)])
@pytest.mark.parametrize("constant", [[], [1]])
def test_fit_equals_a_dense_solve(rng, degree, relative, k, d, constant):
    X, Q = rng.normal(size=(k, d)), rng.normal(size=(2, d))
    X[:, constant] = 0.3
    Y, w = rng.normal(size=(k, 2)), rng.uniform(0.1, 2.0, 2 * k)
    problem = queries(X, Q, [k, k], w, degree)
    smoother, solved = kernels(problem, 0.7, relative=relative)
    found, _ = slopes(problem, Y, 0.7, relative=relative)
    assert solved.all()
    for t in (0, 1):
        part = slice(t * k, (t + 1) * k)
        level, B = dense(X, Q[t], w[part], Y, 0.7, relative, degree)
        assert_allclose(smoother[part] @ Y, level, rtol=1e-10, atol=1e-12)
        assert_allclose(found[t], B, rtol=1e-9, atol=1e-11)


def test_two_points_by_hand():
    """Rows -1 and 1 about 0, targets 0 and 2: V = 2, so that the slope is 2 / (2 + alpha)."""
    problem = queries(np.array([[-1.0], [1.0]]), np.array([[0.5]]), [2], np.ones(2))
    found, _ = slopes(problem, np.array([[0.0], [2.0]]), 2.0)
    assert_allclose(found[0, 0, 0], 0.5)
    smoother, _ = kernels(problem, 2.0)
    # The mean 1, and half of the way from the mean of the rows to the query.
    assert_allclose(smoother @ [0.0, 2.0], 1.0 + 0.5 * 0.5)


def test_equivalent_kernel_sums_to_one_and_scales_with_nothing(rng):
    X, q, w = rng.normal(size=(12, 3)), rng.normal(size=(1, 3)), rng.uniform(0.5, 1.0, 12)
    plain, _ = kernels(queries(X, q, [12], w), 0.3, relative=True)
    assert_allclose(plain.sum(), 1.0)
    for unit, weight in ((1e300, 1.0), (1e-300, 1.0), (1.0, 1e12), (1.0, 1e-200)):
        scaled, solved = kernels(queries(unit * X, unit * q, [12], weight * w), 0.3, relative=True)
        assert solved.all()
        assert_allclose(scaled, plain, rtol=1e-9, atol=1e-12)


def test_far_queries_keep_their_digits(rng):
    """The rows are centred before they are squared."""
    X, w = rng.normal(size=(15, 2)), np.ones(15)
    near, _ = slopes(queries(X, np.zeros((1, 2)), [15], w), X[:, :1] * 3.0, 1e-9)
    far, _ = slopes(queries(X, np.full((1, 2), 1e6), [15], w), X[:, :1] * 3.0, 1e-9)
    assert_allclose(near[0, 0], [3.0, 0.0], atol=1e-8)
    assert_allclose(far[0, 0], near[0, 0], atol=1e-8)


@pytest.mark.parametrize("case", ["one row", "equal rows", "degree 0", "skipped"])
def test_without_spread_the_weighted_mean_answers(rng, case):
    k = 1 if case == "one row" else 4
    X = np.ones((4, 2)) if case == "equal rows" else rng.normal(size=(4, 2))
    w = np.array([1.0, 2.0, 3.0, 4.0])[:k]
    problem = queries(X, np.zeros((1, 2)), [k], w, 0 if case == "degree 0" else 1)
    smoother, solved = kernels(problem, 0.1, skip=case == "skipped")
    assert solved.all()
    assert_allclose(smoother, w / w.sum())
    if case != "skipped":
        assert not slopes(problem, rng.normal(size=(4, 1)), 0.1)[0].any()


def test_an_empty_neighbourhood_writes_nothing(rng):
    X, Q = rng.normal(size=(6, 2)), rng.normal(size=(3, 2))
    problem = queries(X, Q, [6, 0, 3], rng.uniform(0.5, 1, 9))
    smoother, solved = kernels(problem, 0.5)
    assert solved.all()
    assert np.isfinite(smoother).all()
    found, _ = slopes(problem, X, 0.5)
    assert not found[1].any()
    assert found[[0, 2]].all()


def test_a_singular_system_is_reported_and_falls_back_to_the_mean(rng):
    X = np.column_stack([np.arange(5.0), np.arange(5.0)])
    problem = queries(X, np.zeros((1, 2)), [5], np.ones(5))
    smoother, solved = kernels(problem, 0.0)
    assert not solved[0]
    assert_allclose(smoother, 0.2)
    assert not slopes(problem, X, 0.0)[1][0]


def test_several_penalties_share_one_pass(rng):
    X, q, w = rng.normal(size=(9, 2)), rng.normal(size=(1, 2)), np.ones(9)
    problem = queries(X, q, [9], w)
    out = np.empty((2, 9))
    ridge_equivalent_kernels(
        problem, np.array([0.1, 5.0]), True, np.zeros(1, bool), out, np.ones(1, bool)
    )
    for row, alpha in zip(out, (0.1, 5.0), strict=True):
        assert_array_equal(row, kernels(problem, alpha, relative=True)[0])


def fit(X, q, w, Y, degree):
    k = len(X)
    problem = Queries(X, q[None], np.array([0, k]), np.arange(k), w, degree)
    smoother, slopes = np.full(k, np.nan), np.zeros((1, Y.shape[1], X.shape[1]))
    solved = least_squares_fits(problem, None, smoother)
    also = least_squares_fits(problem, Y, slopes)
    return smoother, slopes[0], bool(solved[0]), bool(also[0])


@pytest.mark.parametrize("degree", [1, 2])
def test_fit_equals_weighted_least_squares(rng, degree):
    X, q, w = rng.normal(size=(30, 3)), rng.normal(size=3), rng.uniform(0.1, 2.0, 30)
    Y = rng.normal(size=(30, 2))
    smoother, slopes, solved, _ = fit(X, q, w, Y, degree)
    D = design_matrix(X - q, w, degree)
    root = np.sqrt(w)[:, None]
    expected = np.linalg.lstsq(root * D, root * Y, rcond=None)[0]
    assert solved
    assert_allclose(smoother @ Y, expected[0], rtol=1e-10)
    assert_allclose(slopes, expected[1:4].T, rtol=1e-9)


@pytest.mark.parametrize("degree", [1, 2])
def test_polynomials_of_the_degree_are_reproduced(rng, degree):
    X, q, w = rng.normal(size=(20, 2)), rng.normal(size=2), rng.uniform(0.5, 1.0, 20)
    y = 1.0 + 2.0 * X[:, 0] - X[:, 1] + (degree - 1) * X[:, 0] * X[:, 1]
    at = 1.0 + 2.0 * q[0] - q[1] + (degree - 1) * q[0] * q[1]
    smoother, slopes, _, _ = fit(X, q, w, y[:, None], degree)
    assert_allclose(smoother @ y, at)
    assert_allclose(slopes[0], [2.0 + (degree - 1) * q[1], -1.0 + (degree - 1) * q[0]])


@pytest.mark.parametrize("unit", [1e-300, 1e300])
@pytest.mark.parametrize("weight", [1e-100, 1e12])
def test_units_of_columns_and_weights_cancel(rng, unit, weight):
    X, q, w = rng.normal(size=(12, 2)), rng.normal(size=2), rng.uniform(0.5, 1.0, 12)
    plain = fit(X, q, w, X[:, :1], 1)[0]
    smoother, _, solved, _ = fit(unit * X, unit * q, weight * w, X[:, :1], 1)
    assert solved
    assert_allclose(smoother, plain, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("case", ["too few rows", "constant column", "equal columns"])
def test_missing_rank_is_reported(rng, case):
    X = rng.normal(size=(3 if case == "too few rows" else 9, 3))
    if case == "constant column":
        X[:, 1] = 4.0
    if case == "equal columns":
        X[:, 1] = X[:, 0]
    _, _, solved, also = fit(X, np.zeros(3), np.ones(len(X)), X[:, :1], 1)
    assert not solved
    assert not also


def test_pseudo_inverse_keeps_the_mean_and_ignores_flat_columns(rng):
    offsets = np.column_stack([rng.normal(size=8), np.full(8, 3.0)])
    w, y = rng.uniform(0.5, 1.0, 8), rng.normal(size=8)
    rows = pseudo_inverse_fit(offsets, w, 1)
    assert_allclose(rows[0].sum(), 1.0)
    assert_allclose(rows[2], 0.0, atol=1e-12)
    line = np.polyfit(offsets[:, 0], y, 1, w=np.sqrt(w))
    assert_allclose(rows[:2] @ y, line[::-1], rtol=1e-10)


def test_pseudo_inverse_of_one_row_is_that_row():
    rows = pseudo_inverse_fit(np.array([[2.0, 3.0]]), np.array([5.0]), 1)
    assert_allclose(rows, [[1.0], [0.0], [0.0]])


def smooth(x, y, Q, k, degree, *, beyond=False, guarded=False, f=None):
    m = len(Q)
    values, slopes, solved = np.full((m, 1), np.nan), np.full((m, 1), np.nan), np.ones(m, bool)
    points = LinePoints(x, y[None], np.ones(len(x)) if f is None else f)
    window = LineWindow(k, beyond, 1.0, guarded, degree)
    smooth_line(points, Q, window, values, slopes, solved)
    return SimpleNamespace(values=values, slopes=slopes, solved=solved)


def tricube(x, q, k, beyond):
    r = np.abs(x - q)
    h = np.sort(r)[min(k if beyond else k - 1, len(x) - 1)]
    return np.maximum(1 - (r / h) ** 3, 0) ** 3


@pytest.mark.parametrize("degree", [0, 1, 2])
@pytest.mark.parametrize("beyond", [False, True])
def test_equals_a_weighted_polynomial(rng, degree, beyond):
    x, f = np.sort(rng.normal(size=40)), rng.uniform(0.5, 1.0, 40)
    y, Q = rng.normal(size=40), np.array([-3.0, -0.2, 0.0, 0.31, 2.5])
    out = smooth(x, y, Q, 15, degree, beyond=beyond, f=f)
    for t, q in enumerate(Q):
        w = f * tricube(x, q, 15, beyond)
        D = np.vander(x - q, degree + 1, increasing=True)
        inverse = np.linalg.solve((D * w[:, None]).T @ D, (D * w[:, None]).T)
        assert_allclose(out.values[t, 0], inverse[0] @ y, rtol=1e-7)
        if degree:
            assert_allclose(out.slopes[t, 0], inverse[1] @ y, rtol=1e-6, atol=1e-9)


def test_guards_lift_the_centre(rng):
    """LOESS gives weight one below 0.001 of the bandwidth."""
    x = np.array([0.0, 0.0005, 0.4, 1.0])
    y = np.array([1.0, 5.0, 2.0, 9.0])
    out = smooth(x, y, np.zeros(1), 4, 0, guarded=True)
    w = np.array([1.0, 1.0, (1 - 0.4**3) ** 3, 0.0])
    assert_allclose(out.values[0, 0], w @ y / w.sum(), rtol=1e-12)


@pytest.mark.parametrize("degree", [0, 1, 2])
def test_equal_points_cannot_be_smoothed(degree):
    out = smooth(np.ones(6), np.arange(6.0), np.ones(1), 4, degree)
    assert not out.solved[0]
    assert np.isnan(out.values).all()


def test_too_few_distinct_points_for_the_degree():
    x = np.array([0.0, 0.0, 1.0, 1.0, 5.0])
    assert smooth(x, x, np.array([0.5]), 5, 1).solved[0]
    assert not smooth(x, x, np.array([0.5]), 5, 2, beyond=False).solved[0]
