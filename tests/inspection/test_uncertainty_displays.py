import matplotlib
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import load_iris, make_moons

from vicinal.inspection import UncertaintyDisplay
from vicinal.uncertainty import uncertainty_map

matplotlib.use("Agg")
from matplotlib import pyplot


@pytest.fixture(autouse=True)
def close_figures():
    yield
    pyplot.close("all")


def test_two_features_are_drawn_as_a_map():
    X, y = make_moons(80, noise=0.3, random_state=0)
    display = UncertaintyDisplay.from_data(X, y)
    assert [len(points.get_offsets()) for points in display.points_] == [40, 40]
    shades = np.concatenate([points.get_array() for points in display.points_])
    expected = uncertainty_map(X, y)
    assert_allclose(shades, np.concatenate([expected[y == 0], expected[y == 1]]))
    assert display.ax_.get_xlabel() == "x0"


def test_more_features_are_ranked_in_a_table():
    X, y = load_iris(return_X_y=True, as_frame=True)
    display = UncertaintyDisplay.from_data(X, y)
    cells = display.table_.get_celld()
    best = int(np.argmax(uncertainty_map(X, y)))
    assert cells[1, 0].get_text().get_text() == str(best)
    assert not hasattr(display, "points_")


def test_chosen_features_are_drawn_with_their_names():
    X, y = load_iris(return_X_y=True, as_frame=True)
    axes = pyplot.subplots()[1]
    display = UncertaintyDisplay.from_data(X, y, features=(2, 3), ax=axes)
    assert display.ax_ is axes
    assert axes.get_xlabel() == "petal length (cm)"
    assert len(display.points_) == 3
    with pytest.raises(ValueError, match=r"features=\(0, 9\)"):
        UncertaintyDisplay.from_data(X, y, features=(0, 9))


def test_most_uncertain_rows_come_first_and_make_a_frame():
    X, y = load_iris(return_X_y=True, as_frame=True)
    display = UncertaintyDisplay.from_data(X, y, plot=False)
    assert not hasattr(display, "ax_")
    frame = pd.DataFrame(display.most_uncertain(5))
    assert frame.columns.tolist() == ["row", "label", "uncertainty", *X.columns]
    assert frame["uncertainty"].is_monotonic_decreasing
    assert_allclose(frame["uncertainty"], np.sort(uncertainty_map(X, y))[::-1][:5])
    assert_allclose(frame[X.columns], X.iloc[frame["row"]])
