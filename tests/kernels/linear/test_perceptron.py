import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from vicinal._kernels.linear._perceptron import _shuffle, fit_perceptron, margin_scale


@pytest.fixture(params=[2, 3, 17])
def data(request, rng):
    n_classes = request.param
    codes = rng.randint(n_classes, size=200)
    X = rng.normal(size=(200, 21)) + 1.5 * rng.normal(size=(n_classes, 21))[codes]
    X[rng.uniform(size=X.shape) < 0.4] = 0.0
    return X.astype(np.float32), codes, n_classes


def reference(X, codes, weights, n_classes, seed, n_epochs):
    """The rule in plain NumPy and double precision, averaging every step."""
    X = np.hstack([X, np.ones((len(X), 1))])
    W = np.zeros((n_classes, X.shape[1]))
    total, steps = W.copy(), 1
    rows = np.arange(len(X))
    state = np.array([seed], dtype=np.uint64)
    for _ in range(n_epochs):
        _shuffle(rows, state)
        for i in rows:
            scores = W @ X[i]
            own = scores[codes[i]]
            scores[codes[i]] = -np.inf
            if scores.max() >= own:
                W[codes[i]] += weights[i] * X[i]
                W[scores.argmax()] -= weights[i] * X[i]
            total += W
            steps += 1
    return (total / steps)[:, :-1], (total / steps)[:, -1]


def test_equals_plain_reference(rng):
    """Small integers, so that single precision is exact and both take the same path."""
    X = rng.randint(-3, 4, size=(60, 6)).astype(np.float32)
    weights = rng.randint(1, 4, size=60).astype(np.float32)
    for n_classes in (2, 4):
        codes = rng.randint(n_classes, size=60)
        fitted = fit_perceptron(X, codes, weights, n_classes, seed=3, n_epochs=4)
        coef, intercept = reference(X, codes, weights, n_classes, 3, 4)
        assert_allclose(fitted.coef, coef, rtol=1e-4, atol=1e-4)
        assert_allclose(fitted.intercept, intercept, rtol=1e-4, atol=1e-4)


def test_one_step_by_hand():
    """One row of class 1 in one epoch: the mean of zero and the weights after the step."""
    X = np.array([[2.0, -4.0]], dtype=np.float32)
    fitted = fit_perceptron(X, np.array([1]), None, 3, seed=0, n_epochs=1)
    assert_array_equal(fitted.coef, [[-1.0, 2.0], [1.0, -2.0], [0.0, 0.0]])
    assert_array_equal(fitted.intercept, [-0.5, 0.5, 0.0])
    assert_array_equal(fitted.mistakes, [1])


@pytest.mark.parametrize("weighted", [False, True])
def test_dense_equals_csr(data, rng, weighted):
    X, codes, n_classes = data
    w = rng.uniform(0.5, 2.0, size=200) if weighted else None
    dense = fit_perceptron(X, codes, w, n_classes, seed=1)
    csr = fit_perceptron(sparse.csr_array(X), codes, w, n_classes, seed=1)
    assert_array_equal(dense.coef, csr.coef)
    assert_array_equal(dense.intercept, csr.intercept)
    assert_array_equal(dense.mistakes, csr.mistakes)


def test_weight_zero_equals_removal(data, rng):
    X, codes, n_classes = data
    w = rng.randint(3, size=200).astype(float)
    weighted = fit_perceptron(X, codes, w, n_classes, seed=2)
    keep = w > 0
    removed = fit_perceptron(X[keep], codes[keep], w[keep], n_classes, seed=2)
    assert_array_equal(weighted.coef, removed.coef)


def test_weights_scale_the_result(data):
    X, codes, n_classes = data
    one = fit_perceptron(X, codes, None, n_classes, seed=2)
    four = fit_perceptron(X, codes, np.full(200, 4.0), n_classes, seed=2)
    assert_allclose(four.coef, 4.0 * one.coef, rtol=1e-6)


def test_seed_decides(data):
    X, codes, n_classes = data
    a, b, c = (fit_perceptron(X, codes, None, n_classes, seed=s).coef for s in (7, 7, 8))
    assert_array_equal(a, b)
    assert np.abs(a - c).max() > 0


def test_absent_class_keeps_the_lowest_scores(rng):
    """A class without rows is only ever pushed away, so it wins on no training row."""
    X = rng.normal(size=(100, 4)).astype(np.float32)
    codes = np.where(X[:, 0] > 0, 2, 0)
    fitted = fit_perceptron(X, codes, None, 3, seed=0)
    assert not np.any((X @ fitted.coef.T + fitted.intercept).argmax(axis=1) == 1)


def test_separable_data_stop_early_with_the_same_mean():
    X = np.array([[1.0], [-1.0]], dtype=np.float32)
    codes = np.array([1, 0])
    fitted = fit_perceptron(X, codes, None, 2, seed=0, n_epochs=50)
    assert fitted.mistakes.sum() <= 3
    coef, intercept = reference(X, codes, np.ones(2), 2, 0, 50)
    assert_allclose(fitted.coef, coef, rtol=1e-5)
    assert_allclose(fitted.intercept, intercept, rtol=1e-5, atol=1e-6)


def test_unsorted_and_repeated_csr_entries_are_read_right(rng):
    X = sparse.csr_array(
        (np.array([1.0, 2.0, 3.0, 1.0]), np.array([2, 0, 1, 1]), np.array([0, 2, 4])), shape=(2, 3)
    )
    codes = np.array([0, 2])
    dense = fit_perceptron(X.toarray(), codes, None, 3, seed=0)
    assert_array_equal(fit_perceptron(X, codes, None, 3, seed=0).coef, dense.coef)
    assert not X.has_sorted_indices


def test_shuffle_is_fair():
    """Each of six orders of three rows comes up a sixth of the time."""
    state = np.array([0], dtype=np.uint64)
    counts = {}
    for _ in range(6000):
        rows = np.arange(3)
        _shuffle(rows, state)
        counts[tuple(rows)] = counts.get(tuple(rows), 0) + 1
    assert len(counts) == 6
    assert all(abs(count - 1000) < 150 for count in counts.values())


def test_margin_scale():
    assert margin_scale(np.array([1.0, 3.0]), None) == 1.0
    assert margin_scale(np.array([0.0, 4.0]), np.array([3.0, 1.0])) == np.sqrt(3.0)
    assert margin_scale(np.array([2.0, 2.0]), None) == 1.0
