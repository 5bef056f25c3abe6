"""The multinomial model: optimal by differences, against scikit-learn, and with missing classes."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import logsumexp
from sklearn.linear_model import LogisticRegression

from vicinal._kernels.local._classifiers import local_classifiers
from vicinal._kernels.local._workspace import MULTINOMIAL, FitObjective, Fits, Queries


def fit(X, q, w, codes, n_classes, *, alpha=0.5, C=1.0, degree=1, max_iter=200):
    k = len(X)
    out = Fits(np.empty((1, n_classes)), np.zeros((1, n_classes, X.shape[1])), np.ones(1, bool))
    queries = Queries(X, q[None], np.array([0, k]), np.arange(k), w, degree)
    settings = FitObjective(MULTINOMIAL, alpha, False, C, 0.3, 0.1, 1e-12, max_iter)
    local_classifiers(queries, codes, settings, out)
    return out.scores[0], out.slopes[0], bool(out.converged[0])


def problem(rng, k, d, n_classes):
    X, codes = rng.normal(size=(k, d)), np.arange(k) % n_classes
    X[np.arange(k), codes % d] += 1.0
    return X, rng.normal(size=d) * 0.2, rng.uniform(0.1, 1.0, k), codes


def objective(theta, A, w, codes, alpha):
    scores = A @ theta.T
    loss = w @ (logsumexp(scores, axis=1) - scores[np.arange(len(A)), codes])
    return loss + 0.5 * alpha * (theta[:, :-1] ** 2).sum()


@pytest.mark.parametrize("d", [2, 30])
@pytest.mark.parametrize("n_classes", [3, 5])
def test_solution_is_stationary(rng, d, n_classes):
    X, q, w, codes = problem(rng, 25, d, n_classes)
    scores, slopes, converged = fit(X, q, w, codes, n_classes)
    assert converged
    A, theta = np.column_stack([X - q, np.ones(25)]), np.column_stack([slopes, scores])
    for c in range(n_classes):
        for a in (0, d - 1, d):
            step = np.zeros_like(theta)
            step[c, a] = 1e-6
            rise = objective(theta + step, A, w, codes, 0.5) - objective(
                theta - step, A, w, codes, 0.5
            )
            assert abs(rise) / 2e-6 < 1e-7
    assert_allclose(scores.sum(), 0.0, atol=1e-9)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_probabilities_equal_scikit_learn(rng, n_classes):
    X, q, w, codes = problem(rng, 40, 3, n_classes)
    scores, _, _ = fit(X, q, w, codes, n_classes, alpha=1.0, C=0.7)
    model = LogisticRegression(C=0.7, tol=1e-12, max_iter=10_000).fit(X, codes, w)
    assert_allclose(np.exp(scores - logsumexp(scores)), model.predict_proba(q[None])[0], rtol=1e-6)


def test_classes_without_rows_cannot_win_and_shift_nothing(rng):
    X, q, w, codes = problem(rng, 24, 2, 3)
    plain, slopes, _ = fit(X, q, w, codes, 3)
    scores, wide, _ = fit(X, q, w, 2 * codes, 6)
    assert_allclose(scores[::2], plain)
    assert_allclose(wide[::2], slopes)
    assert np.isneginf(scores[1::2]).all()
    assert not wide[1::2].any()


def test_one_class_and_one_row():
    scores, slopes, converged = fit(np.ones((1, 2)), np.zeros(2), np.ones(1), np.array([1]), 3)
    assert converged
    assert scores[1] == 0.0
    assert np.isneginf(scores[[0, 2]]).all()
    assert not slopes.any()


def test_degree_zero_gives_the_weighted_shares(rng):
    _, q, w, codes = problem(rng, 20, 2, 4)
    scores, _, _ = fit(rng.normal(size=(20, 2)), q, w, codes, 4, degree=0)
    shares = np.bincount(codes, w) / w.sum()
    assert_allclose(np.exp(scores - logsumexp(scores)), shares, rtol=1e-8)


def test_too_few_steps_are_told(rng):
    assert not fit(*problem(rng, 30, 3, 3), 3, max_iter=1)[2]
