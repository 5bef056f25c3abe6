import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_iris, make_friedman1, make_moons
from sklearn.exceptions import NotFittedError
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

from vicinal.ensemble import (
    FunctionalGradientBoostingRegressor,
    PrunedTreeClassifier,
    RealAdaBoostClassifier,
)
from vicinal.inspection import (
    DecisionSurfaceDisplay,
    PartitionRegionsDisplay,
    SelectionCurveDisplay,
    TrainingCurveDisplay,
)
from vicinal.local import LocalRegressor
from vicinal.partition import (
    SpacePartitioningClassifier,
    SpacePartitioningRegressor,
    SurrogatePartitionClassifier,
)
from vicinal.surface import DecisionSurface

pytest.importorskip("matplotlib").use("Agg")
pyplot = pytest.importorskip("matplotlib.pyplot")


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    pyplot.close("all")


# --- partition ---


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
    with pytest.raises(ValueError, match="X has 3 features; a plot of the plane needs"):
        PartitionRegionsDisplay.from_estimator(cascade, np.zeros((4, 3)))


def test_unfitted_models_are_refused(plane):
    with pytest.raises(NotFittedError):
        PartitionRegionsDisplay.from_estimator(SpacePartitioningClassifier(), plane[0])


def test_training_curve_shows_every_start_best_first(plane):
    X, y = plane
    hard = SpacePartitioningClassifier("lda", n_regions=2, n_init=3, random_state=0).fit(X, y)
    lines = TrainingCurveDisplay.from_estimator(hard).lines_
    assert_array_equal(lines["start 1 (best)"].get_ydata(), hard.training_history_["error"])
    assert len(lines) == 3
    soft = SpacePartitioningClassifier(gating="soft", n_regions=2, n_init=2, max_iter=20)
    assert TrainingCurveDisplay.from_estimator(soft.fit(X, y)).ylabel == "objective"
    surrogate = SurrogatePartitionClassifier(n_init=2, random_state=0).fit(X, y)
    curves = TrainingCurveDisplay.from_estimator(surrogate).curves
    assert_array_equal(curves["start 1 (best)"], surrogate.objective_)


# --- surface ---


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


# --- ensemble ---


@pytest.fixture(scope="module")
def friedman():
    return make_friedman1(n_samples=200, noise=1.0, random_state=0)


def test_pruning_display_marks_the_chosen_tree():
    model = PrunedTreeClassifier(random_state=0).fit(*load_iris(return_X_y=True))
    _, ax = pyplot.subplots()
    display = SelectionCurveDisplay.from_estimator(model, ax=ax)
    assert display.ax_ is ax
    assert_allclose(display.lines_[0].get_ydata(), model.cv_error_)
    assert display.point_.get_xdata()[0] == model.get_n_leaves()


def test_boosting_display_shows_training_and_held_out_rows(friedman):
    model = FunctionalGradientBoostingRegressor(n_iter_no_change=3, random_state=0).fit(*friedman)
    display = TrainingCurveDisplay.from_estimator(model)
    assert display.lines_.keys() == {"training rows", "held-out rows"}
    assert_allclose(display.lines_["training rows"].get_ydata(), model.train_score_)


def test_boosting_display_judges_given_rows(friedman):
    X, y = friedman
    model = FunctionalGradientBoostingRegressor(n_estimators=5).fit(X[:100], y[:100])
    display = TrainingCurveDisplay.from_estimator(model, X[100:], y[100:])
    expected = np.mean((y[100:] - model.predict(X[100:])) ** 2)
    assert_allclose(display.curves["given rows"][-1], expected)


def test_boosting_display_of_classes_counts_errors():
    X, y = load_iris(return_X_y=True)
    model = RealAdaBoostClassifier(n_estimators=5, random_state=0).fit(X[::2], y[::2])
    display = TrainingCurveDisplay.from_estimator(model, X[1::2], y[1::2])
    expected = 1 - model.score(X[1::2], y[1::2])
    assert_allclose(display.curves["given rows"][-1], expected)
    with pytest.raises(ValueError, match="stores no training curve"):
        TrainingCurveDisplay.from_estimator(model)


def test_displays_want_fitted_models():
    with pytest.raises(NotFittedError):
        SelectionCurveDisplay.from_estimator(PrunedTreeClassifier())
    with pytest.raises(NotFittedError):
        TrainingCurveDisplay.from_estimator(RealAdaBoostClassifier())


# --- local ---


def test_lines_are_the_losses_by_size(rng):
    X = rng.uniform(size=(60, 2))
    model = LocalRegressor(degree=1, random_state=0).fit(X, np.sin(4 * X[:, 0]))
    display = SelectionCurveDisplay.from_estimator(model)
    shown = np.concatenate([line.get_ydata() for line in display.lines_])
    np.testing.assert_allclose(np.sort(shown), np.sort(model.selection_["loss"]))
    size, loss = display.point_.get_xydata()[0]
    assert size == model.n_neighbors_
    assert loss == model.loo_score_


def test_a_model_without_a_path_is_an_error(rng):
    X = rng.uniform(size=(60, 2))
    model = LocalRegressor(n_neighbors=20, degree=1, alpha=0.1).fit(X, X[:, 0])
    with pytest.raises(ValueError, match="all parameters were given"):
        SelectionCurveDisplay.from_estimator(model)
