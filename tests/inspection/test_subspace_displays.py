import matplotlib
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import make_friedman1
from sklearn.linear_model import Ridge, RidgeClassifier

from vicinal.inspection import SubspaceErrorDisplay, SubspaceVotesDisplay
from vicinal.subspace import SubspaceFusionClassifier, SubspaceFusionRegressor

matplotlib.use("Agg")


@pytest.fixture(scope="module")
def fusion(three_classes):
    X, y = three_classes
    names = np.array(["a", "b", "c"])[y]
    model = SubspaceFusionClassifier(
        ["random", "cholesky"], RidgeClassifier(), n_subspaces=2, cv=3, random_state=0
    )
    return model.fit(X[:100], names[:100]), X[100:], names[100:]


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    matplotlib.pyplot.close("all")


def test_votes_are_shares_of_rows(fusion):
    model, X, _ = fusion
    display = SubspaceVotesDisplay.from_estimator(model, X)
    assert display.shares.shape == (6, 3)
    assert_allclose(display.shares.sum(axis=1), 1.0)
    votes = model.predict_subspaces(X)
    assert_allclose(display.shares[2, 1], np.mean(votes[:, 2] == "b"))
    assert_allclose(display.shares[-1, 0], np.mean(model.predict(X) == "a"))
    assert_allclose(display.agreement[4], np.mean(votes[:, 4] == model.predict(X)))
    widths = [bar.get_width() for bar in display.bars_[1]]
    assert_allclose(widths, display.shares[:, 1])
    labels = [label.get_text() for label in display.ax_.get_yticklabels()]
    assert labels == [*model.subspace_names_, "fused"]


def test_votes_on_one_row_are_whole(fusion):
    model, X, _ = fusion
    display = SubspaceVotesDisplay.from_estimator(model, X[:1])
    assert set(np.unique(display.shares)) <= {0.0, 1.0}


def test_errors_are_those_of_the_parts_and_of_the_fusion(fusion):
    model, X, y = fusion
    _, ax = matplotlib.pyplot.subplots()
    display = SubspaceErrorDisplay.from_estimator(model, X, y, ax=ax)
    assert display.ax_ is ax
    assert_allclose(display.fused, 1 - model.score(X, y))
    assert_allclose(display.errors, (model.predict_subspaces(X) != y[:, None]).mean(axis=0))
    groups = [label.get_text() for label in ax.get_xticklabels()]
    assert groups == ["random", "cholesky", "all features"]
    assert_array_equal([len(points.get_offsets()) for points in display.points_], [2, 2, 1])


def test_errors_of_a_regression_are_root_mean_squares():
    X, y = make_friedman1(200, random_state=0)
    model = SubspaceFusionRegressor(["random"], Ridge(), n_subspaces=2, random_state=0)
    model.fit(X[:150], y[:150])
    display = SubspaceErrorDisplay.from_estimator(model, X[150:], y[150:])
    assert display.ylabel == "root mean squared error"
    expected = np.sqrt(np.mean((model.predict(X[150:]) - y[150:]) ** 2))
    assert_allclose(display.fused, expected)
