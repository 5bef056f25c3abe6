"""Exact neighbours: compiled, on devices, of few rows, and merged lists."""

from fractions import Fraction

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn import config_context

from vicinal._kernels.neighbors._nearest import (
    DeviceRows,
    Pairs,
    ProductRows,
    _product_bound,
    csr_distances,
    nearest_rows,
    rows_within,
    select_first,
    sort_rows,
    squared_distance,
)
from vicinal.neighbors import NeighborSearch
from vicinal.neighbors._engines import ExcludedRows, SmallEngine


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


def test_bound_of_the_product_is_rounded_up():
    for reach, expected in ((2.0, -1.8), (6.0, 2.2)):
        assert _product_bound(reach, 1.0, 4.0, 0.1) == pytest.approx(expected)
    assert _product_bound(2.0, 0.5, 4.0, 0.1) == pytest.approx(-3.5 * 0.9)


@pytest.mark.parametrize("radius", [0.5, 10.0])
def test_pairs_within_a_radius_fill_longer_lists(rng, radius):
    """One query has more rows than the first lists hold, and the next ones add to them."""
    X, Q = rng.uniform(size=(3000, 2)), rng.uniform(size=(3, 2))
    fitted = ProductRows(X)
    left, norms = fitted.queries(Q)
    codes = np.arange(3000), np.full(3, -1)
    pairs = Pairs(Q, X, left, fitted.rows, norms, fitted.scale, fitted.rounding, *codes)
    queries, rows, squares = rows_within(pairs, np.full(3, radius))
    expected = ((Q[:, None] - X) ** 2).sum(axis=2)
    inside = np.nonzero(np.sqrt(expected) <= radius)
    assert inside[0].size > 1024
    order = np.lexsort((rows, queries))
    assert_array_equal(queries[order], inside[0])
    assert_array_equal(rows[order], inside[1])
    assert_allclose(squares[order], expected[inside])


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


torch = pytest.importorskip("torch")
NOBODY = -1


def brute(X, Q):
    return np.sqrt(((Q[:, None].astype(float) - X[None].astype(float)) ** 2).sum(axis=2))


def search(X, Q, k, row_codes=None, query_codes=None, n_spare=0):
    row_codes = np.arange(len(X)) if row_codes is None else row_codes
    query_codes = np.full(len(Q), NOBODY) if query_codes is None else query_codes
    X, Q, *codes = (torch.from_numpy(a) for a in (X, Q, row_codes, query_codes))
    return DeviceRows(X).nearest(Q, k, ExcludedRows(*codes, n_spare))


def within(X, Q, radii, query_codes=None):
    query_codes = np.full(len(Q), NOBODY) if query_codes is None else query_codes
    fitted = DeviceRows(torch.from_numpy(X))
    left_out = ExcludedRows(torch.arange(len(X)), torch.from_numpy(query_codes), 0)
    return fitted.within(torch.from_numpy(Q), torch.from_numpy(radii), left_out)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_neighbours_are_those_of_brute_force(rng, dtype):
    X, Q = rng.normal(size=(200, 4)).astype(dtype), rng.normal(size=(30, 4)).astype(dtype)
    distances, rows = search(X, Q, 7)
    expected = brute(X, Q)
    order = np.argsort(expected, axis=1, kind="stable")[:, :7]
    assert_array_equal(rows, order)
    assert_allclose(distances, np.take_along_axis(expected, order, axis=1), rtol=1e-6)
    assert distances.numpy().dtype == dtype


def test_far_from_the_origin_single_precision_is_still_exact(rng):
    """Rows a thousand spreads from the origin, where products of float32 cancel."""
    X = (rng.normal(size=(300, 3)) + 1e3).astype(np.float32)
    X[0] = 5e3
    _, rows = search(X, X[50:60], 5)
    assert_array_equal(rows, np.argsort(brute(X, X[50:60]), axis=1, kind="stable")[:, :5])


def test_ties_go_to_the_smaller_row():
    X = np.array([[1.0], [-1.0], [1.0], [3.0], [-1.0]])
    distances, rows = search(X, np.zeros((1, 1)), 4)
    assert rows.tolist() == [[0, 1, 2, 4]]
    assert_allclose(distances, [[1.0, 1.0, 1.0, 1.0]])


def test_equal_rows_beyond_the_candidates_are_found():
    """More ties than candidates: the search must widen until all are seen."""
    X = np.zeros((100, 2))
    X[:90] = 1.0
    _, rows = search(X, np.ones((1, 2)), 3)
    assert rows.tolist() == [[0, 1, 2]]


def test_rows_of_the_same_code_are_left_out(rng):
    X = rng.normal(size=(60, 2))
    groups = np.arange(60) // 3
    _, rows = search(X, X[:12], 4, groups, groups[:12], n_spare=3)
    expected = brute(X, X[:12])
    expected[groups[:12, None] == groups[None]] = np.inf
    assert_array_equal(rows, np.argsort(expected, axis=1, kind="stable")[:, :4])


def test_all_rows_can_be_asked_for(rng):
    X = rng.normal(size=(5, 2))
    distances, rows = search(X, X[:1], 5)
    assert sorted(rows[0].tolist()) == [0, 1, 2, 3, 4]
    assert float(distances[0, 0]) == 0.0


def test_blocks_of_queries_change_nothing(rng):
    X, Q = rng.normal(size=(150, 3)), rng.normal(size=(40, 3))
    whole = search(X, Q, 6)
    with config_context(working_memory=0.02):
        parts = search(X, Q, 6)
    for one, other in zip(whole, parts, strict=True):
        assert_array_equal(one, other)


def test_constant_rows_have_a_scale():
    fitted = DeviceRows(torch.ones((4, 2)))
    assert fitted.scale == 1.0
    distances, _ = search(np.ones((4, 2)), np.array([[1.0, 4.0]]), 2)
    assert_allclose(distances, [[3.0, 3.0]])


def test_lower_bounds_are_below_the_distances_and_close(rng):
    X, Q = rng.normal(size=(80, 5)), rng.normal(size=(9, 5))
    bounds, norms, unit = DeviceRows(torch.from_numpy(X)).lower_bounds(torch.from_numpy(Q))
    squares = brute(X, Q) ** 2
    found = (bounds + norms[:, None]).numpy() / unit
    assert (found <= squares).all()
    assert_allclose(found, squares, rtol=1e-9, atol=1e-9)


def test_everything_within_a_radius_by_hand():
    X = np.array([[0.0], [1.0], [2.0], [4.0]])
    queries, rows, distances = within(X, np.array([[1.0], [9.0], [3.5]]), np.array([1.0, 2.0, 2.5]))
    assert queries.tolist() == [0, 0, 0, 2, 2, 2]
    assert rows.tolist() == [1, 0, 2, 3, 2, 1]
    assert_allclose(distances, [0.0, 1.0, 1.0, 0.5, 1.5, 2.5])
    # The row itself is left out by its code.
    _, rows, _ = within(X, X[1:2], np.array([1.0]), np.array([1]))
    assert rows.tolist() == [0, 2]


def test_a_radius_of_zero_finds_equal_rows_in_order():
    """The query is the mean of the rows, where the lower bound of its copies is exactly zero."""
    X = np.repeat([[-1.0], [0.0], [1.0]], 40, axis=0)
    queries, rows, distances = within(X, np.zeros((1, 1)), np.zeros(1))
    assert rows.tolist() == list(range(40, 80))
    assert not queries.any()
    assert not distances.any()


def test_pairs_at_equal_distances_are_ordered_by_row(rng, to_array):
    X, Q = rng.randint(0, 3, size=(400, 1)).astype(float), np.array([[0.0], [2.0]])
    left_out = ExcludedRows(to_array(np.arange(400)), to_array(np.full(2, NOBODY)), 0)
    fitted = DeviceRows(to_array(X))
    queries, rows, distances = fitted.within(to_array(Q), to_array(np.full(2, 5.0)), left_out)
    expected = np.abs(Q - X[:, 0])
    order = np.argsort(expected, axis=1, kind="stable")
    assert_array_equal(np.asarray(queries), np.repeat([0, 1], 400))
    assert_array_equal(np.asarray(rows), order.ravel())
    assert_array_equal(np.asarray(distances), np.sort(expected, axis=1).ravel())


def test_radii_are_those_of_brute_force(rng):
    X, Q = rng.normal(size=(120, 3)), rng.normal(size=(20, 3))
    radii = rng.uniform(0.3, 1.5, 20)
    with config_context(working_memory=0.02):
        queries, rows, distances = within(X, Q, radii)
    expected = brute(X, Q)
    inside = expected <= radii[:, None]
    assert len(rows) == inside.sum()
    assert inside[queries, rows].all()
    assert_allclose(distances, expected[queries, rows])
    order = np.lexsort([rows, distances, queries])
    assert_array_equal(order, np.arange(len(rows)))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_few_rows_give_what_many_would(rng, monkeypatch, dtype):
    X = rng.randint(0, 4, size=(80, 3)).astype(dtype)  # many ties
    groups = np.arange(80) // 4

    def ask():
        search = NeighborSearch(algorithm="brute").fit(X)
        near = search.kneighbors(n_neighbors=7, groups=groups)
        within = search.radius_neighbors(X[:9] + dtype(0.25), 1.5)
        return *near, within.indptr, within.indices, within.distances

    few = ask()
    monkeypatch.setattr(SmallEngine, "MAX_ROWS", 0)
    for one, other in zip(few, ask(), strict=True):
        assert one.dtype == other.dtype
        check = assert_array_equal if one.dtype.kind == "i" else assert_allclose
        check(one, other)


def test_many_rows_are_not_few():
    assert SmallEngine.suits(np.empty((300, 20)))
    assert not SmallEngine.suits(np.empty((1000, 2)))
    assert not SmallEngine.suits(np.empty((300, 1000)))
