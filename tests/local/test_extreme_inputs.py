"""Inputs at the edge: the right prediction, or one clear error before any work."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

from vicinal.local import (
    AnchoredLocalRegressor,
    GradientMetric,
    LocalClassifier,
    LocalRegressor,
    LoessRegressor,
    NadarayaWatsonRegressor,
    PrincipalSurface,
)

FIXED = {"n_neighbors": 10, "degree": 1, "alpha": 0.1}


@pytest.fixture
def data():
    rng = np.random.RandomState(0)
    X = rng.normal(size=(60, 3))
    return X, X[:, 0] + 0.1 * rng.normal(size=60), rng.normal(size=(7, 3))


def regressors():
    return [
        LocalRegressor(**FIXED),
        LocalRegressor(**{**FIXED, "alpha": 0.0}),
        LocalRegressor(**FIXED, metric="euclidean"),
        LocalRegressor(),
        NadarayaWatsonRegressor(n_neighbors=10),
        LoessRegressor(degree=1),
    ]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("model", regressors(), ids=repr)
def test_rows_without_spread_are_averaged(data, model):
    _, y, Q = data
    model.fit(np.full((60, 3), 7.0), y)
    assert_allclose(model.predict(np.vstack([Q, np.full((1, 3), 7.0)])), y.mean())


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("model", regressors(), ids=repr)
def test_whole_numbers_beyond_floats_are_averaged(data, model):
    _, y, _ = data
    X = np.full((60, 2), 2**64 - 7, dtype=np.uint64)
    X[::2] -= np.uint64(1)
    assert_allclose(model.fit(X, y).predict(X[:5]), y.mean())


@pytest.mark.parametrize("model", [*regressors(), AnchoredLocalRegressor(4)], ids=repr)
@pytest.mark.parametrize("scale", [1e154, 1e300])
def test_columns_whose_squares_overflow_are_refused(data, model, scale):
    X, y, Q = data
    with pytest.raises(ValueError, match="overflow, so scale X first"):
        model.fit(scale * X, y)
    model.fit(X, y)
    with pytest.raises(ValueError, match="overflow, so scale X first"):
        model.predict(scale * Q)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("model", regressors(), ids=repr)
@pytest.mark.parametrize("scale", [1e-300, 1e-20, 1e100])
def test_other_scales_have_finite_predictions(data, model, scale):
    X, y, Q = data
    predictions = model.fit(scale * X, y).predict(scale * Q)
    assert np.isfinite(predictions).all()
    assert np.abs(predictions).max() < 20.0


@pytest.mark.parametrize("weight", [1000.0, 1e6, 0.25])
@pytest.mark.parametrize(
    "model", [*regressors(), AnchoredLocalRegressor(4, n_neighbors=10)], ids=repr
)
def test_a_weight_common_to_all_rows_changes_nothing(data, model, weight):
    X, y, Q = data
    if "random_state" in model.get_params():
        model.set_params(random_state=0)
    plain = model.fit(X, y).predict(Q)
    assert_allclose(model.fit(X, y, sample_weight=np.full(60, weight)).predict(Q), plain)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("model", regressors(), ids=repr)
def test_one_huge_weight_leaves_finite_predictions(data, model):
    X, y, Q = data
    weights = np.ones(60)
    weights[5] = 1e12
    model.fit(X, y, sample_weight=weights)
    assert np.isfinite(model.predict(Q)).all()
    assert np.isfinite(model.effective_sample_size(Q)).all()
    weights[5] = 1e300
    with pytest.raises(ValueError, match="sample_weight sums to"):
        model.fit(X, y, sample_weight=weights)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("loss", ["squared_error", "log_loss", "squared_hinge"])
def test_classifiers_at_the_edge(data, loss):
    X, y, Q = data
    labels = (y > 0).astype(int)
    weights = np.ones(60)
    weights[5] = 1e12
    model = LocalClassifier(loss=loss, n_neighbors=10, alpha=1.0)
    for rows, share in ((np.zeros_like(X), None), (X, weights), (X, np.full(60, 1e6))):
        proba = model.fit(rows, labels, sample_weight=share).predict_proba(Q)
        assert np.isfinite(proba).all()
        assert_allclose(proba.sum(axis=1), 1.0)
    shares = model.fit(np.zeros_like(X), labels)._model.left_out()
    if loss == "squared_error":
        assert_allclose(shares[:, 1], (labels.sum() - labels) / 59)
    with pytest.raises(ValueError, match="overflow, so scale X first"):
        model.fit(1e300 * X, labels)


def test_loess_of_two_rows_is_the_nearer_of_them():
    model = LoessRegressor(degree=0).fit([[0.0], [1.0]], [3.0, 5.0])
    assert_allclose(model.predict([[0.1], [0.9]]), [3.0, 5.0])


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("degree", [0, 1, 2])
@pytest.mark.parametrize("columns", [1, 2])
def test_queries_far_from_all_rows_get_the_mean_of_their_neighbours(data, degree, columns):
    X, y, _ = data
    X = X[:, :columns]
    far = np.full((1, columns), 1e9)
    model = LoessRegressor(0.5, degree=degree).fit(X, y)
    near = np.argsort(((X - far) ** 2).sum(axis=1), kind="stable")[:30]
    assert_allclose(model.predict(far), y[near].mean(), atol=0.5)


def test_tied_neighbours_share_the_prediction():
    """Every neighbour at the edge of the kernel: their mean, not an empty neighbourhood."""
    X = np.tile([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]], (3, 1))
    y = np.arange(12.0)
    model = LocalRegressor(n_neighbors=3, degree=0, alpha=0.0, metric="euclidean").fit(X, y)
    assert_allclose(model.predict([[0.0, 0.0]]), 5.5)
    heavy = np.full(12, 1000.0)
    heavy[0] = 999.0
    model.fit(X, y, sample_weight=heavy)
    assert np.isfinite(model.predict([[0.3, 0.4]])).all()
    assert np.isfinite(model.leave_one_out()).all()


def test_gradient_metric_reads_several_columns_of_targets(data):
    X, y, _ = data
    both = np.column_stack([y, X[:, 1]])
    for targets in (both, (10 * both).astype(int)):
        importance = GradientMetric(random_state=0).fit(X, targets).feature_importances_
        assert importance[:2].min() > importance[2]
    with pytest.raises(ValueError, match="1d array of labels"):
        GradientMetric(task="classification").fit(X, both > 0)
    with pytest.raises(ValueError, match="1d array of labels"):
        GradientMetric().fit(X, np.array([["a", "b"]] * 60))


@pytest.mark.parametrize("scale", [1e154, 1e300])
def test_principal_surfaces_of_overflowing_columns_are_refused(data, scale):
    X, _, Q = data
    with pytest.raises(ValueError, match="overflow, so scale X first"):
        PrincipalSurface().fit(scale * X)
    with pytest.raises(ValueError, match="overflow, so scale X first"):
        PrincipalSurface(bandwidth=1.0).fit(X).transform(scale * Q)


@pytest.mark.parametrize("loss", ["squared_error", "log_loss"])
def test_sparse_and_dense_rows_give_the_same_default_classifier(loss):
    rng = np.random.RandomState(0)
    X = rng.poisson(0.7, size=(120, 6)).astype(float)
    y = (X[:, 0] + X[:, 1] > X[:, 2] + rng.normal(size=120)).astype(int)
    options = {} if loss == "squared_error" else {"loss": loss, "n_neighbors": 20, "alpha": 0.3}
    dense = LocalClassifier(random_state=0, **options).fit(X, y)
    thin = LocalClassifier(random_state=0, **options).fit(sparse.csr_matrix(X), y)
    assert (thin.n_neighbors_, thin.alpha_) == (dense.n_neighbors_, dense.alpha_)
    assert_allclose(thin.predict_proba(sparse.csr_matrix(X)), dense.predict_proba(X), atol=1e-8)


def test_sparse_and_dense_rows_give_the_same_default_regressor():
    rng = np.random.RandomState(0)
    X = rng.poisson(0.7, size=(90, 4)).astype(float)
    y = X[:, 0] * X[:, 1] + 0.1 * rng.normal(size=90)
    dense = LocalRegressor(random_state=0).fit(X, y)
    thin = LocalRegressor(random_state=0).fit(sparse.csr_matrix(X), y)
    assert (thin.degree_, thin.alpha_) == (dense.degree_, dense.alpha_)
    assert_allclose(thin.predict(sparse.csr_matrix(X)), dense.predict(X), atol=1e-6)


def test_sparse_rows_without_an_entry_are_rows_of_zeros():
    y = np.arange(40) % 4 == 0
    dense = LocalClassifier(random_state=0).fit(np.zeros((40, 3)), y)
    thin = LocalClassifier(random_state=0).fit(sparse.csr_matrix((40, 3)), y, np.full(40, 1000.0))
    expected = dense.predict_proba(np.zeros((2, 3)))
    assert_allclose(thin.predict_proba(sparse.csr_matrix((2, 3))), expected)


def test_queries_beyond_the_precision_of_the_prediction_are_refused():
    X = np.random.RandomState(0).normal(size=(40, 2)).astype(np.float32)
    model = LocalRegressor(n_neighbors=10).fit(X, X[:, 0])
    with pytest.raises(ValueError, match="squares of float32 numbers above 1e"):
        model.predict(np.full((1, 2), 1e150))


def test_columns_that_vary_by_less_than_rounding_teach_no_metric():
    X = 1e-300 * np.random.RandomState(0).normal(size=(40, 3))
    metric = GradientMetric(n_rounds=1).fit(X, 1e300 * X[:, 0])
    assert_allclose(metric.components_, np.eye(3))
