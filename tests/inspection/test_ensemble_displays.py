"""Displays of pruned trees and of boosting."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import load_iris, make_friedman1
from sklearn.exceptions import NotFittedError

from vicinal.ensemble import (
    FunctionalGradientBoostingRegressor,
    PrunedTreeClassifier,
    RealAdaBoostClassifier,
)
from vicinal.inspection import BoostingCurveDisplay, PruningPathDisplay

pyplot = pytest.importorskip("matplotlib.pyplot")


@pytest.fixture(autouse=True)
def _closed_figures():
    pyplot.switch_backend("agg")
    yield
    pyplot.close("all")


@pytest.fixture(scope="module")
def friedman():
    return make_friedman1(n_samples=200, noise=1.0, random_state=0)


def test_pruning_display_marks_the_chosen_tree():
    model = PrunedTreeClassifier(random_state=0).fit(*load_iris(return_X_y=True))
    _, ax = pyplot.subplots()
    display = PruningPathDisplay.from_estimator(model, ax=ax)
    assert display.ax_ is ax
    assert_allclose(display.line_.get_ydata(), model.cv_error_)
    assert display.chosen_.get_xdata()[0] == model.get_n_leaves()


def test_boosting_display_draws_training_and_held_out_rows(friedman):
    model = FunctionalGradientBoostingRegressor(n_iter_no_change=3, random_state=0).fit(*friedman)
    display = BoostingCurveDisplay.from_estimator(model)
    assert display.lines_.keys() == {"training rows", "held-out rows"}
    assert_allclose(display.lines_["training rows"].get_ydata(), model.train_score_)


def test_boosting_display_judges_given_rows(friedman):
    X, y = friedman
    model = FunctionalGradientBoostingRegressor(n_estimators=5).fit(X[:100], y[:100])
    display = BoostingCurveDisplay.from_estimator(model, X[100:], y[100:])
    expected = np.mean((y[100:] - model.predict(X[100:])) ** 2)
    assert_allclose(display.curves["given rows"][-1], expected)


def test_boosting_display_of_classes_counts_errors():
    X, y = load_iris(return_X_y=True)
    model = RealAdaBoostClassifier(n_estimators=5, random_state=0).fit(X[::2], y[::2])
    display = BoostingCurveDisplay.from_estimator(model, X[1::2], y[1::2])
    expected = 1 - model.score(X[1::2], y[1::2])
    assert_allclose(display.curves["given rows"][-1], expected)
    with pytest.raises(ValueError, match="keeps no training curve"):
        BoostingCurveDisplay.from_estimator(model)


def test_displays_want_fitted_models():
    with pytest.raises(NotFittedError):
        PruningPathDisplay.from_estimator(PrunedTreeClassifier())
    with pytest.raises(NotFittedError):
        BoostingCurveDisplay.from_estimator(RealAdaBoostClassifier())
