"""Pretrained neighbours: predictions, weights, sample weights, large tables, files, explanation."""

import pickle
import tracemalloc

import numpy as np
import pytest
import sklearn
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_iris, make_friedman1
from sklearn.metrics import log_loss

import vicinal.io
from vicinal.inspection import explain
from vicinal.pretrained import PretrainedNeighborsClassifier, PretrainedNeighborsRegressor


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    model = PretrainedNeighborsClassifier(2, random_state=0).fit(X[::2], y[::2])
    return X, y, model


@pytest.fixture(scope="module")
def friedman():
    X, y = make_friedman1(300, 8, noise=0.5, random_state=0)
    model = PretrainedNeighborsRegressor(2, random_state=0).fit(X[:200], y[:200])
    return X, y, model


def test_it_learns_classes(iris):
    X, y, model = iris
    assert log_loss(y[1::2], model.predict_proba(X[1::2])) < 0.25
    assert model.score(X[1::2], y[1::2]) > 0.9


def test_it_learns_an_interaction_that_no_column_shows_alone():
    rng = np.random.RandomState(0)
    X = rng.normal(size=(300, 5))
    y = X[:, 0] * X[:, 1] > 0
    model = PretrainedNeighborsClassifier(2, random_state=0).fit(X[:200], y[:200])
    assert model.score(X[200:], y[200:]) > 0.8


def test_it_learns_numbers(friedman):
    X, y, model = friedman
    assert model.score(X[200:], y[200:]) > 0.7


def test_weights_add_up_to_the_prediction(iris, friedman):
    X, y, model = iris
    weights = model.neighbors(X[1::2])
    assert_allclose(weights.sum(axis=1), 1.0, atol=1e-12)
    assert weights.data.min() >= 0
    votes = weights @ np.eye(3)[y[::2]]
    assert_allclose(model.predict_proba(X[1::2]), 150 / 151 * votes + 1 / 151 / 3, atol=1e-6)
    X, y, model = friedman
    assert_allclose(model.predict(X[200:]), model.neighbors(X[200:]) @ y[:200], rtol=1e-6)


def test_nearest_neighbors_come_first(iris):
    X, _, model = iris
    every, three = model.neighbors(X[:4]), model.neighbors(X[:4], n_neighbors=3)
    assert three.nnz == 12
    for k in range(4):
        row = every[k].data
        assert (np.diff(row) <= 0).all()
        assert_array_equal(three[k].indices, every[k].indices[:3])
    with pytest.raises(ValueError, match="n_neighbors=0 must be at least 1"):
        model.neighbors(X[:1], n_neighbors=0)


@pytest.mark.parametrize("kind", [PretrainedNeighborsClassifier, PretrainedNeighborsRegressor])
def test_weight_two_is_the_row_twice(kind):
    rng = np.random.RandomState(0)
    X, queries = rng.normal(size=(60, 4)), rng.normal(size=(20, 4))
    X[::9, 1] = np.nan
    y = (np.nan_to_num(X[:, 0] + X[:, 1]) > 0).astype(int) if "Class" in kind.__name__ else X[:, 0]
    counts = rng.randint(0, 4, size=60)
    weighted = kind(2, random_state=0).fit(X, y, sample_weight=counts)
    repeated = kind(2, random_state=0).fit(np.repeat(X, counts, axis=0), np.repeat(y, counts))
    method = "predict_proba" if hasattr(weighted, "classes_") else "predict"
    found, expected = (getattr(model, method)(queries) for model in (weighted, repeated))
    assert_allclose(found, expected, rtol=1e-12)
    unweighted = getattr(kind(2, random_state=0).fit(X, y), method)(queries)
    assert np.abs(found - unweighted).max() > 1e-3


def test_order_of_rows_and_names_of_classes_do_not_matter(iris):
    X, y, model = iris
    order = np.random.RandomState(0).permutation(75)
    again = PretrainedNeighborsClassifier(2, random_state=0).fit(X[::2][order], y[::2][order])
    assert_allclose(again.predict_proba(X), model.predict_proba(X), rtol=1e-12)
    names = np.array(["a", "b", "c"])
    named = PretrainedNeighborsClassifier(2, random_state=0).fit(X[::2], names[y[::2]])
    assert_array_equal(named.predict(X), names[model.predict(X)])


def test_predictions_do_not_depend_on_other_queries_or_on_blocks(iris):
    X, _, model = iris
    together = model.predict_proba(X)
    alone = np.vstack([model.predict_proba(X[i : i + 1]) for i in range(20)])
    # Single precision would show as 1e-8.
    assert_allclose(alone, together[:20], rtol=1e-12)
    assert_allclose(model.predict_proba(X[::-1])[::-1], together, rtol=1e-12)
    with sklearn.config_context(working_memory=0.05):
        assert_allclose(model.predict_proba(X), together, rtol=1e-12)


def test_equal_rows_share_their_weight():
    rng = np.random.RandomState(0)
    X = np.round(rng.normal(size=(60, 2)))
    y = (X[:, 0] > 0).astype(int)
    model = PretrainedNeighborsClassifier(1, random_state=0).fit(X, y, rng.randint(1, 3, 60))
    weights = model.neighbors(X[:1]).toarray()[0]
    same = np.flatnonzero((X == X[1]).all(axis=1))
    assert len(same) > 1
    shares = weights[same] / model.sample_weight_[same]
    assert_allclose(shares, shares[0])


def test_more_classes_than_embeddings():
    rng = np.random.RandomState(0)
    centres = 40 * rng.uniform(size=(80, 3))
    y = np.repeat(np.arange(80), 5)
    X = centres[y] + 0.3 * rng.normal(size=(400, 3))
    model = PretrainedNeighborsClassifier(1, random_state=0).fit(X[::2], y[::2])
    proba = model.predict_proba(X[1::2])
    assert_allclose(proba.sum(axis=1), 1.0, rtol=1e-6)
    # Ten times better than chance at least: training tables had no more than 26 classes.
    assert (model.predict(X[1::2]) == y[1::2]).mean() > 10 / 80


def test_categorical_features_matter_and_are_checked():
    rng = np.random.RandomState(0)
    X = np.column_stack([rng.randint(12, size=300), rng.normal(size=300)])
    y = np.isin(X[:, 0], [1, 4, 6, 9, 11])
    both = [
        PretrainedNeighborsClassifier(2, categorical_features=c, random_state=0)
        .fit(X[:150], y[:150])
        .predict_proba(X[150:])
        for c in (None, [0], [True, False])
    ]
    assert_array_equal(both[1], both[2])
    assert np.abs(both[0] - both[1]).max() > 1e-3
    assert log_loss(y[150:], both[1]) < 0.3
    for wrong in ([2], [True], ["a"]):
        with pytest.raises(ValueError, match="categorical_features"):
            PretrainedNeighborsClassifier(categorical_features=wrong).fit(X, y)


def test_missing_values_carry_information():
    rng = np.random.RandomState(0)
    X = rng.normal(size=(300, 3))
    y = rng.uniform(size=300) < 0.5
    X[y, 1] = np.nan
    model = PretrainedNeighborsClassifier(1, random_state=0).fit(X[:200], y[:200])
    assert model.score(X[200:], y[200:]) > 0.95


@pytest.mark.parametrize("kind", [PretrainedNeighborsClassifier, PretrainedNeighborsRegressor])
def test_large_tables_are_sampled_by_strata(kind):
    rng = np.random.RandomState(0)
    X = rng.normal(size=(400, 3))
    y = (X[:, 0] > 1.3).astype(int) if "Class" in kind.__name__ else X[:, 0]
    model = kind(3, max_context=100, random_state=0).fit(X, y)
    weights = model.neighbors(X[:5]).toarray()
    used = (weights > 0).sum(axis=1)
    assert ((used > 100) & (used <= 300)).all()
    for rows, _, _ in model._passes:
        assert len(np.unique(rows)) == 100
        assert abs(y[np.isin(model._group, rows)].mean() - y.mean()) < 0.05
    again = kind(3, max_context=100, random_state=0).fit(X, y)
    assert_array_equal(again.neighbors(X[:5]).toarray(), weights)
    assert np.corrcoef(model.predict(X), y)[0, 1] > 0.8


def test_quantiles_are_ordered_and_cover(friedman):
    X, y, model = friedman
    found = model.predict_quantiles(X[200:], [0.05, 0.5, 0.95])
    assert (np.diff(found, axis=1) > 0).all()
    inside = (y[200:] >= found[:, 0]) & (y[200:] <= found[:, 2])
    assert 0.75 < inside.mean() <= 1.0
    # The median of a distribution is where half of its weight is below.
    assert np.corrcoef(found[:, 1], model.predict(X[200:]))[0, 1] > 0.95
    for wrong in ([0.0], [1.0], [[0.5]]):
        with pytest.raises(ValueError, match="quantiles="):
            model.predict_quantiles(X, wrong)


def test_a_constant_target_is_predicted():
    X = np.random.RandomState(0).normal(size=(30, 2))
    model = PretrainedNeighborsRegressor(1, random_state=0).fit(X, np.full(30, 7.1))
    assert_allclose(model.predict(X), 7.1)
    assert_allclose(model.predict_quantiles(X, [0.1, 0.9]), 7.1)


def test_a_scaled_target_scales_the_prediction(friedman):
    X, y, model = friedman
    scaled = PretrainedNeighborsRegressor(2, random_state=0).fit(X[:200], 1e-6 * y[:200] + 5)
    assert_allclose(scaled.predict(X[200:]), 1e-6 * model.predict(X[200:]) + 5, atol=2e-9)
    found, expected = (one.predict_quantiles(X[200:]) for one in (scaled, model))
    assert_allclose(1e6 * (found - 5), expected, atol=5e-3)


def test_files_hold_the_table_and_give_the_same_predictions(iris, tmp_path):
    X, _, model = iris
    path = tmp_path / "model.vicinal"
    vicinal.io.save(model, path)
    assert path.stat().st_size < 100_000  # no weights of the network, nothing computed
    again = vicinal.io.load(path)
    assert_array_equal(again.predict_proba(X), model.predict_proba(X))


def test_an_explanation_names_the_rows(iris):
    X, y, model = iris
    (section,) = model.explain_row(X[1:2])
    weights = model.neighbors(X[1:2])
    assert [row[0] for row in section.rows] == weights.indices[:10].tolist()
    assert [row[1] for row in section.rows] == y[::2][weights.indices[:10]].tolist()
    assert_allclose([row[2] for row in section.rows], weights.data[:10])
    text = str(explain(model, X[1:2], background=X[::2]))
    assert "Neighbours" in text


def test_memory_is_bounded():
    rng = np.random.RandomState(0)
    X = rng.normal(size=(600, 10))
    y = X[:, 0] > 0
    model = PretrainedNeighborsClassifier(1, random_state=0).fit(X, y)
    queries = rng.normal(size=(3000, 10))
    model.predict_proba(queries[:2])
    tracemalloc.start()
    with sklearn.config_context(working_memory=4):
        model.predict_proba(queries)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 30e6  # all weights at once would take 14 MB alone, all cells 77 MB


@pytest.mark.parametrize("weighted", [False, True])
def test_tensors_are_weighed_as_arrays_are(weighted):
    torch = pytest.importorskip("torch", reason="tensors: pip install 'vicinal[torch]'")
    X, y = make_friedman1(200, 6, noise=0.5, random_state=0)
    X[::9, 2] = np.nan
    X, y = X.astype(np.float32), y.astype(np.float32)
    weight = np.random.RandomState(0).randint(0, 3, 120) if weighted else None
    queries = torch.tensor(X[120:])
    host = PretrainedNeighborsRegressor(random_state=0).fit(X[:120], y[:120], weight)
    model = PretrainedNeighborsRegressor(random_state=0)
    model.fit(torch.tensor(X[:120]), torch.tensor(y[:120]), weight)
    for name in ("predict", "predict_quantiles"):
        found = getattr(model, name)(queries)
        assert found.dtype == torch.float32
        assert_allclose(found.numpy(), getattr(host, name)(X[120:]), atol=1e-4)
    assert abs(model.neighbors(queries) - host.neighbors(X[120:])).max() < 1e-4
    labels = np.digitize(y, [10.0, 16.0])
    host = PretrainedNeighborsClassifier(random_state=0).fit(X[:120], labels[:120], weight)
    model = PretrainedNeighborsClassifier(random_state=0)
    model.fit(torch.tensor(X[:120]), torch.tensor(labels[:120]), weight)
    found = model.predict_proba(queries)
    assert_allclose(found.numpy(), host.predict_proba(X[120:]), atol=1e-4)
    assert model.predict(queries).dtype == torch.int64
    n_rows = 120 if weight is None else (weight > 0).sum()
    assert f" {n_rows} training rows" in model.explain_row(X[120:121])[0].summary
    with pytest.raises(TypeError, match="convert X"):
        model.predict(X)
    with pytest.raises(ValueError, match="infinity"):
        model.predict(torch.full((1, 6), torch.inf))


def test_torch_computes_for_arrays_of_the_host(iris):
    pytest.importorskip("torch", reason="tensors: pip install 'vicinal[torch]'")
    X, y, model = iris
    other = PretrainedNeighborsClassifier(2, device="cpu", random_state=0).fit(X[::2], y[::2])
    found = other.predict_proba(X[1::2])
    assert type(found) is np.ndarray
    assert_allclose(found, model.predict_proba(X[1::2]), atol=1e-4)
    # What is fitted is on the host: NumPy goes on with it.
    assert_allclose(other.set_params(device=None).predict_proba(X[1::2]), found, atol=1e-4)


@pytest.mark.parametrize("kind", [PretrainedNeighborsClassifier, PretrainedNeighborsRegressor])
def test_the_graph_weighs_rows_like_the_model(kind):
    pytest.importorskip("onnxruntime")
    rng = np.random.RandomState(0)
    X = rng.normal(size=(90, 4))
    X[:, 1], X[rng.uniform(size=X.shape) < 0.1] = rng.randint(3, size=90), np.nan
    y = np.nan_to_num(X[:, 0]) + (X[:, 1] == 2)
    y = y > 0.3 if kind is PretrainedNeighborsClassifier else y
    model = kind(2, categorical_features=[1], max_context=60, random_state=0)
    model.fit(X[:70], y[:70], rng.randint(3, size=70))
    # Beyond all training rows, too; the graph computes in double precision.
    vicinal.io.to_onnx(model, np.vstack([X, 9.0 * X, np.full((1, 4), np.nan)]), tol=2e-6)


def test_a_copy_reads_the_training_rows_at_its_first_prediction(iris):
    X, _, model = iris
    stored = pickle.dumps(model)
    assert len(stored) < 20_000  # not the keys and values of every row
    again = pickle.loads(stored)
    assert_array_equal(again.predict_proba(X), model.predict_proba(X))
