"""Gradients of local scores: every part against differences, weights moved one at a time."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from vicinal._kernels.local._classifiers import local_classifiers
from vicinal._kernels.local._workspace import (
    LOGISTIC,
    SQUARED,
    SQUARED_HINGE,
    FitObjective,
    Fits,
    Motion,
    Queries,
)

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


@pytest.fixture(params=[(20, 2), (7, 12)], ids=["more rows", "more columns"])
def problem(request, rng):
    k, d = request.param
    codes = np.arange(k) % 3
    X = rng.normal(size=(k, d))
    X[:, 0] += codes
    return X, rng.normal(size=d) * 0.1, rng.uniform(0.3, 1.0, k), codes


@pytest.mark.parametrize("relative", [False, True])
@pytest.mark.parametrize("loss", LOSSES)
def test_slopes_are_differences_with_the_weights_held(problem, loss, relative):
    X, q, w, codes = problem
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
def test_pulls_are_derivatives_by_the_weights(problem, loss, relative):
    """With grad w_i = common_i (1, .., 1) for one row, the pull is dF / dw_i."""
    X, q, w, codes = problem
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
def test_radial_motion_points_from_the_query_to_the_row(problem, loss):
    X, q, w, codes = problem
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
def test_scores_are_those_of_the_plain_fit(problem, loss):
    """The squared loss is ridge on indicators; the others are the models fitted without motion."""
    X, q, w, codes = problem
    scores = fit(X, q, w, codes, loss)[0]
    if loss == SQUARED:
        assert_allclose(scores.sum(), 1.0)
        return
    out = Fits(np.empty((1, 3)), np.zeros((1, 3, 0)), np.ones(1, dtype=bool))
    queries = Queries(X, q[None], np.array([0, len(w)]), np.arange(len(w)), w, 1)
    settings = FitObjective(loss, 0.4, True, 1.2, 0.05, 0.02, 1e-13, 300)
    local_classifiers(queries, codes, settings, out)
    assert_allclose(out.scores[0], scores, rtol=1e-12)
