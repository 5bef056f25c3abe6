import matplotlib
import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import load_iris, make_moons
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

from vicinal.inspection import (
    CounterfactualDisplay,
    DecisionSurfaceDisplay,
    SurfaceDistanceDisplay,
)
from vicinal.surface import DecisionSurface

matplotlib.use("Agg")
from matplotlib import pyplot


@pytest.fixture(autouse=True)
def close_figures():
    yield
    pyplot.close("all")


@pytest.fixture(scope="module")
def moons():
    X, y = make_moons(60, noise=0.1, random_state=0)
    return X, y, DecisionSurface(SVC(), random_state=0).fit(X, y)


def test_plane_shows_distances_surface_and_projections(moons):
    X, y, surface = moons
    display = DecisionSurfaceDisplay.from_estimator(surface, X, y, grid_resolution=12)
    grid = np.column_stack([display.xx.ravel(), display.yy.ravel()])
    assert_allclose(display.field.ravel(), surface.distance(grid))
    ways = np.array(display.arrows_.get_segments())
    assert_allclose(ways[:, 0], X)
    assert_allclose(ways[:, 1], surface.orthogonal_projection(X).points)
    line = np.concatenate(display.surface_.allsegs[0])
    assert np.abs(surface.estimator_.decision_function(line)).max() < 0.1
    assert display.ax_.get_xlabel() == "x0"


def test_more_classes_are_coloured_by_prediction():
    X, y = load_iris(return_X_y=True, as_frame=True)
    X = X.iloc[:, 2:]
    surface = DecisionSurface(DecisionTreeClassifier(max_depth=3, random_state=0)).fit(X, y)
    axes = pyplot.subplots()[1]
    display = DecisionSurfaceDisplay.from_estimator(
        surface, X, projections=False, grid_resolution=10, ax=axes
    )
    assert display.ax_ is axes
    assert display.arrows_ is None
    assert set(np.unique(display.field)) <= {0, 1, 2}
    assert axes.get_xlabel() == "petal length (cm)"


def test_plane_needs_two_features():
    X, y = load_iris(return_X_y=True)
    surface = DecisionSurface(DecisionTreeClassifier(random_state=0)).fit(X, y)
    with pytest.raises(ValueError, match="X has 4 features"):
        DecisionSurfaceDisplay.from_estimator(surface, X)


def test_changes_are_bars_in_the_unit_asked_for():
    X, y = load_iris(return_X_y=True, as_frame=True)
    surface = DecisionSurface(LogisticRegression(max_iter=500), random_state=0).fit(X, y)
    found = surface.counterfactual(X[:4])
    scale = X.std()
    display = CounterfactualDisplay.from_counterfactuals(found, row=2, scale=scale)
    widths = np.array([bar.get_width() for bar in display.bars_])
    expected = found.changes[2] / scale.to_numpy()
    assert_allclose(np.sort(widths), np.sort(expected[expected != 0]))
    few = CounterfactualDisplay.from_counterfactuals(found, row=2, max_bars=2)
    assert len(few.bars_) == 2
    assert "distance" in few.ax_.get_title()


def test_no_counterfactual_no_picture(moons):
    X, _, surface = moons
    alone = X[surface.estimator_.predict(X) == 1]
    with pytest.warns(UserWarning, match="for every row"):
        lonely = DecisionSurface(surface.estimator_, oracle="labels").fit(alone)
    found = lonely.counterfactual(alone[:2])
    with pytest.raises(ValueError, match="No counterfactual was found for row 0"):
        CounterfactualDisplay.from_counterfactuals(found)


def test_histogram_counts_rows_of_each_class(moons):
    X, y, surface = moons
    names = np.where(y == 1, "upper", "lower")
    display = SurfaceDistanceDisplay.from_estimator(surface, X, names)
    counts = [sum(bar.get_height() for bar in bars) for bars in display.bars_]
    assert counts == [30, 30]
    assert [t.get_text() for t in display.ax_.get_legend().get_texts()] == ["lower", "upper"]
