"""Local classifiers on single neighbourhoods: stationarity by differences, corner cases."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from vicinal._kernels.local._classifiers import local_classifiers
from vicinal._kernels.local._workspace import LOGISTIC, SQUARED_HINGE, FitObjective, Fits, Queries


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
