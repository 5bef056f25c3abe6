"""Local models over blocks equal those in memory."""

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.decomposition import PCA
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import Ridge
from sklearn.tree import DecisionTreeRegressor

from tests.distributed.blocks import as_dask
from vicinal import distributed
from vicinal.distributed import local_predict, predict
from vicinal.ensemble import (
    BootstrapEnsembleClassifier,
    FunctionalGradientBoostingClassifier,
    PrunedTreeClassifier,
    RealAdaBoostClassifier,
)
from vicinal.local import AnchoredLocalClassifier, LocalClassifier, LocalRegressor
from vicinal.uncertainty import LocallyAdaptiveClassifier

BLOCKS = (35, 70, 1000)
FIXED = {"n_neighbors": 25, "alpha": 0.5, "random_state": 0}


@pytest.fixture(scope="module")
def table():
    """Three named classes and a number, over columns of unlike scales."""
    rng = np.random.RandomState(0)
    X = rng.normal(size=(170, 3)) * [1.0, 20.0, 0.1]
    angle = np.arctan2(X[:, 0], X[:, 1] / 20.0) + 0.3 * rng.normal(size=170)
    y = np.array(["ash", "elm", "oak"])[np.digitize(angle, [-1.0, 1.0])]
    return X, y, np.sin(X[:, 0]) + 0.05 * X[:, 1] + 0.1 * rng.normal(size=170)


def predictions(model, X, y, Q, rows_per_block, method="predict", weight=None):
    weight = None if weight is None else as_dask(weight, rows_per_block)
    rows, targets = as_dask(X, rows_per_block), as_dask(y, rows_per_block)
    lazy = local_predict(model, rows, targets, as_dask(Q, 40), method=method, sample_weight=weight)
    values = lazy.compute()
    assert values.dtype == lazy.dtype
    assert values.shape == lazy.shape
    return values


@pytest.mark.parametrize("rows_per_block", BLOCKS)
@pytest.mark.parametrize(
    "params",
    [
        {"metric": "standardized"},
        {"metric": "manhattan", "loss": "log_loss"},
        {"metric": "euclidean", "kernel": "uniform", "class_weight": "balanced"},
    ],
    ids=lambda params: params["metric"],
)
def test_classifier_equals_the_one_in_memory(table, rows_per_block, params):
    X, y, _ = table
    Q = X[:70] * 1.01
    model = LocalClassifier(**FIXED, **params)
    fitted = LocalClassifier(**FIXED, **params).fit(X, y)
    for method in ("predict_proba", "decision_function"):
        found = predictions(model, X, y, Q, rows_per_block, method)
        assert_allclose(found, getattr(fitted, method)(Q), atol=1e-9)
    assert_array_equal(predictions(model, X, y, Q, rows_per_block), fitted.predict(Q))


@pytest.mark.parametrize("rows_per_block", BLOCKS)
@pytest.mark.parametrize(
    "params",
    [
        {"metric": "standardized", "degree": 2},
        {"metric": "euclidean", "degree": 1, "location_columns": [0, 2]},
        {"metric": FrozenEstimator(PCA(2)), "degree": 1},
    ],
    ids=["standardized", "location", "frozen"],
)
def test_regressor_equals_the_one_in_memory(table, rows_per_block, params):
    X, _, z = table
    if hasattr(params["metric"], "transform"):
        params = params | {"metric": FrozenEstimator(PCA(2).fit(X))}
    fitted = LocalRegressor(**FIXED, **params).fit(X, z)
    model, Q = LocalRegressor(**FIXED, **params), X[:70] * 1.01
    assert_allclose(predictions(model, X, z, Q, rows_per_block), fitted.predict(Q), atol=1e-9)
    slopes = predictions(model, X, z, Q, rows_per_block, "local_coef")
    assert_allclose(slopes, fitted.local_coef(Q), rtol=1e-6, atol=1e-8)


def test_any_estimator_may_be_the_local_model(table):
    X, _, z = table
    model = LocalRegressor(
        DecisionTreeRegressor(max_depth=2, random_state=0), n_neighbors=20, metric="euclidean"
    )
    wanted = model.fit(X, z).predict(X[:20])
    assert_allclose(predictions(model, X, z, X[:20], 50), wanted, atol=1e-9)
    ridge = LocalRegressor(Ridge(2.0), n_neighbors=20, metric="euclidean")
    assert_allclose(
        predictions(ridge, X, z, X[:20], 50), ridge.fit(X, z).predict(X[:20]), atol=1e-9
    )


@pytest.mark.parametrize("rows_per_block", BLOCKS)
def test_weights_equal_repetition(table, rows_per_block):
    X, y, _ = table
    weight = np.random.RandomState(1).randint(0, 4, size=len(y)).astype(float)
    model = LocalClassifier(**FIXED, metric="standardized")
    repeated = np.repeat(np.arange(len(y)), weight.astype(int))
    wanted = LocalClassifier(**FIXED, metric="standardized").fit(X[repeated], y[repeated])
    found = predictions(model, X, y, X[:40], rows_per_block, "decision_function", weight)
    assert_allclose(found, wanted.decision_function(X[:40]), atol=1e-9)
    weighted = LocalClassifier(**FIXED, metric="standardized").fit(X, y, weight)
    found = predictions(model, X, y, X[:40], rows_per_block, "predict_proba", weight)
    assert_allclose(found, weighted.predict_proba(X[:40]), atol=1e-9)


def test_all_copies_of_a_row_are_used():
    X = np.repeat([[0.0], [1.0], [2.0]], 30, axis=0)
    y = np.tile([0.0, 1.0, 5.0], 30)
    model = LocalRegressor(n_neighbors=5, alpha=1.0, degree=1, metric="euclidean")
    wanted = model.fit(X, y).predict([[0.0], [0.4], [1.0]])
    assert_allclose(
        predictions(model, X, y, np.array([[0.0], [0.4], [1.0]]), 7), wanted, atol=1e-12
    )


def test_data_frames_with_names(table):
    X, y, _ = table
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(y=y)
    lazy = dd.from_pandas(frame, npartitions=3)
    model = LocalClassifier(**FIXED, metric="euclidean", location_columns=["a", "c"])
    wanted = model.fit(frame[["a", "b", "c"]], y).predict_proba(frame[["a", "b", "c"]])
    rows = lazy[["a", "b", "c"]]
    found = local_predict(model, rows, lazy["y"], rows, method="predict_proba")
    assert_allclose(found.compute(), wanted, atol=1e-9)


@pytest.mark.parametrize(
    ("params", "match"),
    [
        ({"metric": "gradient"}, "learned from all rows"),
        ({"metric": PCA()}, "FrozenEstimator"),
        ({"alpha": "auto"}, "pass its alpha_"),
        ({"n_neighbors": 0.3}, "use an integer n_neighbors"),
        ({"n_neighbors": 400}, "exceeds the 170 samples"),
        ({"robust_iterations": 2}, "robust_iterations=2 is not supported"),
    ],
)
def test_what_needs_all_rows_at_once_is_refused(table, params, match):
    X, _, z = table
    settings = {"degree": 1, "metric": "euclidean"} | FIXED | params
    with pytest.raises(ValueError, match=match):
        predictions(LocalRegressor(**settings), X, z, X, 100)


def test_unknown_methods_and_models_are_refused(table):
    X, _, z = table
    with pytest.raises(ValueError, match="predict_proba"):
        predictions(
            LocalRegressor(**FIXED, metric="euclidean", degree=1), X, z, X, 99, "predict_proba"
        )
    with pytest.raises(TypeError, match="not Ridge"):
        predictions(Ridge(), X, z, X, 99)


@pytest.mark.parametrize(
    "model",
    [
        LocalClassifier(**FIXED),
        AnchoredLocalClassifier(8, **FIXED),
        LocallyAdaptiveClassifier(),
        BootstrapEnsembleClassifier(),
        FunctionalGradientBoostingClassifier(),
        PrunedTreeClassifier(),
        RealAdaBoostClassifier(),
    ],
    ids=lambda model: type(model).__name__,
)
def test_models_without_a_fit_by_blocks_name_the_remedy(table, model):
    X, y, _ = table
    with pytest.raises(
        TypeError, match=f"{type(model).__name__} cannot .* sample of the rows in memory"
    ):
        distributed.fit(model, as_dask(X, 100), as_dask(y, 100))


def test_blocks_without_rows_give_empty_predictions():
    table = pd.DataFrame({"a": np.arange(20.0), "b": np.arange(20.0) % 3})
    model = Ridge().fit(table, table["a"])
    lazy = dd.from_pandas(table, npartitions=4)
    found = predict(model, lazy[lazy["a"] < 7.0])
    assert_allclose(found.compute(), model.predict(table[:7]))
