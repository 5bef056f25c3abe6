"""Forests that are fitted and predict tree by tree equal those of scikit-learn."""

import numpy as np
import pytest
from sklearn.base import clone, is_classifier
from sklearn.datasets import load_wine, make_classification
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)

from vicinal._base import fit_forest, forest_proba, keep_leaves_only
from vicinal.surface import DecisionSurface


@pytest.fixture(scope="module")
def wine():
    return load_wine(return_X_y=True)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    "forest",
    [
        RandomForestClassifier(min_samples_leaf=2, max_samples=90),
        ExtraTreesClassifier(),
        RandomForestRegressor(max_features=0.5),
        ExtraTreesRegressor(min_samples_leaf=3, n_jobs=2),
    ],
    ids=lambda forest: type(forest).__name__,
)
def test_forest_grown_is_that_of_scikit_learn(forest, weighted, wine, rng):
    X, labels = wine
    y = np.array(["c", "a", "b"])[labels] if is_classifier(forest) else X[:, [3, 7]]
    weights = rng.randint(0, 4, len(X)).astype(float) if weighted else None
    forest.set_params(n_estimators=45, bootstrap=True, random_state=3)
    grown, fitted = clone(forest), clone(forest).fit(X, y, sample_weight=weights)
    found = fit_forest(grown, X, y, weights)
    assert grown.get_params() == fitted.get_params()
    assert vars(grown).keys() == vars(fitted).keys()
    for tree, other in zip(grown.estimators_, fitted.estimators_, strict=True):
        assert tree.get_params() == other.get_params()
        assert vars(tree).keys() == vars(other).keys()
        np.testing.assert_array_equal(tree.tree_.threshold, other.tree_.threshold)
        np.testing.assert_array_equal(tree.tree_.value, other.tree_.value)
    for sample, expected in zip(found, fitted.estimators_samples_, strict=True):
        np.testing.assert_array_equal(sample, expected)


@pytest.mark.parametrize("kind", [RandomForestClassifier, ExtraTreesClassifier])
@pytest.mark.parametrize("n_rows", [1, 100, 5000])
def test_trees_one_by_one_predict_as_the_forest(kind, n_rows, wine):
    X, y = wine
    forest = kind(12, random_state=0).fit(X, y)
    rows = np.resize(X, (n_rows, X.shape[1]))
    np.testing.assert_array_equal(forest_proba(forest, rows), forest.predict_proba(rows))


def test_infinite_rows_are_refused_as_the_forest_does(wine):
    X, y = wine
    forest = RandomForestClassifier(3, random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="infinity"):
        forest_proba(forest, np.full((1, X.shape[1]), np.inf))


def test_surface_of_a_forest_with_its_own_predict_uses_it(wine):
    class Contrary(RandomForestClassifier):
        def predict(self, X):
            return self.classes_[super().predict_proba(X).argmin(axis=1)]

    X, y = wine
    forest = Contrary(5, random_state=0).fit(X, y)
    surface = DecisionSurface(forest, random_state=0).fit(X)
    found = surface.counterfactual(X[:3])
    np.testing.assert_array_equal(found.labels, forest.predict(found.points))


def test_a_forest_of_leaves_only_finds_the_same_leaves():
    X, y = make_classification(300, random_state=0)
    forest = ExtraTreesClassifier(20, bootstrap=True, random_state=0).fit(X, y)
    leaves = forest.apply(X)
    keep_leaves_only(forest)
    np.testing.assert_array_equal(forest.apply(X), leaves)
    assert not any(tree.tree_.value.any() for tree in forest.estimators_)
