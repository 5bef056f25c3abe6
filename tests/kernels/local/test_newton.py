"""Local logistic, squared-hinge classifiers against references."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from vicinal._kernels._jit import fast_jit
from vicinal._kernels.local._classifiers import (
    local_classifiers,
    one_class_score,
    pivoted_factor,
)
from vicinal._kernels.local._workspace import (
    LOGISTIC,
    SQUARED_HINGE,
    FitObjective,
    Fits,
    Queries,
)


@fast_jit
def factor(R, F, pivots):
    k, d = R.shape
    return pivoted_factor(R, k, d, np.empty((k, k)), F, pivots, np.empty(k))


@pytest.mark.parametrize("rank", [1, 3, 6])
def test_pivoted_factor_spans_the_rows(rng, rank):
    R = rng.normal(size=(6, rank)) @ rng.normal(size=(rank, 9))
    F, pivots = np.full((6, 6), np.nan), np.empty(6, dtype=np.int64)
    assert factor(R, F, pivots) == rank
    assert_allclose(F[:, :rank] @ F[:, :rank].T, R @ R.T, rtol=1e-8, atol=1e-10)
    # In the order of the pivots the factor is lower triangular.
    assert_allclose(np.triu(F[pivots[:rank], :rank], 1), 0.0)


def test_no_rows_apart_have_rank_zero():
    assert factor(np.zeros((3, 5)), np.empty((3, 3)), np.empty(3, dtype=np.int64)) == 0


@pytest.mark.parametrize("rho", [1e-8, 0.5, 1e6])
@pytest.mark.parametrize("total", [1e-6, 1.0, 1e12])
def test_one_class_score_is_stationary(rho, total):
    b = one_class_score(total, 1.3, rho, LOGISTIC)
    # In logarithms: C s / (1 + e^b) = rho b.
    assert_allclose(np.log(1.3 * total) - np.logaddexp(0, b), np.log(rho * b), rtol=1e-9, atol=1e-9)
    hinge = one_class_score(total, 1.3, rho, SQUARED_HINGE)
    assert_allclose(hinge, 1.3 * total / (1.3 * total + rho))


def test_a_free_intercept_of_one_class_is_infinite():
    assert one_class_score(1.0, 1.0, 0.0, LOGISTIC) == np.inf


def fit(X, loss, *, w=None, alpha=0.1, relative=True):
    k, d = X.shape
    out = Fits(np.empty((1, 2)), np.zeros((1, 2, d)), np.ones(1, dtype=bool))
    weights = np.ones(k) if w is None else w
    queries = Queries(X, np.zeros((1, d)), np.array([0, k]), np.arange(k), weights, 1)
    settings = FitObjective(loss, alpha, relative, 1.0, 0.0, 1e-8, 1e-10, 100)
    local_classifiers(queries, np.arange(k) % 2, settings, out)
    return out


@pytest.mark.parametrize("loss", [SQUARED_HINGE, LOGISTIC])
def test_a_system_that_is_not_finite_ends_the_fit(loss):
    """It must neither hang nor claim to have converged."""
    X = np.array([[1.0], [-1.0], [np.inf], [2.0]])
    assert not fit(X, loss, relative=False).converged[0]


@pytest.mark.parametrize("loss", [SQUARED_HINGE, LOGISTIC])
@pytest.mark.parametrize("unit", [1e-300, 1e-60, 1e8, 1e60, 1e300])
def test_relative_penalties_do_not_see_units(rng, loss, unit):
    X = rng.normal(size=(12, 2))
    plain, scaled = fit(X, loss), fit(unit * X, loss)
    assert scaled.converged[0]
    assert_allclose(scaled.scores, plain.scores, rtol=1e-6)
    assert_allclose(scaled.slopes * unit, plain.slopes, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("loss", [SQUARED_HINGE, LOGISTIC])
def test_equal_rows_get_a_constant_model(loss):
    out = fit(np.ones((6, 3)), loss)
    assert_allclose(out.scores, 0.0, atol=1e-6)
    assert not out.slopes.any()


def test_two_rows_by_hand():
    """Labels at -1 and 1, no penalty to speak of: the squared hinge reaches both margins."""
    out = fit(np.array([[-1.0], [1.0]]), SQUARED_HINGE, alpha=1e-9)
    assert_allclose(out.slopes[0, 1], 1.0, rtol=1e-6)
    assert_allclose(out.scores[0], 0.0, atol=1e-8)
