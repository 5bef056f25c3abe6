import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.decomposition import PCA

from vicinal.io import load, save
from vicinal.linear import WhiteningTransformer

METHODS = ["cholesky", "zca", "pca"]


@pytest.fixture
def X(rng):
    return rng.normal(size=(200, 5)) @ rng.normal(size=(5, 5)) + 10.0 * rng.normal(size=5)


def covariance(Z, weights=None):
    return np.cov(Z.T, bias=True, aweights=weights)


@pytest.mark.parametrize("method", METHODS)
def test_output_covariance_is_the_identity(X, method):
    Z = WhiteningTransformer(method).fit_transform(X)
    assert_allclose(covariance(Z), np.eye(5), atol=1e-10)
    assert_allclose(Z.mean(axis=0), 0.0, atol=1e-10)


@pytest.mark.parametrize("method", METHODS)
def test_identity_holds_for_a_bad_condition_and_a_far_origin(rng, method):
    """Condition number 1e9; one pass alone leaves 1e-8 or worse for the axes."""
    axes = np.linalg.qr(rng.normal(size=(6, 6)))[0]
    X = rng.normal(size=(500, 6)) * np.logspace(0, -4.5, 6) @ axes
    Z = WhiteningTransformer(method).fit_transform(X)
    assert_allclose(covariance(Z), np.eye(6), atol=1e-10)
    far = WhiteningTransformer(method).fit_transform(X + 1e3)
    assert_allclose(covariance(far), np.eye(6), atol=1e-8)


@pytest.mark.parametrize("method", METHODS)
def test_weights_equal_repetition(X, rng, method):
    counts = rng.randint(4, size=len(X))
    weighted = WhiteningTransformer(method).fit(X, sample_weight=counts)
    repeated = WhiteningTransformer(method).fit(np.repeat(X, counts, axis=0))
    assert_allclose(weighted.transform(X), repeated.transform(X), atol=1e-10)
    assert_allclose(covariance(weighted.transform(X), counts), np.eye(5), atol=1e-10)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("shrinkage", [0.0, 0.3])
def test_inverse_gives_the_data_back(X, method, shrinkage):
    model = WhiteningTransformer(method, shrinkage=shrinkage).fit(X)
    assert_allclose(model.inverse_transform(model.transform(X)), X, rtol=1e-10)


def test_cholesky_is_the_inverse_factor(X):
    model = WhiteningTransformer().fit(X)
    lower = np.linalg.cholesky(covariance(X))
    assert_allclose(model.whitening_, np.linalg.inv(lower).T, atol=1e-10)
    assert_allclose(model.unwhitening_, lower.T, atol=1e-10)
    assert_array_equal(np.tril(model.whitening_, -1), 0.0)


def test_pca_equals_scikit_learn(X):
    Z = WhiteningTransformer("pca").fit_transform(X)
    expected = PCA(whiten=True).fit_transform(X) * np.sqrt(200 / 199)
    assert_allclose(np.abs(Z), np.abs(expected), atol=1e-8)


def test_zca_is_symmetric_and_follows_the_order_of_columns(X, rng):
    model = WhiteningTransformer("zca").fit(X)
    assert_allclose(model.whitening_, model.whitening_.T, atol=1e-10)
    order = rng.permutation(5)
    other = WhiteningTransformer("zca").fit_transform(X[:, order])
    assert_allclose(other, model.transform(X)[:, order], atol=1e-10)


def test_distances_do_not_depend_on_the_method(X):
    norms = [np.linalg.norm(WhiteningTransformer(m).fit_transform(X), axis=1) for m in METHODS]
    assert_allclose(norms[1], norms[0], rtol=1e-9)
    assert_allclose(norms[2], norms[0], rtol=1e-9)


def test_dependent_column_is_dropped_and_restored(X):
    """Plain Cholesky lets it pass with a pivot of rounding noise and blows it up."""
    wide = np.column_stack([X[:, :2], X[:, 0] - 2.0 * X[:, 1] + 3.0, X[:, 2:]])
    model = WhiteningTransformer().fit(wide)
    assert_array_equal(model.dependent_features_, [2])
    assert model.rank_ == 5
    Z = model.transform(wide)
    assert_allclose(covariance(Z), np.eye(5), atol=1e-10)
    assert_allclose(Z, WhiteningTransformer().fit_transform(X), atol=1e-8)
    assert_allclose(model.inverse_transform(Z), wide, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("value", [0.0, 1e6 / 3])
def test_constant_column_is_dropped_and_restored(X, value):
    wide = np.column_stack([np.full(len(X), value), X])
    model = WhiteningTransformer().fit(wide)
    assert_array_equal(model.dependent_features_, [0])
    assert_allclose(model.inverse_transform(model.transform(wide)), wide, rtol=1e-9)


def test_scales_of_columns_do_not_make_them_dependent(X):
    scales = np.array([1.0, 1e-9, 1e9, 1.0, 1e3])
    scaled = WhiteningTransformer().fit(X * scales)
    assert scaled.rank_ == 5
    assert_allclose(
        scaled.transform(X * scales), WhiteningTransformer().fit_transform(X), atol=1e-7
    )


@pytest.mark.parametrize("method", ["zca", "pca"])
def test_axes_without_variance_are_projected_out(X, method):
    wide = np.column_stack([X, X[:, 0] + X[:, 1]])
    model = WhiteningTransformer(method).fit(wide)
    Z = model.transform(wide)
    assert model.rank_ == 5
    values = np.linalg.eigvalsh(covariance(Z))
    assert_allclose(values[-5:], 1.0, atol=1e-9)
    assert_allclose(values[:-5], 0.0, atol=1e-9)
    assert_allclose(model.inverse_transform(Z), wide, rtol=1e-8, atol=1e-8)


def test_more_columns_than_rows(rng):
    X = rng.normal(size=(5, 12))
    model = WhiteningTransformer().fit(X)
    assert model.rank_ == 4
    assert_array_equal(model.dependent_features_, np.arange(4, 12))
    assert_allclose(covariance(model.transform(X)), np.eye(4), atol=1e-10)


def test_full_shrinkage_only_scales(X):
    model = WhiteningTransformer(shrinkage=1.0).fit(X)
    scale = np.sqrt(np.trace(covariance(X)) / 5)
    assert_allclose(model.whitening_, np.eye(5) / scale, atol=1e-12)


def test_names_of_outputs(X):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(np.column_stack([X, X[:, 0]]), columns=list("abcdef"))
    model = WhiteningTransformer().set_output(transform="pandas").fit(frame)
    assert list(model.transform(frame).columns) == list("abcde")
    assert list(WhiteningTransformer("zca").fit(frame).get_feature_names_out()) == list("abcdef")
    names = WhiteningTransformer("pca").fit(frame).get_feature_names_out()
    assert list(names) == [f"whiteningtransformer{i}" for i in range(5)]


def test_float32_stays_float32(X):
    model = WhiteningTransformer().fit(X.astype(np.float32))
    Z = model.transform(X.astype(np.float32))
    assert Z.dtype == np.float32
    assert model.inverse_transform(Z).dtype == np.float32
    assert_allclose(covariance(Z), np.eye(5), atol=1e-3)


def test_errors_name_the_remedy(X):
    with pytest.raises(TypeError, match="dense data is required"):
        WhiteningTransformer().fit(sparse.csr_array(X))
    with pytest.raises(ValueError, match="drop constant columns"):
        WhiteningTransformer().fit(np.ones((4, 2)))
    with pytest.raises(ValueError, match="5 columns, but whitened samples have 4"):
        WhiteningTransformer().fit(X[:, :4]).inverse_transform(X)
    with pytest.raises(ValueError, match="'method' parameter"):
        WhiteningTransformer("svd").fit(X)


def test_files_keep_a_map_to_fewer_columns(X, tmp_path):
    X = np.column_stack([X, X[:, 0] + X[:, 1]])
    model = WhiteningTransformer().fit(X)
    again = load(save(model, tmp_path / "whitening.vicinal"))
    assert_array_equal(again.transform(X), model.transform(X))
