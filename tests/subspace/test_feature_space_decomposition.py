import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_wine

from vicinal.subspace import FeatureSpaceDecomposition, _feature_space_decomposition

METHODS = ("random", "principal", "discriminant", "cholesky", "approximate")


@pytest.fixture(scope="module")
def wine():
    return load_wine(return_X_y=True)


@pytest.fixture
def sparse_rows(rng):
    return sp.csr_array(np.maximum(rng.normal(size=(80, 40)) - 1.0, 0.0))


@pytest.mark.parametrize("method", METHODS)
def test_a_subspace_is_its_rows_of_the_transform(wine, method):
    X, y = wine
    parts = FeatureSpaceDecomposition(method, subspace_size=5, n_blocks=3, random_state=0).fit(X, y)
    transforms = parts.components_
    assert parts.n_subspaces_ == len(parts.groups_)
    for i, group in enumerate(parts.groups_):
        W = transforms[parts.partition_of_[i]]
        W = W.toarray() if sp.issparse(W) else W
        assert_allclose(parts.transform_subspace(X, i), X @ W[group].T, rtol=1e-9, atol=1e-9)
    sizes = [len(group) for group in parts.groups_]
    assert parts.transform(X).shape == (len(X), sum(sizes))
    assert len(parts.get_feature_names_out()) == sum(sizes)


@pytest.mark.parametrize("method", METHODS)
def test_sparse_input_gives_the_dense_result(sparse_rows, method):
    y = (sparse_rows.sum(axis=1) > 3).astype(int)
    parts = FeatureSpaceDecomposition(method, n_blocks=3, shrinkage=0.1, random_state=0)
    dense = parts.fit(sparse_rows.toarray(), y).transform(sparse_rows.toarray())
    got = parts.fit(sparse_rows, y).transform(sparse_rows)
    assert sp.issparse(got) == (method in ("random", "approximate"))
    assert_allclose(got.toarray() if sp.issparse(got) else got, dense, atol=1e-8)


@pytest.mark.parametrize("method", ["random", "principal", "discriminant"])
def test_subsets_have_the_given_size(wine, method):
    X, y = wine
    for wanted, size in ((5, 5), (0.75, 10), (0.01, 1), (1.0, 13), (99, 13)):
        parts = FeatureSpaceDecomposition(
            method, n_subspaces=3, subspace_size=wanted, random_state=0
        )
        parts.fit(X, y)
        assert [len(group) for group in parts.groups_] == [size] * 3


@pytest.mark.parametrize("method", ["random", "principal", "cholesky"])
def test_partitions_hold_every_column_once(wine, method):
    X, y = wine
    parts = FeatureSpaceDecomposition(
        method, subspace_size=None, n_blocks=5, n_repeats=2, random_state=0
    ).fit(X, y)
    assert parts.n_subspaces_ == 10
    for repeat in (parts.groups_[:5], parts.groups_[5:]):
        assert_array_equal(np.sort(np.concatenate(repeat)), np.arange(13))
        assert {len(group) for group in repeat} == {2, 3}


def test_cholesky_blocks_are_uncorrelated_despite_constant_and_dependent_columns(wine):
    X = np.column_stack([wine[0], np.full(len(wine[0]), 3.7), wine[0][:, 2] - wine[0][:, 5]])
    parts = FeatureSpaceDecomposition("cholesky", n_blocks=4, n_repeats=3, random_state=1).fit(X)
    assert_array_equal(np.flatnonzero(parts.constant_), [13])
    for repeat in range(3):
        own = np.flatnonzero(parts.partition_of_ == repeat)
        blocks = [parts.transform_subspace(X, i) for i in own]
        blocks = [block - block.mean(axis=0) for block in blocks]
        S = np.hstack(blocks).T @ np.hstack(blocks)
        stops = np.cumsum([block.shape[1] for block in blocks])
        inside = np.zeros_like(S, dtype=bool)
        for start, stop in zip(np.r_[0, stops[:-1]], stops, strict=True):
            inside[start:stop, start:stop] = True
        assert np.abs(S[~inside]).max() <= 1e-10 * np.abs(S).max()


def test_approximate_blocks_are_orthogonal_on_average(wine):
    X = wine[0] - wine[0].mean(axis=0)
    parts = FeatureSpaceDecomposition("approximate", n_blocks=5, n_repeats=1, random_state=0)
    blocks = [parts.fit(X).transform_subspace(X, i) for i in range(5)]
    G = np.array([[(A * B).sum() for B in blocks] for A in blocks])
    assert_allclose(G, np.diag(parts.eigenvalues_[0]), atol=1e-10 * G.max())
    assert_allclose(np.trace(G), (X**2).sum(), rtol=1e-10)


def test_first_discriminant_direction_is_fishers(wine):
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    X, y = wine
    parts = FeatureSpaceDecomposition(
        "discriminant", subspace_size=1.0, shrinkage=1e-9, random_state=0
    )
    W = parts.fit(X, y).components_[0][:2]
    fisher = LinearDiscriminantAnalysis(solver="eigen").fit(X, y).scalings_[:, :2].T
    fisher /= np.linalg.norm(fisher, axis=1, keepdims=True)
    assert_allclose(np.abs((W * fisher).sum(axis=1)), 1.0, rtol=1e-4)
    assert_array_equal(parts.classes_, [0, 1, 2])


def test_principal_components_past_5000_columns_are_found_without_the_scatter_matrix(rng):
    X = sp.csr_array(np.maximum(rng.normal(size=(60, 5200)) - 1.5, 0.0))
    parts = FeatureSpaceDecomposition(
        "principal", n_components=5, subspace_size=1.0, n_subspaces=1, random_state=0
    ).fit(X)
    Z = X.toarray() - X.toarray().mean(axis=0)
    singular = np.linalg.svd(Z, compute_uv=False)
    assert_allclose(parts.eigenvalues_[0], singular[:5] ** 2, rtol=1e-8)
    assert parts.transform(X).shape == (60, 5)


def test_a_million_columns_stay_sparse(rng):
    entries = (
        rng.normal(size=3000),
        (rng.randint(200, size=3000), rng.randint(1_200_000, size=3000)),
    )
    X = sp.csr_array(entries, shape=(200, 1_200_000))
    for method in ("random", "approximate"):
        parts = FeatureSpaceDecomposition(
            method, subspace_size=0.5, n_blocks=4, random_state=0
        ).fit(X)
        block = parts.transform_subspace(X, 0)
        assert sp.issparse(block)
        assert block.nnz <= X.nnz


def test_more_blocks_than_columns_are_lowered_with_a_warning(wine):
    parts = FeatureSpaceDecomposition("cholesky", n_blocks=20, n_repeats=1, random_state=0)
    with pytest.warns(UserWarning, match="n_blocks=20 exceeds the 13 columns"):
        parts.fit(wine[0])
    assert parts.n_subspaces_ == 13


def test_one_column_is_one_subspace(wine):
    parts = FeatureSpaceDecomposition("principal", n_subspaces=2, random_state=0)
    assert parts.fit(wine[0][:, :1]).transform(wine[0][:, :1]).shape == (178, 2)


def test_names_of_columns_survive_where_columns_do(wine):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(wine[0][:, :3], columns=["mass", "speed", "age"])
    parts = FeatureSpaceDecomposition("cholesky", n_blocks=3, n_repeats=1, random_state=0)
    names = parts.fit(frame).get_feature_names_out()
    assert sorted(name.split("_")[1] for name in names) == ["age", "mass", "speed"]
    with pytest.raises(ValueError, match="input_features is not equal to"):
        parts.get_feature_names_out(["a", "b"])


@pytest.mark.parametrize("as_sparse", [False, True])
@pytest.mark.parametrize("n_samples", [12, 35])
@pytest.mark.parametrize("method", ["principal", "discriminant", "cholesky"])
def test_the_row_space_of_wide_tables_gives_the_result_of_the_scatter_matrix(
    method, n_samples, as_sparse, rng, monkeypatch
):
    X = rng.normal(size=(n_samples, 40)) * np.exp(rng.normal(size=40))
    X[:, 4], X[:, 8] = 1.0, X[:, 5] - X[:, 6]  # constant and dependent columns
    X = sp.csr_array(X) if as_sparse else X
    y, weights = np.arange(n_samples) % 3, rng.uniform(0.5, 2.0, n_samples)
    parts = FeatureSpaceDecomposition(method, n_blocks=3, random_state=0)
    got = clone(parts).fit(X, y, weights)
    monkeypatch.setattr(_feature_space_decomposition.SummedRows, "centered", lambda *_: None)
    expected = parts.fit(X, y, weights)
    for group, other in zip(got.groups_, expected.groups_, strict=True):
        assert_array_equal(group, other)
    for W, V in zip(got.components_, expected.components_, strict=True):
        assert_allclose(W.toarray() if sp.issparse(W) else W, V, atol=1e-7)
    assert_allclose(got.transform(X), expected.transform(X), rtol=1e-6, atol=1e-6)
    for values, others in zip(got.eigenvalues_, expected.eigenvalues_, strict=True):
        assert_allclose(values, others, rtol=1e-6)


@pytest.mark.parametrize("method", ["principal", "discriminant", "cholesky"])
def test_wide_tables_form_no_matrix_of_the_columns(method, rng):
    X, y = rng.normal(size=(20, 2000)), np.arange(20) % 2
    parts = FeatureSpaceDecomposition(method, random_state=0).fit(X[:, :30], y)
    tracemalloc.start()
    try:
        parts.fit(X, y).transform(X)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 8 * 2000**2 / 4


def test_a_scatter_too_large_to_form_is_not_needed_for_few_rows(rng):
    X, y = sp.csr_array(rng.normal(size=(5, 21_000))), [0, 1, 0, 1, 0]
    for method in ("discriminant", "cholesky"):
        assert FeatureSpaceDecomposition(method).fit(X, y).transform(X).shape[0] == 5


def test_errors_name_the_remedy(wine):
    X, _ = wine
    with pytest.raises(ValueError, match="Every column of X is constant.*n_samples=178"):
        FeatureSpaceDecomposition().fit(np.ones_like(X))
    with pytest.raises(ValueError, match="requires y.*use method='principal'"):
        FeatureSpaceDecomposition("discriminant").fit(X)
    with pytest.raises(IndexError, match="use 0 to 3"):
        FeatureSpaceDecomposition().fit(X).transform_subspace(X, 4)


def test_many_rows_of_many_columns_are_refused(wine, monkeypatch):
    monkeypatch.setattr(_feature_space_decomposition, "MAX_SCATTER", 3)
    with pytest.raises(ValueError, match="at most 12 rows or as many.*178 rows and 13 columns"):
        FeatureSpaceDecomposition("cholesky").fit(wine[0])


@pytest.mark.parametrize("method", ["principal", "cholesky", "approximate"])
def test_squares_that_vanish_are_named(method, rng):
    X = 1e-300 * rng.normal(size=(40, 3))
    with pytest.raises(ValueError, match="scale X first"):
        FeatureSpaceDecomposition(method).fit(X)
