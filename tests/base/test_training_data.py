"""The container that every fit reads its training data from."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse
from sklearn.base import BaseEstimator

from vicinal._base import as_numpy, predicted_labels, query_rows, training_data


class Model(BaseEstimator):
    def fit(self, X, y):
        training_data(self, X, y, task="classification")
        return self

    def __sklearn_is_fitted__(self):
        return hasattr(self, "n_features_in_")


@pytest.fixture
def table():
    rng = np.random.RandomState(0)
    X = rng.normal(size=(20, 3))
    y = np.array(["no", "yes"])[(X[:, 0] > 0).astype(int)]
    weight = np.where(np.arange(20) % 5 == 0, 0.0, 2.0)
    return X, y, weight


def test_rows_of_weight_zero_are_dropped_everywhere(table):
    X, y, weight = table
    data = training_data(Model(), X, y, weight, np.arange(20) // 2, task="classification")
    kept = np.flatnonzero(weight)
    assert_array_equal(data.X, X[kept])
    assert_array_equal(data.labels, y[kept])
    assert_array_equal(data.positions, kept)
    assert_array_equal(data.groups, kept // 2)
    assert_array_equal(data.weights, np.full(16, 2.0))


def test_weights_of_one_are_no_weights(table):
    X, y, _ = table
    data = training_data(Model(), X, y, np.ones(20), task="classification")
    assert data.sample_weight is None
    assert_array_equal(data.weights, np.ones(20))
    assert data.index is None


@pytest.mark.parametrize("library", ["numpy", "torch", "sparse"])
def test_parts_keep_what_belongs_to_a_row(table, library):
    X, y, weight = table
    given = {"numpy": np.asarray, "torch": _tensor, "sparse": sparse.csr_array}[library](X)
    options = {"accept_sparse": "csr"} if library == "sparse" else {}
    groups = np.arange(20)
    data = training_data(
        Model(), given, y, weight, groups, task="classification", arrays=True, **options
    )
    part = data.take(np.array([1, 3, 5])).take(np.array([2, 0]))
    rows = np.flatnonzero(weight)[[5, 1]]
    found = part.X.toarray() if library == "sparse" else as_numpy(part.X)
    assert_array_equal(found, X[rows])
    assert_array_equal(part.labels, y[rows])
    assert_array_equal(part.positions, rows)
    assert_array_equal(part.groups, rows)
    assert_array_equal(part.host(part.weights), weight[rows])


def test_outside_and_fold_are_all_rows(table):
    X, y, _ = table
    data = training_data(Model(), X, y, task="classification")
    fold = np.array([0, 7, 19])
    rest = data.outside(fold)
    assert_array_equal(np.sort(np.concatenate([rest.positions, fold])), np.arange(20))


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_held_out_rows_are_the_same_in_every_library(table, library):
    X, y, _ = table
    given = X if library == "numpy" else _tensor(X)
    data = training_data(Model(), given, y, task="classification", arrays=True)
    train, held = data.hold_out(0.25, np.random.RandomState(3))
    expected = training_data(Model(), X, y, task="classification")
    for part, other in zip(
        (train, held), expected.hold_out(0.25, np.random.RandomState(3)), strict=True
    ):
        assert_array_equal(part.positions, other.positions)
    assert set(train.labels) == set(y)


def test_memory_is_one_block(table):
    X, y, weight = table
    data = training_data(Model(), X, y, weight, task="classification")
    assert data.total(lambda block, factor: factor * len(block), 3) == 48
    assert data.gather(len) == [16]


def test_queries_must_come_from_the_library_of_the_fit(table):
    X, y, _ = table
    model = Model()
    training_data(model, _tensor(X), y, task="classification", arrays=True)
    with pytest.raises(TypeError, match="convert X to the library"):
        query_rows(model, X)
    assert query_rows(model, _tensor(X)).shape == (20, 3)
    training_data(model, X, arrays=True)
    with pytest.raises(TypeError, match="convert X"):
        query_rows(model, _tensor(X), arrays=True)


@pytest.mark.parametrize("on_device", [False, True])
def test_labels_come_back_where_they_came_from(table, on_device):
    torch = pytest.importorskip("torch")
    X, _, _ = table
    model, y = Model(), np.arange(20) % 2 * 3
    data = training_data(
        model, _tensor(X), torch.asarray(y) if on_device else y, task="classification", arrays=True
    )
    model.classes_ = data.classes
    scores = torch.eye(2)[torch.asarray([1, 0])]
    labels = predicted_labels(model, scores)
    assert isinstance(labels, torch.Tensor) == on_device
    assert_array_equal(as_numpy(labels), [3, 0])


def test_regression_targets_are_numbers(table):
    X, _, weight = table
    data = training_data(Model(), X, np.arange(20), weight, task="regression")
    assert data.y.dtype == np.float64
    assert data.classes is None
    with pytest.raises(ValueError, match="negative"):
        training_data(Model(), X, np.arange(20), -weight, task="regression")


def _tensor(X):
    return pytest.importorskip("torch").asarray(X)
