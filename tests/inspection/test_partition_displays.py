import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from sklearn.exceptions import NotFittedError

from vicinal.inspection import (
    PartitionHistogramDisplay,
    PartitionHistoryDisplay,
    PartitionRegionsDisplay,
)
from vicinal.partition import (
    SpacePartitioningClassifier,
    SpacePartitioningRegressor,
    SurrogatePartitionClassifier,
)


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def plane():
    X = np.random.RandomState(0).uniform(-1, 1, size=(200, 2))
    return X, np.where(X[:, 0] * X[:, 1] > 0, "even", "odd")


@pytest.fixture(scope="module")
def cascade(plane):
    return SpacePartitioningClassifier(
        "lda", n_regions=3, n_init=3, combine="best", random_state=0
    ).fit(*plane)


def test_regions_show_predictions_and_gates_where_they_are_reached(plane, cascade):
    display = PartitionRegionsDisplay.from_estimator(cascade, *plane, grid_resolution=30)
    grid = np.column_stack([display.xx.ravel(), display.yy.ravel()])
    assert_array_equal(display.classes[display.prediction.ravel()], cascade.predict(grid))
    region = cascade.apply(grid).reshape(30, 30)
    for k, scores in enumerate(display.gate_scores):
        assert_array_equal(np.isnan(scores), region < k)
    assert len(display.gate_lines_) <= cascade.n_regions_ - 1
    assert display.ax_.get_xlabel() == "x0"


def test_regions_of_frames_keep_their_names(plane):
    frame = pd.DataFrame(plane[0], columns=["height", "depth"])
    model = SpacePartitioningClassifier("lda", n_regions=2, n_init=2).fit(frame, plane[1])
    display = PartitionRegionsDisplay.from_estimator(model, frame, grid_resolution=10)
    assert display.ax_.get_ylabel() == "depth"


def test_regions_of_regressors_and_surrogates(plane):
    X, y = plane
    for model, target in [
        (SpacePartitioningRegressor(n_regions=2, n_init=2, random_state=0), np.abs(X[:, 0])),
        (SurrogatePartitionClassifier(n_init=2, random_state=0), y),
    ]:
        display = PartitionRegionsDisplay.from_estimator(
            model.fit(X, target), X, target, grid_resolution=10
        )
        assert display.prediction.shape == (10, 10)


def test_one_region_has_no_gate(plane):
    model = SpacePartitioningClassifier("lda", n_regions=1).fit(*plane)
    display = PartitionRegionsDisplay.from_estimator(model, *plane, grid_resolution=10)
    assert display.gate_lines_ == []


def test_three_features_are_refused(cascade, plane):
    with pytest.raises(ValueError, match="X has 3 features; a picture of the plane needs"):
        PartitionRegionsDisplay.from_estimator(cascade, np.zeros((4, 3)))


def test_unfitted_models_are_refused(plane):
    with pytest.raises(NotFittedError):
        PartitionRegionsDisplay.from_estimator(SpacePartitioningClassifier(), plane[0])


def test_histogram_shows_the_counts(plane, cascade):
    display = PartitionHistogramDisplay.from_estimator(cascade, *plane)
    assert_array_equal(display.counts, cascade.region_histogram(*plane))
    heights = [[bar.get_height() for bar in ax.patches] for ax in display.axes_]
    assert_array_equal(heights, display.counts)
    with pytest.raises(ValueError, match=r"1 Axes for \d regions"):
        display.plot(axes=plt.subplots()[1])


def test_history_draws_every_start_best_first(plane):
    X, y = plane
    hard = SpacePartitioningClassifier("lda", n_regions=2, n_init=3, random_state=0).fit(X, y)
    display = PartitionHistoryDisplay.from_estimator(hard)
    assert_array_equal(display.lines_[0].get_ydata(), hard.training_history_["error"])
    assert len(display.lines_) == 3
    soft = SpacePartitioningClassifier(gating="soft", n_regions=2, n_init=2, max_iter=20)
    assert PartitionHistoryDisplay.from_estimator(soft.fit(X, y)).ylabel == "objective"
    surrogate = SurrogatePartitionClassifier(n_init=2, random_state=0).fit(X, y)
    drawn = PartitionHistoryDisplay.from_estimator(surrogate)
    assert_array_equal(drawn.curves[0], surrogate.objective_)
