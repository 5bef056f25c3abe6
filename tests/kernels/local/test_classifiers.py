"""Local classifiers of a block, and the gradient of their scores."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from vicinal._kernels.local._classifiers import local_classifiers, newton_value
from vicinal._kernels.local._workspace import (
    LOGISTIC,
    SQUARED,
    SQUARED_HINGE,
    Fit,
    FitObjective,
    Fits,
    Motion,
    Queries,
)


def solve(X, q, w, codes, loss, *, alpha=0.3, rho=0.1, C=1.0, degree=1):
    n_classes = codes.max() + 1
    out = Fits(
        np.empty((1, n_classes)), np.zeros((1, n_classes, X.shape[1])), np.ones(1, dtype=bool)
    )
    queries = Queries(X, q[None], np.array([0, len(X)]), np.arange(len(X)), w, degree)
    local_classifiers(
        queries, codes, FitObjective(loss, alpha, False, C, rho, 0.0, 1e-12, 200), out
    )
    assert out.converged.all()
    return out.scores[0], out.slopes[0]


def objective(theta, A, y, w, loss, alpha=0.3, rho=0.1):
    z = y * (A @ theta[:-1] + theta[-1])
    if loss == SQUARED_HINGE:
        total = 0.5 * w @ np.maximum(0, 1 - z) ** 2
    else:
        total = w @ np.logaddexp(0, -z)
    return total + 0.5 * alpha * theta[:-1] @ theta[:-1] + 0.5 * rho * theta[-1] ** 2


def problem(rng, k, d, n_classes):
    X = rng.normal(size=(k, d))
    codes = np.arange(k) % n_classes
    X[np.arange(k), codes % d] += 1.0
    return X, rng.normal(size=d) * 0.2, rng.uniform(0.1, 1.0, k), codes.astype(np.int64)


@pytest.mark.parametrize("loss", [SQUARED_HINGE, LOGISTIC])
@pytest.mark.parametrize("d", [3, 40])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_solution_is_stationary(rng, loss, d, n_classes):
    X, q, w, codes = problem(rng, 25, d, n_classes)
    scores, slopes = solve(X, q, w, codes, loss)
    for c in range(n_classes):
        theta = np.append(slopes[c], scores[c])
        y = np.where(codes == c, 1.0, -1.0)
        step = 1e-6
        for direction in np.vstack([np.eye(d + 1)[:4], np.eye(d + 1)[-1:]]):
            up = objective(theta + step * direction, X - q, y, w, loss)
            down = objective(theta - step * direction, X - q, y, w, loss)
            assert abs(up - down) / (2 * step) < 1e-7


@pytest.mark.parametrize("loss", [SQUARED_HINGE, LOGISTIC])
def test_value_of_the_line_search_is_the_objective(rng, loss):
    """The minimum does not show it: full Newton steps reach it by the gradient alone."""
    X, q, w, codes = problem(rng, 25, 3, 2)
    y, theta = np.where(codes == 1, 1.0, -1.0), 3.0 * rng.normal(size=4)
    scores = (X - q) @ theta[:-1] + theta[-1]
    assert (y * scores < 0.0).any()
    laid_out = Fit(w, 25, 3, 1.0, 0.3, 0.1)
    found = newton_value.py_func(scores, y, theta, laid_out, loss, 1.0)
    assert_allclose(found, objective(theta, X - q, y, w, loss), rtol=1e-12)


@pytest.mark.parametrize("loss", [SQUARED_HINGE, LOGISTIC])
def test_two_classes_have_opposite_scores(rng, loss):
    scores, slopes = solve(*problem(rng, 20, 3, 2), loss)
    assert scores[0] == -scores[1]
    assert_allclose(slopes[0], -slopes[1])


@pytest.mark.parametrize("loss", [SQUARED_HINGE, LOGISTIC])
def test_one_class_answer_minimises_the_objective(rng, loss):
    X, q, w, _ = problem(rng, 10, 3, 2)
    codes = np.ones(10, dtype=np.int64)
    scores, slopes = solve(X, q, w, codes, loss)
    grid = scores[1] + np.linspace(-1e-3, 1e-3, 3)
    values = [objective(np.array([0, 0, 0, b]), X - q, np.ones(10), w, loss, rho=0.1) for b in grid]
    assert np.argmin(values) == 1
    assert scores[0] == -scores[1]
    assert not slopes.any()


LOSSES = [SQUARED, SQUARED_HINGE, LOGISTIC]


def fit(X, q, w, codes, loss, *, radial=None, common=None, relative=True, per_weight=0.02):
    """Return score, gradient with fixed weights, and pulls; one query, three classes."""
    k, d = X.shape
    out = Fits(np.empty((1, 3)), np.zeros((1, 3, d)), np.ones(1, dtype=bool))
    pulls = np.zeros((1, 3, d))
    none = np.zeros(k)
    motion = Motion(
        X,
        q[None],
        none if radial is None else radial,
        none if common is None else common,
        np.ones((1, d)),
        pulls,
    )
    queries = Queries(X, q[None], np.array([0, k]), np.arange(k), w, 1)
    settings = FitObjective(loss, 0.4, relative, 1.2, 0.05, per_weight, 1e-13, 300)
    local_classifiers(queries, codes, settings, out, motion)
    assert out.converged[0]
    return out.scores[0], out.slopes[0], pulls[0]


@pytest.fixture(
    params=[(20, 2), (7, 7), (7, 12)], ids=["more rows", "as many rows", "more columns"]
)
def moving_problem(request, rng):
    k, d = request.param
    codes = np.arange(k) % 3
    X = rng.normal(size=(k, d))
    X[:, 0] += codes
    return X, rng.normal(size=d) * 0.1, rng.uniform(0.3, 1.0, k), codes


@pytest.mark.parametrize("relative", [False, True])
@pytest.mark.parametrize("loss", LOSSES)
def test_slopes_are_differences_with_the_weights_held(moving_problem, loss, relative):
    X, q, w, codes = moving_problem
    _, slopes, pulls = fit(X, q, w, codes, loss, relative=relative)
    assert not pulls.any()
    for a in (0, len(q) - 1):
        step = np.zeros(len(q))
        step[a] = 1e-5
        high = fit(X, q + step, w, codes, loss, relative=relative)[0]
        low = fit(X, q - step, w, codes, loss, relative=relative)[0]
        assert_allclose(slopes[:, a], (high - low) / 2e-5, rtol=2e-5, atol=1e-7)


@pytest.mark.parametrize("relative", [False, True])
@pytest.mark.parametrize("loss", LOSSES)
def test_pulls_are_derivatives_by_the_weights(moving_problem, loss, relative):
    """With grad w_i = common_i (1, .., 1) for one row, the pull is dF / dw_i."""
    X, q, w, codes = moving_problem
    for i in (0, 4):
        common = np.zeros(len(w))
        common[i] = 1.0
        pulls = fit(X, q, w, codes, loss, common=common, relative=relative)[2]
        step = 1e-5 * common
        high = fit(X, q, w + step, codes, loss, relative=relative)[0]
        low = fit(X, q, w - step, codes, loss, relative=relative)[0]
        assert_allclose(pulls[:, 0], (high - low) / 2e-5, rtol=2e-5, atol=1e-7)
        assert_allclose(pulls, np.tile(pulls[:, :1], len(q)))


@pytest.mark.parametrize("loss", LOSSES)
def test_radial_motion_points_from_the_query_to_the_row(moving_problem, loss):
    X, q, w, codes = moving_problem
    at, along = np.zeros(len(w)), np.zeros(len(w))
    at[3] = along[3] = 1.0
    plain = fit(X, q, w, codes, loss, common=at)[2][:, 0]
    assert_allclose(fit(X, q, w, codes, loss, radial=along)[2], np.outer(plain, X[3] - q))


@pytest.mark.parametrize("loss", LOSSES)
def test_a_single_class_moves_with_the_total_weight_only(rng, loss):
    X, q, w = rng.normal(size=(6, 2)), np.zeros(2), rng.uniform(0.3, 1.0, 6)
    codes = np.ones(6, dtype=np.int64)
    common = np.eye(6)[2]
    scores, slopes, pulls = fit(X, q, w, codes, loss, common=common)
    high = fit(X, q, w + 1e-5 * common, codes, loss)[0]
    low = fit(X, q, w - 1e-5 * common, codes, loss)[0]
    assert not slopes.any()
    assert_allclose(pulls[:, 0], (high - low) / 2e-5, rtol=1e-5, atol=1e-9)
    assert scores.argmax() == 1


@pytest.mark.parametrize("loss", LOSSES)
def test_scores_are_those_of_the_plain_fit(moving_problem, loss):
    """The squared loss is ridge on indicators; the others are the models fitted without motion."""
    X, q, w, codes = moving_problem
    scores = fit(X, q, w, codes, loss)[0]
    if loss == SQUARED:
        assert_allclose(scores.sum(), 1.0)
        return
    out = Fits(np.empty((1, 3)), np.zeros((1, 3, 0)), np.ones(1, dtype=bool))
    queries = Queries(X, q[None], np.array([0, len(w)]), np.arange(len(w)), w, 1)
    settings = FitObjective(loss, 0.4, True, 1.2, 0.05, 0.02, 1e-13, 300)
    local_classifiers(queries, codes, settings, out)
    assert_allclose(out.scores[0], scores, rtol=1e-12)
