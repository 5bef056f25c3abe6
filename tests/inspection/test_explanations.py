"""Explanations of many rows: numbers, frame, plots, and objects of the package shap."""

import sys
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LinearRegression

from vicinal.inspection import explain
from vicinal.inspection.colors import N_COLORS, class_color, color_index

pytest.importorskip("matplotlib").use("Agg")
pyplot = pytest.importorskip("matplotlib.pyplot")


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    pyplot.close("all")


@pytest.fixture(scope="module")
def table():
    rng = np.random.RandomState(0)
    X = pd.DataFrame(rng.normal(size=(80, 3)), columns=["a", "b", "c"])
    return X, np.array(["low", "middle", "high"])[np.digitize(X["a"] + X["b"], [-0.7, 0.7])]


@pytest.fixture(scope="module")
def forest(table):
    return RandomForestClassifier(10, random_state=0).fit(*table)


def test_contributions_and_baseline_add_up_to_the_probabilities(table, forest):
    X, _ = table
    found = explain(forest, X[:6], background=X[40:])
    assert len(found) == 6
    total = found.all_baselines + found.all_values.sum(axis=1)
    assert_allclose(total, forest.predict_proba(X[:6]), atol=1e-12)
    frame = found.to_frame("low")
    assert_allclose(frame["contribution"], found.values_of("low").ravel())
    assert list(frame["column"][:3]) == ["a", "b", "c"]
    assert len(found.to_frame()) == 6 * 3 * 3


def test_one_of_many_is_the_explanation_of_one(table, forest):
    X, _ = table
    found = explain(forest, X[:6], background=X[40:], target_name="size")
    one = found[2]
    code = forest.classes_.tolist().index(one.prediction)
    alone = {row[0]: row[2] for row in one["columns"].rows}
    assert_allclose([alone[name] for name in "abc"], found.all_values[2, :, code])
    assert one.headline().startswith("RandomForestClassifier predicts size = ")
    with pytest.raises(IndexError, match="there are 6 rows"):
        found[6]


def test_plots_show_the_contributions(table, forest):
    X, _ = table
    found = explain(forest, X[:6], background=X[40:])
    ax = found.plot.waterfall(0, label="high")
    code = found.code_of("high")
    ends = sorted(bar.get_x() + bar.get_width() for bar in ax.patches)
    assert np.isclose(ends, forest.predict_proba(X[:1])[0, code]).any()
    bars = [bar.get_width() for bar in found.plot.importance(label="high").patches]
    assert_allclose(bars, np.sort(np.abs(found.values_of("high")).mean(axis=0))[::-1])
    assert len(found.plot.beeswarm().collections) >= 3
    points = found.plot.dependence("b", label="high").collections[0].get_offsets()
    assert_allclose(points, np.column_stack([X["b"][:6], found.values_of("high")[:, 1]]))
    with pytest.raises(ValueError, match="column='z' is unknown"):
        found.plot.dependence("z")
    with pytest.raises(ValueError, match="label='tiny' must be one of"):
        found.values_of("tiny")


def test_categories_have_plots_too(table):
    X, _ = table
    X = X.assign(d=np.where(X["c"] > 0, "x", "y"))
    y = X["a"] + (X["d"] == "x")

    class Model(LinearRegression):
        def fit(self, X, y):
            super().fit(self._numbers(X), y)
            self.feature_names_in_ = np.array(X.columns, dtype=object)
            return self

        def predict(self, X):
            return self._numbers(X) @ self.coef_ + self.intercept_

        def _numbers(self, X):
            return np.column_stack([X[["a", "b", "c"]].to_numpy(), X["d"] == "x"]).astype(float)

    found = explain(Model().fit(X, y), X[:5], background=X[20:], target_name="price")
    ax = found.plot.dependence("d")
    assert [tick.get_text() for tick in ax.get_xticklabels()] == sorted(set(X["d"][:5]))
    assert found.plot.beeswarm().get_xlabel() == "contribution to price"


def test_many_rows_need_a_background(table):
    X, y = table
    with pytest.raises(ValueError, match="explain of 3 rows needs background"):
        explain(RandomForestRegressor(5).fit(X, X["a"]), X[:3])
    with pytest.raises(ValueError, match="at least one row"):
        explain(RandomForestClassifier(5).fit(X, y), X[:0])


def test_values_for_shap(table, forest, monkeypatch):
    X, _ = table
    found = explain(forest, X[:4], background=X[40:])
    monkeypatch.setitem(sys.modules, "shap", None)
    with pytest.raises(ImportError, match="pip install shap"):
        found.to_shap()
    monkeypatch.setitem(sys.modules, "shap", SimpleNamespace(Explanation=SimpleNamespace))
    given = found.to_shap("low")
    assert_allclose(given.values, found.values_of("low"))
    assert_allclose(given.base_values, found.all_baselines[:, found.code_of("low")])
    assert given.feature_names == ["a", "b", "c"]


def test_shap_plots_our_values(table, forest):
    shap = pytest.importorskip("shap")
    X, _ = table
    given = explain(forest, X[:6], background=X[40:]).to_shap("low")
    shap.plots.waterfall(given[0], show=False)
    shap.plots.beeswarm(given, show=False)


def test_a_class_has_one_colour():
    assert len({class_color(k) for k in range(N_COLORS)}) == N_COLORS
    assert len({class_color(k, dark=True) for k in range(N_COLORS)}) == N_COLORS
    assert class_color(N_COLORS + 1) == class_color(1)
    assert color_index(N_COLORS + 1) == 1
