"""Metrics that have a name: what they learn, and what local models make of them."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_wine, make_friedman1

from vicinal.local import GradientMetric, LocalClassifier, LocalRegressor, LoessRegressor
from vicinal.local import _neighborhoods as forest_rows
from vicinal.local._neighborhoods import grow_forest


@pytest.mark.parametrize("metric", ["ranked", "gradient", "forest", "extra_forest"])
def test_every_metric_can_be_named(metric):
    X, y = load_wine(return_X_y=True)
    model = LocalClassifier(metric=metric, random_state=0).fit(X[::2], y[::2])
    assert (model.predict(X[1::2]) == y[1::2]).mean() > 0.9
    weights = model.neighbors(X[:3])
    assert weights.shape == (3, 89)
    if metric != "ranked":
        assert model.local_coef(X[:3]).shape == (3, 3, 13)


@pytest.mark.parametrize("model", [LocalRegressor, LoessRegressor])
def test_a_metric_that_does_not_exist_is_refused_by_the_model_before_any_work(model):
    with pytest.raises(ValueError, match=rf"{model.__name__} .*'standardized'.* Got 'euclidian'"):
        model(metric="euclidian").fit(np.eye(9), np.arange(9.0))


def test_normal_scores_do_not_depend_on_monotone_maps(rng):
    X = rng.normal(size=(60, 3))
    y = X[:, 0] + np.sin(X[:, 1])
    model = LocalRegressor(metric="ranked", n_neighbors=30, alpha=0.1, degree=1)
    plain = model.fit(X, y).predict(X)
    mapped = model.fit(np.exp(3 * X), y).predict(np.exp(3 * X))
    assert_allclose(mapped, plain, rtol=1e-6)


def test_slopes_through_normal_scores_match_differences(rng):
    X = rng.normal(size=(200, 3))
    y = X[:, 0] ** 2 + X[:, 1]
    # A uniform kernel wide enough for everybody: the prediction is then linear in the scores.
    model = LocalRegressor(metric="ranked", bandwidth=np.inf, alpha=0.1, degree=1).fit(X, y)
    Q, step = X[:20] + 1e-3, 1e-6
    slopes = model.local_coef(Q)
    for j in range(3):
        shift = np.zeros(3)
        shift[j] = step
        difference = (model.predict(Q + shift) - model.predict(Q - shift)) / (2 * step)
        assert_allclose(slopes[:, j], difference, rtol=1e-4, atol=1e-6)


def test_forest_weights_reproduce_the_forest():
    X, y = make_friedman1(150, random_state=0)
    index = grow_forest("forest", X, y, None, classify=False, random_state=0, n_jobs=1)
    found = index.neighborhoods(index.leaves_of(X), None, 150)
    rows = np.repeat(np.arange(150), found.sizes())
    means = np.bincount(rows, found.weights * y[found.indices], minlength=150)
    assert_allclose(means, clone(index.forest).fit(X, y).predict(X), rtol=1e-10)


@pytest.mark.parametrize("metric", ["forest", "extra_forest"])
@pytest.mark.parametrize("classify", [False, True])
def test_leaves_are_those_of_the_forest(metric, classify):
    X, y = make_friedman1(150, random_state=0)
    y = (y > y.mean()).astype(int) if classify else y
    index = grow_forest(metric, X, y, None, classify=classify, random_state=0, n_jobs=2)
    rows = np.resize(X, (700, X.shape[1])) * 1.1
    expected = index.forest.apply(rows) + index._offsets[:-1]
    np.testing.assert_array_equal(index.leaves_of(rows), expected)
    np.testing.assert_array_equal(index.leaves_of(rows[:1]), expected[:1])
    with pytest.raises(ValueError, match="infinity"):
        index.leaves_of(rows[:2] * 1e39)


def test_rows_left_out_use_trees_grown_without_them():
    X, y = make_friedman1(120, random_state=0)
    index = grow_forest("forest", X, y, None, classify=False, random_state=0, n_jobs=1)
    found = index.neighborhoods(index.leaves_of(X), index.out_of_bag(np.arange(120)), 120)
    rows = np.repeat(np.arange(120), found.sizes())
    assert not (found.indices == rows).any()
    trees = [tree.predict(X) for tree in clone(index.forest).fit(X, y).estimators_]
    expected = [
        np.mean([trees[t][i] for t in np.flatnonzero(index.out_of_bag([i])[0])]) for i in range(120)
    ]
    means = np.bincount(rows, found.weights * y[found.indices], minlength=120)
    assert_allclose(means, expected, rtol=1e-10)


def test_trees_of_many_rows_draw_some_of_them(monkeypatch):
    monkeypatch.setattr(forest_rows, "_MAX_TREE_ROWS", 30)
    X, y = make_friedman1(120, random_state=0)
    index = grow_forest("forest", X, y, None, classify=False, random_state=0, n_jobs=1)
    sampled = [np.unique(rows) for rows in index.forest.estimators_samples_]
    assert max(map(len, sampled)) <= 30
    for t, rows in enumerate(sampled):
        assert_array_equal(np.flatnonzero(index.counts[:, t]), rows)
    found = index.neighborhoods(index.leaves_of(X), None, 120)
    rows = np.repeat(np.arange(120), found.sizes())
    means = np.bincount(rows, found.weights * y[found.indices], minlength=120)
    assert_allclose(means, clone(index.forest).fit(X, y).predict(X), rtol=1e-10)


def test_irrelevant_columns_fade():
    rng = np.random.RandomState(0)
    X = rng.uniform(-1, 1, size=(600, 12))
    y = np.sin(3.0 * X[:, 0]) * X[:, 1]
    plain = LocalRegressor(random_state=0).fit(X, y)
    learned = LocalRegressor(metric="gradient", random_state=0).fit(X, y)
    assert learned.loo_score_ < 0.3 * plain.loo_score_
    assert isinstance(learned.metric_, GradientMetric)
    assert learned.metric_.n_rounds > 1


def test_groups_stay_together():
    rng = np.random.RandomState(0)
    groups = np.repeat(np.arange(30), 6)
    X = rng.normal(size=(30, 4))[groups] + 0.01 * rng.normal(size=(180, 4))
    y = rng.randint(0, 2, 30)[groups]
    assert LocalClassifier(random_state=0).fit(X, y).loo_score_ < 0.1
    for metric in ("standardized", "gradient"):
        model = LocalClassifier(metric=metric, random_state=0).fit(X, y, groups=groups)
        assert model.loo_score_ > 0.3
