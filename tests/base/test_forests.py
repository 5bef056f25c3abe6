"""A forest's trees asked one by one say what the forest says."""

import numpy as np
import pytest
from sklearn.datasets import load_wine
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier

from vicinal._base import forest_leaves, forest_proba
from vicinal.surface import DecisionSurface


@pytest.fixture(scope="module")
def wine():
    return load_wine(return_X_y=True)


@pytest.mark.parametrize("kind", [RandomForestClassifier, ExtraTreesClassifier])
@pytest.mark.parametrize("n_rows", [1, 100, 5000])
def test_trees_one_by_one_say_what_the_forest_says(kind, n_rows, wine):
    X, y = wine
    forest = kind(12, random_state=0).fit(X, y)
    rows = np.resize(X, (n_rows, X.shape[1]))
    np.testing.assert_array_equal(forest_proba(forest, rows), forest.predict_proba(rows))
    np.testing.assert_array_equal(forest_leaves(forest, rows), forest.apply(rows))


def test_infinite_rows_are_refused_as_the_forest_does(wine):
    X, y = wine
    forest = RandomForestClassifier(3, random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="infinity"):
        forest_proba(forest, np.full((1, X.shape[1]), np.inf))


def test_surface_of_a_forest_that_predicts_in_its_own_way_asks_it(wine):
    class Contrary(RandomForestClassifier):
        def predict(self, X):
            return self.classes_[super().predict_proba(X).argmin(axis=1)]

    X, y = wine
    forest = Contrary(5, random_state=0).fit(X, y)
    surface = DecisionSurface(forest, random_state=0).fit(X)
    found = surface.counterfactual(X[:3])
    np.testing.assert_array_equal(found.labels, forest.predict(found.points))
