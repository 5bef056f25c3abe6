"""Intervals, sets and typicality of every family with held-out predictions, also from files."""

import pickle

import numpy as np
import pytest
from sklearn.datasets import make_blobs
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeRegressor

from vicinal import SpacePartitioningClassifier, SpacePartitioningRegressor
from vicinal.auto import AutoClassifier, AutoRegressor
from vicinal.ensemble import (
    BootstrapEnsembleClassifier,
    BootstrapEnsembleRegressor,
    FunctionalGradientBoostingClassifier,
    FunctionalGradientBoostingRegressor,
)
from vicinal.inspection import explain
from vicinal.io import load, save
from vicinal.local import (
    AnchoredLocalClassifier,
    AnchoredLocalRegressor,
    LocalClassifier,
    LocalRegressor,
    LoessRegressor,
    NadarayaWatsonRegressor,
)
from vicinal.metric import GradientKernelClassifier, GradientKernelRegressor

REGRESSORS = [
    LocalRegressor(n_neighbors=60, alpha=0.1),
    LocalRegressor(n_neighbors=60, alpha=0.1, metric="forest", random_state=0),
    AnchoredLocalRegressor(20, n_neighbors=60, alpha=0.1, random_state=0),
    LoessRegressor(span=0.3),
    NadarayaWatsonRegressor(n_neighbors=40),
    SpacePartitioningRegressor(n_regions=2, n_init=1, random_state=0),
    FunctionalGradientBoostingRegressor(
        DecisionTreeRegressor(max_depth=2), n_estimators=30, random_state=0
    ),
    BootstrapEnsembleRegressor(
        DecisionTreeRegressor(min_samples_leaf=10), n_estimators=40, random_state=0
    ),
    GradientKernelRegressor(n_rounds=1, random_state=0),
    AutoRegressor(["local", "linear"], random_state=0),
]
CLASSIFIERS = [
    LocalClassifier(n_neighbors=40, alpha=1.0),
    AnchoredLocalClassifier(20, n_neighbors=40, alpha=1.0, random_state=0),
    SpacePartitioningClassifier(n_regions=2, n_init=1, random_state=0),
    FunctionalGradientBoostingClassifier(n_estimators=10, random_state=0),
    BootstrapEnsembleClassifier(n_estimators=30, random_state=0),
    GradientKernelClassifier(n_rounds=1, random_state=0),
    AutoClassifier(["linear"], random_state=0),
]


def name_of(model):
    return type(model).__name__ + (" forest" if getattr(model, "metric", "") == "forest" else "")


@pytest.fixture(scope="module")
def line():
    """Return a curve whose noise grows from 0.1 to 1.1, 500 training rows and 400 queries."""
    rng = np.random.RandomState(1)
    X = rng.uniform(size=(900, 1))
    y = np.sin(4.0 * X[:, 0]) + (0.1 + X[:, 0]) * rng.normal(size=900)
    return X[:500], y[:500], X[500:], y[500:]


@pytest.fixture(scope="module")
def blobs():
    X, y = make_blobs(600, centers=3, cluster_std=3.0, random_state=3)
    return X[:300], np.array(["a", "b", "c"])[y[:300]], X[300:], y[300:]


@pytest.mark.parametrize("model", REGRESSORS, ids=name_of)
def test_intervals_cover_follow_the_noise_and_survive_a_file(model, line, tmp_path):
    X, y, Q, truth = line
    model.fit(X, y)
    ends = model.predict_interval(Q, coverage=0.8)
    assert ends.shape == (400, 2)
    inside = np.mean((ends[:, 0] <= truth) & (truth <= ends[:, 1]))
    assert abs(inside - 0.8) < 0.08  # four standard errors
    quiet, noisy = np.diff(model.predict_interval([[0.05], [0.95]])).ravel()
    assert noisy > 2.0 * quiet
    assert model.typicality([[9.0]])[0] < 0.02
    save(model, tmp_path / "model.vicinal")
    for copy in (load(tmp_path / "model.vicinal"), pickle.loads(pickle.dumps(model))):
        np.testing.assert_allclose(copy.predict_interval(Q[:5], 0.8), ends[:5], rtol=1e-6)


@pytest.mark.parametrize("model", CLASSIFIERS, ids=name_of)
def test_sets_cover_and_survive_a_file(model, blobs, tmp_path):
    X, y, Q, truth = blobs
    model.fit(X, y)
    sets = model.predict_set(Q, coverage=0.9, method="threshold")
    assert abs(sets[np.arange(300), truth].mean() - 0.9) < 0.08
    assert model.typicality(np.full((1, 2), 99.0))[0] < 0.02
    save(model, tmp_path / "model.vicinal")
    again = load(tmp_path / "model.vicinal").predict_set(Q, coverage=0.9, method="threshold")
    assert np.mean(again == sets) > 0.99


def test_a_loaded_model_without_predictions_names_the_remedy(line):
    X, y, *_ = line
    model = SpacePartitioningRegressor(n_regions=2, n_init=1, random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="before saving"):
        pickle.loads(pickle.dumps(model)).predict_interval(X)


def test_weights_count_in_folds(line):
    X, y, *_ = line
    weight = np.ones(500)
    weight[:50] = 0.0
    model = FunctionalGradientBoostingRegressor(n_estimators=5, random_state=0)
    ends = model.fit(X, y, sample_weight=weight).predict_interval(X[:3])
    np.testing.assert_array_equal(ends, model.fit(X[50:], y[50:]).predict_interval(X[:3]))


def test_a_pipeline_offers_what_its_last_step_does(line):
    X, y, Q, _ = line
    pipeline = make_pipeline(StandardScaler(), LocalRegressor(n_neighbors=60, alpha=0.1))
    pipeline.fit(X, y)
    ends = pipeline[-1].predict_interval(pipeline[:-1].transform(Q))
    assert ends.shape == (400, 2)


def test_explanations_report_the_typicality_of_the_row(line):
    X, y, *_ = line
    model = LocalRegressor(n_neighbors=60, alpha=0.1).fit(X, y)
    section = explain(model, [[9.0]])["novelty"]
    assert section.values["typicality"] == model.typicality([[9.0]])[0]
    assert "the row is novel" in section.summary


@pytest.mark.parametrize(
    "model", [SpacePartitioningRegressor(), FunctionalGradientBoostingRegressor(n_estimators=2)]
)
def test_one_row_has_no_held_out_error(model):
    model.fit([[1.0, 2.0]], [1.0])
    assert model.predict([[3.0, 4.0]]) == [1.0]
    with pytest.raises(ValueError, match="n_samples=1 is too small for cross-validation"):
        model.predict_interval([[1.0, 2.0]])
