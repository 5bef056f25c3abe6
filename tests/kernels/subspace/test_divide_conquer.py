import numpy as np
import pytest
import sklearn
from numpy.testing import assert_allclose
from scipy.optimize import minimize
from sklearn.metrics.pairwise import rbf_kernel

from vicinal._kernels.subspace import _divide_conquer


@pytest.fixture
def problem(rng):
    X = rng.normal(size=(60, 3))
    y = np.where(X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=60) > 0, 1.0, -1.0)
    return X, y, rng.uniform(0.5, 3.0, size=60)


def _solve(X, y, upper, alpha=None, tol=1e-9, cache_rows=60, max_steps=10**6):
    alpha = np.zeros(len(X)) if alpha is None else alpha.copy()
    gradient = _divide_conquer.dual_gradient(X, y, alpha, 0.5)
    steps, worst = _divide_conquer.descend_dual(
        X, y, upper, 0.5, alpha, gradient, tol, max_steps, cache_rows
    )
    return alpha, gradient, steps, worst


def test_minimum_is_that_of_a_general_solver(problem):
    X, y, upper = problem
    Q = np.outer(y, y) * rbf_kernel(X, gamma=0.5)
    reference = minimize(
        lambda a: (0.5 * a @ Q @ a - a.sum(), Q @ a - 1.0),
        np.zeros(60),
        jac=True,
        bounds=np.column_stack([np.zeros(60), upper]),
        options={"maxiter": 10_000, "ftol": 1e-15, "gtol": 1e-10},
    )
    alpha, gradient, _, worst = _solve(X, y, upper)
    assert worst <= 1e-9
    assert_allclose(gradient, Q @ alpha - 1.0, atol=1e-10)
    assert_allclose(_divide_conquer.dual_objective(alpha, gradient), reference.fun, rtol=1e-9)


def test_solution_meets_the_optimality_conditions(problem):
    X, y, upper = problem
    alpha, gradient, _, _ = _solve(X, y, upper)
    assert ((alpha >= 0) & (alpha <= upper)).all()
    assert (gradient[alpha == 0] >= -1e-9).all()
    assert (gradient[alpha == upper] <= 1e-9).all()
    assert_allclose(gradient[(alpha > 0) & (alpha < upper)], 0.0, atol=1e-9)


def test_size_of_the_cache_changes_nothing(problem):
    assert_allclose(_solve(*problem, cache_rows=2)[0], _solve(*problem)[0], atol=1e-12)


def test_a_start_at_the_solution_takes_no_steps(problem):
    X, y, upper = problem
    alpha = _solve(X, y, upper)[0]
    assert _solve(X, y, upper, alpha=alpha, tol=1e-8)[2] == 0


def test_steps_are_bounded(problem):
    _, _, steps, worst = _solve(*problem, max_steps=3)
    assert steps == 3
    assert worst > 1e-9


def test_clusters_side_by_side_obey_the_bound(problem):
    X, y, _ = problem
    upper, cluster = np.full(60, 2.0), (X[:, 2] > 0).astype(int)
    alpha_bar = np.zeros(60)
    for c in (0, 1):
        rows = cluster == c
        alpha_bar[rows] = _solve(X[rows], y[rows], upper[rows], cache_rows=10)[0]
    bar = _divide_conquer.dual_objective(
        alpha_bar, _divide_conquer.dual_gradient(X, y, alpha_bar, 0.5)
    )
    alpha, gradient, _, _ = _solve(X, y, upper)
    gap = bar - _divide_conquer.dual_objective(alpha, gradient)
    across = rbf_kernel(X, gamma=0.5)[cluster[:, None] != cluster[None, :]].sum()
    assert 0.0 < gap <= 2.0**2 / 2 * across


def test_product_over_blocks_is_the_whole_product(problem):

    X, y, _ = problem
    expected = rbf_kernel(X, X[:20], gamma=0.5) @ y[:20]
    with sklearn.config_context(working_memory=0.001):
        assert_allclose(_divide_conquer.rbf_product(X, X[:20], 0.5, y[:20]), expected, atol=1e-12)


@pytest.mark.parametrize(("megabytes", "rows"), [(1e-9, 2), (1.0, 131), (1e9, 1000)])
def test_cache_is_sized_from_memory(megabytes, rows):
    assert _divide_conquer.cache_rows_for(1000, megabytes) == rows
