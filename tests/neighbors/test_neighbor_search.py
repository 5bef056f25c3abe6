import pickle
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.spatial.distance import cdist
from sklearn import config_context
from sklearn.base import clone
from sklearn.neighbors import NearestNeighbors
from sklearn.utils.estimator_checks import parametrize_with_checks

from vicinal.neighbors import NeighborSearch


def naive(X, Q, exclude=None, groups=None):
    """All distances by differences, and the order by distance, then row."""
    X, Q = np.asarray(X, np.float64), np.asarray(Q, np.float64)
    distances = np.sqrt(((Q[:, None, :] - X[None, :, :]) ** 2).sum(axis=2))
    if exclude is not None:
        codes = np.arange(len(X)) if groups is None else np.asarray(groups)
        distances[(codes[exclude][:, None] == codes) & (np.asarray(exclude) >= 0)[:, None]] = np.inf
    order = np.lexsort((np.broadcast_to(np.arange(len(X)), distances.shape), distances), axis=1)
    return np.take_along_axis(distances, order, axis=1), order


def clumped(rng, n, d):
    """Rows with many exact duplicates and ties, far from the origin."""
    return rng.randint(-2, 3, size=(n, d)) + 1000.0


ALGORITHMS = ["tree", "brute"]


@parametrize_with_checks([NeighborSearch(n_neighbors=2), NeighborSearch(algorithm="brute")])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("n", "d", "k"), [(50, 1, 3), (3000, 3, 40), (1500, 20, 200), (40, 5, 40)])
def test_equals_naive_search(rng, algorithm, dtype, n, d, k):
    X, Q = rng.randn(n, d).astype(dtype), rng.randn(70, d).astype(dtype)
    distances, indices = NeighborSearch(algorithm=algorithm).fit(X).kneighbors(Q, k)
    expected, order = naive(X, Q)
    assert_array_equal(indices, order[:, :k])
    assert_allclose(distances, expected[:, :k], rtol=1e-14 if dtype == np.float64 else 1e-7)
    assert distances.dtype == dtype
    assert indices.dtype == np.int64


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_ties_are_ordered_by_row(rng, algorithm):
    X = clumped(rng, 600, 3)
    distances, indices = NeighborSearch(algorithm=algorithm).fit(X).kneighbors(X[:100], 30)
    expected, order = naive(X, X[:100])
    assert_array_equal(indices, order[:, :30])
    assert_array_equal(distances, expected[:, :30])


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_duplicates_are_at_distance_zero(rng, algorithm):
    X = rng.randn(500, 6) * 1e-3 + 1e4
    X[250:] = X[:250]
    distances, indices = NeighborSearch(algorithm=algorithm).fit(X).kneighbors(n_neighbors=1)
    assert_array_equal(distances, 0)
    assert_array_equal(indices[:, 0], (np.arange(500) + 250) % 500)


@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_any_scale_and_far_queries(rng, scale):
    X = rng.randn(300, 12) * scale
    X[0] *= 1e12
    Q = np.vstack([rng.randn(5, 12) * scale, rng.randn(5, 12) * 1e25 * scale])
    _, indices = NeighborSearch(algorithm="brute").fit(X).kneighbors(Q, 20)
    assert_array_equal(indices, naive(X / scale, Q / scale)[1][:, :20])


def test_separate_clusters_far_apart(rng):
    """The bound of the product is useless here; the result must be exact."""
    X = rng.randn(2000, 10) + np.where(np.arange(2000) % 2, 1e7, -1e7)[:, None]
    distances, indices = NeighborSearch(algorithm="brute").fit(X).kneighbors(X[:50], 15)
    expected, order = naive(X, X[:50])
    assert_array_equal(indices, order[:, :15])
    assert_allclose(distances, expected[:, :15], rtol=1e-14)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_identical_rows_only(algorithm):
    X = np.full((300, 4), 0.1)
    distances, indices = NeighborSearch(algorithm=algorithm).fit(X).kneighbors(n_neighbors=5)
    assert_array_equal(distances, 0)
    assert_array_equal(indices[0], [1, 2, 3, 4, 5])
    assert_array_equal(indices[2], [0, 1, 3, 4, 5])


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_exclusion_is_by_index(rng, algorithm):
    X = clumped(rng, 200, 2)
    exclude = rng.randint(-1, 200, size=50)
    search = NeighborSearch(algorithm=algorithm).fit(X)
    distances, indices = search.kneighbors(X[:50], 7, exclude=exclude)
    expected, order = naive(X, X[:50], exclude)
    assert_array_equal(indices, order[:, :7])
    assert_array_equal(distances, expected[:, :7])


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_exclusion_of_groups(rng, algorithm):
    X, groups = rng.randn(120, 4), rng.choice(["a", "b", "c", "d"], size=120)
    _, indices = NeighborSearch(algorithm=algorithm).fit(X).kneighbors(n_neighbors=9, groups=groups)
    assert_array_equal(indices, naive(X, X, np.arange(120), groups)[1][:, :9])
    assert not (groups[indices] == groups[:, None]).any()


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_radius_holds_its_edge(algorithm):
    X = np.array([[0.0], [1.0], [-1.0], [1.0], [2.0]])
    found = NeighborSearch(algorithm=algorithm).fit(X).radius_neighbors([[0.0], [9.0]], 1.0)
    assert_array_equal(found.indptr, [0, 4, 4])
    assert_array_equal(found.indices, [0, 1, 2, 3])
    assert_array_equal(found.distances, [0, 1, 1, 1])


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_radius_equals_naive_search(rng, algorithm, dtype):
    X, Q = rng.randn(2500, 4).astype(dtype), rng.randn(90, 4).astype(dtype)
    radii = rng.uniform(0, 3, size=90)
    exclude = rng.randint(-1, 2500, size=90)
    found = NeighborSearch(algorithm=algorithm).fit(X).radius_neighbors(Q, radii, exclude=exclude)
    expected, order = naive(X, Q, exclude)
    for i, (distances, indices) in enumerate(found.split()):
        count = (expected[i] <= radii[i]).sum()
        assert_array_equal(indices, order[i, :count])
        assert_allclose(distances, expected[i, :count], rtol=1e-6)
    assert found.distances.dtype == dtype
    assert_array_equal(found.radii, radii)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_order_of_training_rows_does_not_matter(rng, algorithm):
    X = clumped(rng, 200, 3)
    order = rng.permutation(200)
    search = NeighborSearch(algorithm=algorithm)
    one = search.fit(X).radius_neighbors(X[:20], 2.0)
    two = clone(search).fit(X[order]).radius_neighbors(X[:20], 2.0)
    assert len(one.indices) > 20
    assert_array_equal(one.distances, two.distances)
    for (_, a), (_, b) in zip(one.split(), two.split(), strict=True):
        assert_array_equal(np.sort(a), np.sort(order[b]))


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_threads_memory_and_batch_change_nothing(rng, algorithm):
    X, Q = clumped(rng, 1500, 4) + rng.randint(2, size=(1500, 4)) / 3, rng.randn(300, 4) + 1000
    search = NeighborSearch(25, algorithm=algorithm, n_jobs=1).fit(X)
    distances, indices = search.kneighbors(Q)
    found = search.radius_neighbors(Q, 1000.0)
    with config_context(working_memory=0.01):
        other = clone(search).set_params(n_jobs=3).fit(X)
        assert_array_equal(other.kneighbors(Q)[0], distances)
        assert_array_equal(other.kneighbors(Q)[1], indices)
        for one, two in zip(other.radius_neighbors(Q, 1000.0), found, strict=True):
            assert_array_equal(one, two)
    assert_array_equal(search.kneighbors(Q[137:138])[0], distances[137:138])
    assert_array_equal(search.kneighbors(Q[::-1])[1][::-1], indices)


@pytest.mark.parametrize("metric", ["manhattan", "chebyshev", "cosine"])
@pytest.mark.parametrize("d", [3, 12])
def test_other_metrics_equal_scikit_learn(rng, metric, d):
    X, Q = rng.randn(200, d), rng.randn(30, d)
    distances, indices = NeighborSearch(metric=metric).fit(X).kneighbors(Q, 8)
    reference = NearestNeighbors(metric=metric, algorithm="brute").fit(X).kneighbors(Q, 8)
    assert_allclose(distances, reference[0], atol=1e-14)
    assert_array_equal(indices, reference[1])
    found = NeighborSearch(metric=metric).fit(X).radius_neighbors(Q, reference[0][:, 4] + 1e-9)
    assert_array_equal(np.diff(found.indptr), 5)


def test_metric_params_and_callable(rng):
    X, Q = rng.randn(60, 3), rng.randn(5, 3)
    cubic = NeighborSearch(metric="minkowski", metric_params={"p": 3}).fit(X).kneighbors(Q, 4)[0]
    assert_allclose(cubic, np.sort(cdist(Q, X, "minkowski", p=3), axis=1)[:, :4])
    own = NeighborSearch(metric=lambda a, b: np.abs(a - b).sum(), algorithm="brute")
    assert_allclose(
        own.fit(X).kneighbors(Q, 4)[0], np.sort(cdist(Q, X, "cityblock"), axis=1)[:, :4]
    )
    squared = NeighborSearch(metric="minkowski", metric_params={"p": 2}, algorithm="brute").fit(X)
    assert_array_equal(squared.kneighbors(Q)[0], NeighborSearch().fit(X).kneighbors(Q)[0])


def test_unsorted_sparse_queries_are_left_as_they_are(rng):
    X = sparse.random(60, 8, 0.4, random_state=0, format="csr")
    backwards = sparse.csr_array(([1.0, 2.0], [5, 2], [0, 2]), shape=(1, 8))
    distances, _ = NeighborSearch().fit(X).kneighbors(backwards, 3)
    assert backwards.indices.tolist() == [5, 2]
    expected, _ = (
        NeighborSearch(algorithm="brute").fit(X.toarray()).kneighbors(backwards.toarray(), 3)
    )
    assert_allclose(distances, expected, rtol=1e-12)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_sparse_equals_dense(rng, dtype):
    X = sparse.random(300, 40, 0.1, random_state=0, format="csr", dtype=dtype)
    Q = sparse.vstack([X[:10], sparse.random(20, 40, 0.1, random_state=1, dtype=dtype)]).tocsr()
    search = NeighborSearch().fit(X)
    dense = NeighborSearch(algorithm="brute").fit(X.toarray())
    distances, indices = search.kneighbors(Q, 6)
    expected, rows = dense.kneighbors(Q.toarray(), 6)
    assert_allclose(distances, expected, rtol=1e-6 if dtype == np.float32 else 1e-13)
    assert_array_equal(indices, rows)
    assert_array_equal(distances[:10, 0], 0)
    found, wanted = search.radius_neighbors(Q, 1.5), dense.radius_neighbors(Q.toarray(), 1.5)
    assert_array_equal(found.indptr, wanted.indptr)


def test_auto_takes_the_tree_in_few_dimensions(rng):
    assert NeighborSearch().fit(rng.randn(20, 3)).algorithm_ == "brute"
    assert NeighborSearch().fit(rng.randn(400, 3)).algorithm_ == "tree"
    assert NeighborSearch().fit(rng.randn(400, 4)).algorithm_ == "brute"
    assert NeighborSearch().fit(rng.randn(20_000, 4)).algorithm_ == "tree"
    assert NeighborSearch().fit(rng.randn(20_000, 30)).algorithm_ == "brute"
    assert NeighborSearch(metric="manhattan").fit(rng.randn(20, 8)).algorithm_ == "tree"
    assert NeighborSearch(metric="manhattan").fit(rng.randn(20, 9)).algorithm_ == "brute"
    assert NeighborSearch(metric="cosine").fit(rng.randn(20, 3)).algorithm_ == "brute"


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_pickle_keeps_the_search(rng, algorithm):
    X = rng.randn(80, 3)
    search = NeighborSearch(algorithm=algorithm).fit(X)
    copy = pickle.loads(pickle.dumps(search))
    assert_array_equal(copy.kneighbors(X)[1], search.kneighbors(X)[1])


def test_device_arrays_equal_numpy(rng, to_array):
    X, Q = clumped(rng, 400, 3), np.vstack([clumped(rng, 30, 3), rng.randn(10, 3) + 1000])
    exclude = rng.randint(-1, 400, size=40)
    host = NeighborSearch(algorithm="brute").fit(X)
    device = NeighborSearch().fit(to_array(X))
    queries = to_array(Q)
    for one, two in (
        (host.kneighbors(Q, 12), device.kneighbors(queries, 12)),
        (host.kneighbors(n_neighbors=5), device.kneighbors(n_neighbors=5)),
        (host.kneighbors(Q, 9, exclude=exclude), device.kneighbors(queries, 9, exclude=exclude)),
        (host.radius_neighbors(Q, 2.0), device.radius_neighbors(queries, 2.0)),
    ):
        for expected, result in zip(one, two, strict=True):
            assert type(result) is type(queries)
            assert_allclose(np.asarray(result), expected, rtol=1e-14)


def test_device_blocks_change_nothing(rng):
    torch = pytest.importorskip("torch")
    X, Q = rng.randn(500, 20).astype(np.float32), rng.randn(60, 20).astype(np.float32)
    search = NeighborSearch().fit(torch.asarray(X))
    distances, indices = search.kneighbors(torch.asarray(Q), 30)
    assert distances.dtype == torch.float32
    assert_array_equal(indices, naive(X, Q)[1][:, :30])
    with config_context(working_memory=0.02):
        assert_array_equal(search.kneighbors(torch.asarray(Q), 30)[0], distances)


def test_reduced_precision_of_torch_products_is_allowed_for(rng):
    torch = pytest.importorskip("torch")
    X, Q = rng.randn(500, 20).astype(np.float32), rng.randn(30, 20).astype(np.float32)
    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision("medium")
        _, indices = NeighborSearch().fit(torch.asarray(X)).kneighbors(torch.asarray(Q), 10)
    finally:
        torch.set_float32_matmul_precision(before)
    assert_array_equal(indices, naive(X, Q)[1][:, :10])


def test_libraries_are_not_mixed(rng):
    torch = pytest.importorskip("torch")
    X = rng.randn(30, 3)
    with pytest.raises(TypeError, match="convert X to the library"):
        NeighborSearch().fit(torch.asarray(X)).kneighbors(X)
    with pytest.raises(TypeError, match="convert X to the library"):
        NeighborSearch().fit(X).kneighbors(torch.asarray(X))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda s, X: s.kneighbors(X, 41), "n_neighbors=41 exceeds the 40 training rows"),
        (lambda s, X: s.kneighbors(n_neighbors=40), "exceeds the 39 training rows without the 1"),
        (lambda s, X: s.kneighbors(X, 0), "n_neighbors=0 must be an integer"),
        (lambda s, X: s.kneighbors(X, 2.5), "n_neighbors=2.5 must be an integer"),
        (lambda s, X: s.kneighbors(X[:, :1]), "1 features, but NeighborSearch is expecting 2"),
        (lambda s, X: s.kneighbors(X, exclude=[0]), "one row number for each of the 40 queries"),
        (lambda s, X: s.kneighbors(X, exclude=np.full(40, 40)), "training rows are 0 to 39"),
        (lambda s, X: s.kneighbors(groups=[1, 2]), "one label for each of the 40 training rows"),
        (lambda s, X: s.radius_neighbors(X, -1.0), "must not be negative"),
        (lambda s, X: s.radius_neighbors(X, [1.0, 2.0]), "one for each of the 40 queries"),
        (lambda s, X: s.set_params(algorithm="tree", metric="cosine").fit(X), "cannot use metric"),
        (lambda s, X: s.set_params(algorithm="tree").fit(sparse.csr_array(X)), "a sparse matrix"),
    ],
)
def test_errors_name_value_and_rule(rng, call, message):
    X = rng.randn(40, 2)
    with pytest.raises(ValueError, match=message):
        call(NeighborSearch().fit(X), X)


def test_device_arrays_have_one_metric(rng):
    torch = pytest.importorskip("torch")
    with pytest.raises(ValueError, match="metric='manhattan' is not available for a Tensor"):
        NeighborSearch(metric="manhattan").fit(torch.asarray(rng.randn(9, 2)))


class ForgetfulGraph:
    """Stands in for pynndescent, whose compilation takes a minute: forgets every tenth row."""

    def __init__(self, X, **settings):
        self.rows = np.flatnonzero(np.arange(len(X)) % 10)
        self.search = NearestNeighbors(algorithm="brute").fit(X[self.rows])

    def prepare(self):
        pass

    def query(self, Q, k):
        distances, rows = self.search.kneighbors(Q, k)
        return self.rows[rows].astype(np.int32)[:, ::-1], distances.astype(np.float32)[:, ::-1]


@pytest.fixture
def forgetful(monkeypatch):
    fake = SimpleNamespace(NNDescent=ForgetfulGraph)
    monkeypatch.setitem(sys.modules, "pynndescent", fake)


def check_graph_search(X, search):
    """What is found is sorted, measured exactly, and as complete as recall_ reports."""
    k = search.n_neighbors
    wanted = naive(X, X, np.arange(len(X)))[0][:, k - 1 : k]
    distances, indices = search.kneighbors()
    assert np.mean(distances <= wanted * (1 + 1e-6)) == pytest.approx(search.recall_, abs=0.05)
    assert not (indices == np.arange(len(X))[:, None]).any()
    assert (np.diff(distances, axis=1) >= 0).all()
    by_hand = np.sqrt(((X[indices] - X[:, None, :]) ** 2).sum(axis=2))
    assert_allclose(distances, by_hand, rtol=1e-14)


def test_approximate_search_reports_its_recall(rng, forgetful):
    X = rng.randn(400, 12)
    search = NeighborSearch(8, algorithm="approximate", random_state=0).fit(X)
    check_graph_search(X, search)
    assert 0.8 < search.recall_ < 0.97


def test_approximate_search_has_no_radius(rng, forgetful):
    X = rng.randn(50, 3)
    search = NeighborSearch(algorithm="approximate").fit(X)
    with pytest.raises(ValueError, match="does not support radius_neighbors"):
        search.radius_neighbors(X[:3], 1.0)
    with pytest.raises(ValueError, match="'approximate' does not support a sparse matrix"):
        NeighborSearch(algorithm="approximate").fit(sparse.csr_array(X))


@pytest.mark.statistical
def test_graph_of_pynndescent(rng):
    pytest.importorskip("pynndescent")
    X = rng.randn(1200, 12)
    search = NeighborSearch(8, algorithm="approximate", random_state=0).fit(X)
    check_graph_search(X, search)
    assert search.recall_ > 0.9


def test_exact_search_has_recall_one(rng):
    assert NeighborSearch().fit(rng.randn(20, 3)).recall_ == 1.0


@pytest.mark.parametrize("metric", ["euclidean", "manhattan"])
def test_queries_may_be_sparse_where_the_rows_are_dense_and_the_other_way(rng, metric):
    X = np.where(rng.rand(60, 4) < 0.5, 0.0, rng.rand(60, 4))
    expected = NeighborSearch(5, metric=metric).fit(X).kneighbors(X)
    for rows, queries in (
        (X, sparse.csr_array(X)),
        (sparse.csc_matrix(X), X),
        (X, sparse.coo_matrix(X)),
    ):
        distances, indices = NeighborSearch(5, metric=metric).fit(rows).kneighbors(queries)
        assert_allclose(distances, expected[0], atol=1e-12)
        assert_array_equal(indices, expected[1])


def test_queries_whose_distances_overflow_are_refused(rng):
    with pytest.raises(ValueError, match=r"X holds 1e\+300"):
        NeighborSearch(5).fit(rng.rand(20, 2)).kneighbors(np.full((1, 2), 1e300))
