from fractions import Fraction

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from vicinal._kernels.neighbors._nearest import (
    DeviceRows,
    Pairs,
    ProductRows,
    csr_distances,
    nearest_rows,
    select_first,
    sort_rows,
    squared_distance,
)


def awkward_rows(rng, kind):
    """Rows that make an expanded square lose its digits, each in its own way."""
    X = rng.randn(60, 7)
    if kind == "far from the origin":
        return X * 1e-3 + 1e5
    if kind == "one outlier":
        X[0] *= 1e9
        return X
    if kind == "two far clusters":
        return X + np.where(np.arange(60) % 2, 1e6, -1e6)[:, None]
    return X * np.array([1e-12, 1e-6, 1e-3, 1, 1e3, 1e6, 1e9])


KINDS = ["far from the origin", "one outlier", "two far clusters", "uneven columns"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_product_never_exceeds_the_true_distance(rng, kind, dtype):
    """The lemma that makes the search exact, in rational arithmetic."""
    X = awkward_rows(rng, kind)
    Q = np.vstack([X[:3] * (1 + 1e-9), rng.randn(3, 7)])
    fitted = ProductRows(X, dtype)
    left, norms = fitted.queries(Q)
    products = left @ fitted.rows.T
    for i in range(len(Q)):
        for j in range(0, len(X), 3):
            exact = sum((Fraction(a) - Fraction(b)) ** 2 for a, b in zip(Q[i], X[j], strict=True))
            scaled = exact * Fraction(fitted.scale) ** 2
            assert Fraction(float(products[i, j])) + Fraction(norms[i]) <= scaled


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_device_bound_never_exceeds_the_true_distance(rng, kind, dtype, to_array):
    X = awkward_rows(rng, kind).astype(dtype)
    Q = np.vstack([X[:3], rng.randn(3, 7)]).astype(dtype)
    bounds, norms, unit = DeviceRows(to_array(X)).lower_bounds(to_array(Q))
    bounds = bounds + norms[:, None]
    differences = Q[:, None, :].astype(np.longdouble) - X[None, :, :]
    assert (np.asarray(bounds) <= (differences**2).sum(axis=2) * unit * (1 + 1e-15)).all()


def test_bound_is_tight_on_plain_data(rng):
    """A bound that dismisses nothing would be correct too, and useless."""
    X, Q = rng.randn(300, 16), rng.randn(20, 16)
    fitted = ProductRows(X)
    left, norms = fitted.queries(Q)
    bounds = (left @ fitted.rows.T + norms[:, None]) / fitted.scale**2
    exact = ((Q[:, None, :] - X) ** 2).sum(axis=2)
    assert_allclose(bounds, exact, rtol=5e-4)


@pytest.mark.parametrize("k", [37, 300])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_precision_of_the_product_does_not_show(rng, dtype, k):
    X, Q = rng.randint(0, 4, size=(5000, 6)).astype(float), rng.randint(0, 4, (130, 6)) * 1.0
    fitted = ProductRows(X, dtype)
    left, norms = fitted.queries(Q)
    distances, indices = np.empty((130, k)), np.empty((130, k), np.int64)
    codes = np.arange(5000), np.full(130, -1)
    pairs = Pairs(Q, X, left, fitted.rows, norms, fitted.scale, fitted.rounding, *codes)
    nearest_rows(pairs, k, distances, indices)
    sort_rows(distances, indices)
    squares = ((Q[:, None, :] - X) ** 2).sum(axis=2)
    order = np.lexsort((np.broadcast_to(np.arange(5000), squares.shape), squares), axis=1)[:, :k]
    assert_array_equal(indices, order)
    assert_array_equal(distances, np.take_along_axis(squares, order, axis=1))


@pytest.mark.parametrize("kind", [*KINDS, "tiny", "huge"])
def test_many_neighbors_of_awkward_rows(rng, kind):
    """More than a look at the products would find: ties, rows left out, every scale."""
    unit = {"tiny": 1e-150, "huge": 1e150}.get(kind)
    X = rng.randn(60, 7) * unit if unit else awkward_rows(rng, kind)
    X = np.vstack([X, X[::-1], X])
    codes = np.arange(180) // 3
    fitted = ProductRows(X)
    left, norms = fitted.queries(X)
    for k in (64, 150, 177):
        distances, indices = np.empty((180, k)), np.empty((180, k), np.int64)
        places = X, X, left, fitted.rows, norms, fitted.scale, fitted.rounding
        nearest_rows(Pairs(*places, codes, codes), k, distances, indices)
        sort_rows(distances, indices)
        squares = np.array([[squared_distance(q, x) for x in X] for q in X])
        squares[codes[:, None] == codes] = np.inf
        expected = np.sort(squares, axis=1)[:, :k]
        assert_array_equal(distances, expected)


@pytest.mark.parametrize("values", ["all equal", "few", "many", "sorted", "infinite"])
def test_selection_and_sort_equal_numpy(rng, values):
    distances = {
        "all equal": np.ones(500),
        "few": rng.randint(0, 3, size=500).astype(float),
        "many": rng.rand(500),
        "sorted": np.arange(500.0),
        "infinite": np.where(rng.rand(500) < 0.5, np.inf, rng.rand(500)),
    }[values]
    rows = rng.permutation(500)
    order = np.lexsort((rows, distances))
    for k in (1, 2, 250, 499, 500):
        chosen, chosen_rows = distances.copy(), rows.copy()
        select_first(chosen, chosen_rows, 500, k)
        assert set(chosen_rows[:k]) == set(rows[order[:k]])
        assert chosen_rows[k - 1] == rows[order[k - 1]]
    sorted_distances, sorted_rows = distances[None].copy(), rows[None].copy()
    sort_rows(sorted_distances, sorted_rows)
    assert_array_equal(sorted_rows[0], rows[order])
    assert_array_equal(sorted_distances[0], distances[order])


def test_sparse_distances_equal_dense(rng):
    X = sparse.random(30, 12, 0.3, random_state=0, format="csr")
    Q = sparse.random(10, 12, 0.3, random_state=1, format="csr")
    queries, rows = np.repeat(np.arange(10), 30), np.tile(np.arange(30), 10)
    distances = np.empty(300)
    parts = (Q.data, Q.indices, Q.indptr), (X.data, X.indices, X.indptr)
    csr_distances(*parts[0], *parts[1], queries, rows, distances)
    expected = ((Q.toarray()[queries] - X.toarray()[rows]) ** 2).sum(axis=1)
    assert_allclose(distances, expected, rtol=1e-14)


def test_distance_is_symmetric_and_zero_for_equal_rows(rng):
    a, b = rng.randn(33) * 1e5, rng.randn(33)
    assert squared_distance(a, b) == squared_distance(b, a)
    assert squared_distance(a, a) == 0
