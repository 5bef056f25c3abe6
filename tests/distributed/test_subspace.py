"""Decompositions and truncated RBF models from blocks of rows are those of a fit in memory."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

dask = pytest.importorskip("dask")
pytest.importorskip("distributed")
import dask.array as da  # noqa: E402
import dask.dataframe as dd  # noqa: E402
import pandas as pd  # noqa: E402
import scipy.sparse as sp  # noqa: E402
from sklearn.linear_model import LogisticRegression  # noqa: E402
from sklearn.model_selection import PredefinedSplit  # noqa: E402

from vicinal import distributed  # noqa: E402
from vicinal._base import TrainingData  # noqa: E402
from vicinal.subspace import (  # noqa: E402
    DivideConquerSVC,
    FeatureSpaceDecomposition,
    SubspaceFusionClassifier,
    TruncatedRBFClassifier,
    TruncatedRBFRegressor,
)
from vicinal.subspace._fusion_fit import Folds  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_thread")
BLOCKS = (400, 130, 47)
METHODS = ("random", "principal", "discriminant", "cholesky", "approximate")


@pytest.fixture(scope="module")
def table():
    rng = np.random.RandomState(0)
    X = rng.standard_normal((400, 6)) * [1, 10, 0.1, 3, 1, 1] + [5, 0, 100, 2, 0, 0]
    X[:, 5] = X[:, 0] + X[:, 4]
    y = np.where(X[:, 0] > 5, np.where(X[:, 1] > 0, "a", "b"), np.where(X[:, 3] > 2, "b", "c"))
    return X, y


def cut(size, *arrays):
    """Return arrays as Dask arrays of blocks of ``size`` rows."""
    return [da.from_array(a, chunks=(size, *(-1,) * (a.ndim - 1))) for a in arrays]


@pytest.mark.parametrize("size", BLOCKS)
@pytest.mark.parametrize("method", METHODS)
def test_decompositions_equal_memory(table, method, size):
    X, y = table
    parts = FeatureSpaceDecomposition(method, random_state=0)
    memory, blocks = parts.fit(X, y), distributed.fit(parts, *cut(size, X, y))
    assert_allclose(blocks.transform(X), memory.transform(X), atol=1e-9)
    for ours, theirs in zip(blocks.eigenvalues_, memory.eigenvalues_, strict=True):
        assert_allclose(ours, theirs, rtol=1e-9)
    assert_allclose(blocks.mean_, memory.mean_)
    for ours, theirs in zip(blocks.groups_, memory.groups_, strict=True):
        assert_array_equal(ours, theirs)


def test_a_decomposition_needs_y_only_where_classes_count(table):
    X, _ = table
    blocks = distributed.fit(FeatureSpaceDecomposition("principal", random_state=0), *cut(90, X))
    assert blocks.n_subspaces_ == 4
    with pytest.raises(ValueError, match="requires y"):
        distributed.fit(FeatureSpaceDecomposition("discriminant"), *cut(90, X))


def test_constant_columns_belong_to_no_subspace(table):
    X = table[0].copy()
    X[:, 2] = 7.0
    blocks = distributed.fit(FeatureSpaceDecomposition("cholesky", random_state=0), *cut(90, X))
    assert_array_equal(np.flatnonzero(blocks.constant_), [2])
    with pytest.raises(ValueError, match="Every column of X is constant"):
        distributed.fit(FeatureSpaceDecomposition(), *cut(90, np.ones((100, 3))))


@pytest.mark.parametrize("size", BLOCKS)
@pytest.mark.parametrize(
    "options",
    [{}, {"class_weight": "balanced"}, {"gamma": 3e-5, "center": False}, {"order": 1}],
)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_truncated_rbf_classifier_equals_memory(table, size, options, n_classes):
    X, y = table
    y = np.where(y == "a", "a", "b") if n_classes == 2 else y
    model = TruncatedRBFClassifier(solver="primal", **options)
    memory, blocks = model.fit(X, y), distributed.fit(model, *cut(size, X, y))
    assert_allclose(blocks.decision_function(X), memory.decision_function(X), atol=1e-9)
    assert_allclose(blocks.predict_proba(X), memory.predict_proba(X), atol=1e-9)
    assert_allclose(blocks.slope_, memory.slope_, rtol=1e-9)


@pytest.mark.parametrize("size", BLOCKS)
def test_truncated_rbf_regressor_equals_memory(table, size):
    X, _ = table
    y = 2000 + X[:, 0] ** 2 + X[:, 1]
    model = TruncatedRBFRegressor()
    memory, blocks = model.fit(X, y), distributed.fit(model, *cut(size, X, y))
    assert_allclose(blocks.predict(X), memory.predict(X), rtol=1e-9)


def test_machines_by_clusters_are_fitted_to_a_sample(table):
    with pytest.raises(
        TypeError, match="DivideConquerSVC cannot be .* sample of the rows in memory"
    ):
        distributed.fit(DivideConquerSVC(), *cut(90, *table))


@pytest.mark.parametrize(
    ("size", "options"),
    [
        *((size, {"estimator": LogisticRegression()}) for size in BLOCKS),
        (
            200,
            {
                "estimator": TruncatedRBFClassifier(1),
                "fusion_estimator": LogisticRegression(),
                "include_full": False,
            },
        ),
    ],
)
def test_fusion_equals_memory_over_the_same_folds(table, size, options, monkeypatch):
    X, y = (table[0] - table[0].mean(axis=0)) / table[0].std(axis=0), table[1]
    seen = []
    of = Folds.of
    monkeypatch.setattr(Folds, "of", lambda self, block: seen.append(self) or of(self, block))
    options = {"decompositions": ("discriminant", "cholesky"), "n_subspaces": 2, **options}
    model = SubspaceFusionClassifier(cv=3, random_state=0, **options)
    blocks = distributed.fit(model, *cut(size, X, y))
    fold = seen[0].of(TrainingData(X))
    memory = model.set_params(cv=PredefinedSplit(fold)).fit(X, y)
    assert_allclose(blocks.predict_proba(X), memory.predict_proba(X), atol=1e-9)
    assert_allclose(blocks.transform(X), memory.transform(X), atol=1e-9)
    assert_array_equal(blocks.predict_subspaces(X), memory.predict_subspaces(X))


def test_fusion_gathers_machines_by_clusters(table):
    X, y = (table[0] - table[0].mean(axis=0)) / table[0].std(axis=0), table[1]
    model = SubspaceFusionClassifier(("cholesky",), n_subspaces=2, cv=3, random_state=0)
    assert distributed.fit(model, *cut(200, X, y)).score(X, y) > 0.9
    with pytest.raises(ValueError, match="cv='in-sample'.*number of folds"):
        distributed.fit(model.set_params(cv="in-sample"), *cut(200, X, y))
    with pytest.raises(ValueError, match="cv=500 folds"):
        distributed.fit(model.set_params(cv=500), *cut(200, X, y))


@pytest.mark.parametrize(
    "model",
    [
        FeatureSpaceDecomposition("discriminant", random_state=0),
        TruncatedRBFClassifier(class_weight="balanced"),
    ],
)
def test_weights_equal_repetition(table, model):
    X, y = table
    weight = np.random.RandomState(1).randint(0, 3, size=len(X))
    again = np.repeat(np.arange(len(X)), weight)
    weights = cut(90, weight.astype(float))[0]
    weighted = distributed.fit(model, *cut(90, X, y), sample_weight=weights)
    repeated = distributed.fit(model, *cut(90, X[again], y[again]))
    method = "transform" if hasattr(model, "transform") else "predict_proba"
    assert_allclose(getattr(weighted, method)(X), getattr(repeated, method)(X), atol=1e-9)


def test_frames_keep_names(table):
    X, y = table
    names = list("abcdef")
    rows = dd.from_pandas(pd.DataFrame(X, columns=names).assign(kind=y), npartitions=3)
    model = distributed.fit(TruncatedRBFClassifier(), rows[names], rows["kind"])
    assert_array_equal(model.feature_names_in_, names)
    lazy = distributed.predict(model, rows[names], method="predict_proba")
    expected = model.predict_proba(pd.DataFrame(X, columns=names))
    assert_allclose(lazy.compute(), expected, atol=1e-12)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"solver": "dual"}, "solver='dual'.*'primal'"),
        ({"threshold": "tuned"}, "threshold='tuned'"),
        ({"max_features": 3}, "more than max_features=3"),
    ],
)
def test_what_cannot_be_had_is_refused(table, options, message):
    with pytest.raises(ValueError, match=message):
        distributed.fit(TruncatedRBFClassifier(**options), *cut(90, *table))


def test_too_large_a_width_warns(table):
    with pytest.warns(UserWarning, match="truncated series is far from"):
        distributed.fit(TruncatedRBFClassifier(gamma=1.0), *cut(90, *table))


def test_sparse_blocks_are_refused(table):
    X = cut(90, table[0])[0].map_blocks(sp.csr_array)
    with pytest.raises(ValueError, match="sparse blocks.*toarray"):
        distributed.fit(FeatureSpaceDecomposition(), X)
