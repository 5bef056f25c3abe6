"""``scoring``: what weights minimise, what selects, and its standard error."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import linprog
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import (
    average_precision_score,
    log_loss,
    make_scorer,
    mean_absolute_error,
    mean_pinball_loss,
    roc_auc_score,
)
from sklearn.model_selection import KFold
from sklearn.tree import DecisionTreeClassifier

from vicinal._kernels.ensemble._weights import stacked_quantile_weights
from vicinal.auto import AutoClassifier, AutoRegressor
from vicinal.auto._scorers import ClassScorer, Metric
from vicinal.auto._search import _best_by_metric
from vicinal.io import load, save

FOLDS = KFold(4, shuffle=True, random_state=0)  # every row is predicted once
CLASSIFIERS = ["constant", ("tree", DecisionTreeClassifier(max_depth=2, random_state=0))]
P90 = make_scorer(mean_pinball_loss, alpha=0.9, greater_is_better=False)


@pytest.fixture(scope="module")
def tumors():
    X, y = load_breast_cancer(return_X_y=True)
    return X[:200, :4], np.array(["malign", "benign"])[y[:200]]


@pytest.mark.parametrize("level", [0.5, 0.9])
def test_quantile_weights_solve_the_linear_program(level):
    rng = np.random.RandomState(0)
    y = rng.normal(size=60)
    F = y[:, None] * [1.0, 0.5, -1.0, 0.2] + rng.normal(size=(60, 4)) + [0.0, 1.0, 0.0, 2.0]
    found = stacked_quantile_weights(F, y, np.full(60, 1 / 60), level)
    # Variables: weights, positive and negative parts of the residuals.
    cost = np.r_[np.zeros(4), np.full(60, level / 60), np.full(60, (1 - level) / 60)]
    rows = np.vstack([np.c_[F, np.eye(60), -np.eye(60)], np.r_[np.ones(4), np.zeros(120)]])
    best = linprog(cost, A_eq=rows, b_eq=np.r_[y, 1.0]).fun
    assert_allclose(mean_pinball_loss(y, F @ found, alpha=level), best, rtol=1e-3)


def test_an_absolute_error_and_a_quantile_are_predicted_and_reported(tmp_path):
    X, y = load_diabetes(return_X_y=True)
    families = [("line", LinearRegression()), "constant"]
    model = AutoRegressor(families, scoring=P90, cv=FOLDS).fit(X, y)
    assert_allclose(np.mean(y <= model.held_out_), 0.9, atol=0.03)
    assert_allclose(model.score_, -mean_pinball_loss(y, model.held_out_, alpha=0.9))
    assert_allclose(model.contributions(X).sum(axis=1)[:, 0], model.predict(X))
    assert np.mean(y <= model.predict(X)) > 0.85
    save(model, tmp_path / "model")
    assert_allclose(load(tmp_path / "model").predict(X), model.predict(X))
    middle = AutoRegressor(families, scoring="neg_mean_absolute_error", cv=FOLDS).fit(X, y)
    assert_allclose(middle.score_, -mean_absolute_error(y, middle.held_out_))


def test_boosting_learns_the_quantile_itself():
    X, y = load_diabetes(return_X_y=True)
    model = AutoRegressor(["boosting"], scoring=P90, cv=FOLDS).fit(X[:110], y[:110])
    assert model.estimators_[0].estimator.quantile == 0.9


@pytest.mark.parametrize(
    ("scoring", "score"),
    [
        ("roc_auc", roc_auc_score),
        ("average_precision", average_precision_score),
        ("neg_log_loss", lambda y, p: -log_loss(y, p)),
        (lambda model, X, y: -np.mean(model.predict(X) != y), None),
    ],
)
def test_scores_are_those_of_the_held_out_predictions(scoring, score, tumors):
    X, y = tumors
    model = AutoClassifier(CLASSIFIERS, scoring=scoring, cv=FOLDS).fit(X, y)
    expected = -np.mean(model.classes_[model.held_out_.argmax(axis=1)] != y)
    if score is not None:
        expected = score(y == model.classes_[1], model.held_out_[:, 1])
    assert_allclose(model.score_, expected)
    assert 0.0 < model.score_error_ < 0.1


def test_the_jackknife_agrees_with_the_standard_error_of_a_mean(tumors):
    plain, named = (
        AutoClassifier(CLASSIFIERS, scoring=name, cv=FOLDS).fit(*tumors)
        for name in (None, "accuracy")
    )
    assert_allclose(named.score_, plain.score_)
    assert_allclose(named.score_error_, plain.score_error_, rtol=0.25)


def test_a_score_without_gradient_selects_between_weights():
    codes = np.tile([0, 1], 30)
    confident, right = np.full((60, 2), 0.5), np.full((60, 2), 0.5)
    confident[:20] = np.eye(2)[codes[:20]]
    right += 0.01 * (np.eye(2)[codes] - 0.5)
    scorer = ClassScorer(codes, np.ones(60), 60, Metric("accuracy", np.arange(2)))
    stack = np.stack([confident, right])
    assert_allclose(_best_by_metric(scorer, stack, np.array([1.0, 0.0])), [0.0, 1.0])
    assert_allclose(_best_by_metric(scorer, stack, np.array([0.4, 0.6])), [0.4, 0.6])


@pytest.mark.parametrize(
    ("scoring", "message"),
    [
        ("roc_auc", "cannot score this y"),
        ("r2", "cannot score this y"),
        ("beauty", "'scoring' parameter"),
        (make_scorer(log_loss, response_method="predict_proba"), "rewards a loss"),
    ],
)
def test_unsuited_scores_are_refused_before_any_work(scoring, message):
    class Never(DummyClassifier):
        def fit(self, X, y):
            raise AssertionError

    y = np.array(["a", "b", "c"] * 5)
    with pytest.raises(ValueError, match=message):
        AutoClassifier([("never", Never())], scoring=scoring).fit(np.zeros((15, 1)), y)


def test_several_targets_have_no_other_score():
    with pytest.raises(ValueError, match="needs one target"):
        AutoRegressor(["constant"], scoring="r2").fit(np.zeros((9, 1)), np.zeros((9, 2)))


def test_balanced_accuracy_finds_the_model_that_sees_a_rare_class():
    rng = np.random.RandomState(0)
    X = rng.normal(size=(240, 2))
    y = (X[:, 0] + 0.3 * rng.normal(size=240) > 1.2).astype(int)
    families = ["constant", ("logistic", LogisticRegression())]
    model = AutoClassifier(families, scoring="balanced_accuracy", random_state=0).fit(X, y)
    assert model.score_ > 0.75
