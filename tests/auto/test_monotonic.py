"""Monotone constraints: obeyed on grids, by models that can; others are named."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.tree import DecisionTreeRegressor

from vicinal.auto import AutoClassifier, AutoRegressor
from vicinal.auto._linear import LinearRegressor

DIRECTIONS = {"bmi": 1, "s5": 1, "s3": -1, "age": 1}


def least_step(predict, X, columns, n_pairs=10_000):
    """Smallest step in the allowed direction, over pairs of rows that differ in one column."""
    rng = np.random.RandomState(0)
    names = rng.choice(list(columns), n_pairs)
    low = X.iloc[rng.randint(len(X), size=n_pairs)].reset_index(drop=True)
    high = low.copy()
    for name, sign in columns.items():
        own = np.flatnonzero(names == name)
        grid = np.linspace(X[name].min(), X[name].max(), 50)
        ends = np.sort(rng.choice(grid, (len(own), 2)), axis=1)[:, ::sign]
        low.loc[own, name], high.loc[own, name] = ends.T
    return (predict(high) - predict(low)).min()


@pytest.fixture(scope="module")
def frame():
    pytest.importorskip("pandas")
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    X["clinic"] = np.where(X["s1"] > 0.0, "north", "south")
    X.loc[::9, "bp"] = np.nan
    return X[:120], y[:120]


@pytest.mark.parametrize(("cv", "family"), [(3, "boosting"), ("time", "forest")])
def test_regressions_are_monotone_on_10000_pairs(cv, family, frame):
    X, y = frame
    options = {"monotonic_cst": DIRECTIONS, "cv": cv, "random_state": 0}
    model = AutoRegressor(["linear", family], **options).fit(X, y)
    assert len(model.estimators_) > 1
    assert least_step(model.predict, X, DIRECTIONS) >= -1e-9
    reasons = {base.name: base.reason for base in model.skipped_}
    assert [name for name in reasons if "monotonic" in reasons[name]] == [
        next(name for name in reasons if name.startswith("quadratic"))
    ]


def test_without_constraints_the_same_table_is_not_monotone(frame):
    X, y = frame
    model = AutoRegressor(["boosting"], cv=2, random_state=0).fit(X, y)
    assert least_step(model.predict, X, DIRECTIONS) < -1.0


def test_probabilities_of_the_second_class_are_monotone():
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    X = X.iloc[:210, :5]
    signs = [-1, -1, 0, 0, -1]
    model = AutoClassifier(["linear", "boosting"], monotonic_cst=signs, cv=2, random_state=0)
    model.fit(X, np.array(["bad", "good"])[y[:210]])
    columns = {name: sign for name, sign in zip(X.columns, signs, strict=True) if sign}
    assert least_step(lambda rows: model.predict_proba(rows)[:, 1], X, columns) >= -1e-12
    names = [base.name for base in model.skipped_ if "monotonic" in base.reason]
    assert len(names) == 2
    assert {name.split()[0] for name in names} <= {"quadratic", "logistic"}


def test_pairs_that_can_obey_are_constrained_and_others_are_named():
    X, y = load_diabetes(return_X_y=True)
    families = [("tree", DecisionTreeRegressor(max_depth=3)), ("local", LinearlyLocal())]
    with pytest.warns(UserWarning, match="'local' is skipped: it cannot obey monotonic_cst"):
        model = AutoRegressor(families, monotonic_cst=np.eye(10, dtype=int)[2]).fit(X, y)
    assert model.estimators_[0].estimator.monotonic_cst.tolist() == [0, 0, 1] + [0] * 7


class LinearlyLocal(LinearRegressor):
    """A model without the parameter."""

    def __init__(self):
        super().__init__()

    def get_params(self, deep=True):
        return {}


def test_signs_of_a_ridge_are_the_constrained_minimum():
    rng = np.random.RandomState(0)
    X = rng.normal(size=(50, 4))
    y = X @ [1.0, -2.0, 0.5, 0.1] + 0.1 * rng.normal(size=50)
    signs = [-1, -1, 1, 0]
    model = LinearRegressor(alpha=0.1, monotonic_cst=signs).fit(X, y)
    Z, scatter = X - X.mean(axis=0), np.cov(X.T, bias=True) * 50
    penalty = 0.1 * np.trace(scatter) / 4

    def loss(coef):
        return np.sum((y - y.mean() - Z @ coef) ** 2) + penalty * coef @ coef

    bounds = [(None, 0.0), (None, 0.0), (0.0, None), (None, None)]
    best = minimize(loss, np.zeros(4), bounds=bounds, method="L-BFGS-B", options={"ftol": 1e-14})
    assert_allclose(model.coef_[0], best.x, atol=1e-5)
    assert model.coef_[0, 0] == 0.0


@pytest.mark.parametrize(
    ("X", "signs", "message"),
    [
        ("iris", [1, 0, 0, 0], "needs two classes"),
        ("numbers", [1, 0], "shape"),
        ("numbers", [2] + [0] * 9, "monotonic_cst"),
        ("frame", {"clinic": 1}, "only columns of numbers"),
        ("frame", {"size": 1}, "monotonic_cst"),
    ],
)
def test_invalid_constraints_are_refused(X, signs, message, frame):
    if X == "iris":
        with pytest.raises(ValueError, match=message):
            AutoClassifier(monotonic_cst=signs).fit(*load_iris(return_X_y=True))
        return
    X, y = load_diabetes(return_X_y=True) if X == "numbers" else frame
    with pytest.raises(ValueError, match=message):
        AutoRegressor(["constant"], monotonic_cst=signs).fit(X, y)
