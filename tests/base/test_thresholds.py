"""Classifiers with a threshold predict as scikit-learn's do, and can be split from it."""

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.metrics import f1_score, make_scorer
from sklearn.model_selection import (
    FixedThresholdClassifier,
    GridSearchCV,
    TunedThresholdClassifierCV,
)
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from vicinal._base import last_step
from vicinal._base._wrappers import split_threshold, with_threshold
from vicinal.ensemble import BayesianModelAveragingClassifier
from vicinal.inspection import explain


@pytest.fixture(scope="module")
def table():
    X, y = make_classification(200, 4, random_state=0)
    return X, np.where(y == 1, "no", "yes")


def fixed(**settings):
    return FixedThresholdClassifier(LogisticRegression(), **settings)


@pytest.mark.parametrize(
    "model",
    [
        fixed(),
        fixed(threshold=0.2, pos_label="no"),
        fixed(threshold=0.2, pos_label="yes", response_method="predict_proba"),
        make_pipeline(StandardScaler(), fixed(threshold=0.2, pos_label="no")),
        GridSearchCV(fixed(pos_label="no"), {"threshold": [0.15]}, cv=2, scoring="accuracy"),
        TunedThresholdClassifierCV(LogisticRegression(), cv=2),
        TunedThresholdClassifierCV(
            LogisticRegression(), cv=2, scoring=make_scorer(f1_score, pos_label="no")
        ),
    ],
)
def test_rules_are_those_of_scikit_learn(model, table):
    X, y = table
    model.fit(X, y)
    inner, rule = split_threshold(model)
    assert isinstance(last_step(inner), LogisticRegression)
    codes = rule.codes(inner.predict_proba(X))
    assert (inner.classes_[codes] == model.predict(X)).all()
    found = explain(model, X[0])
    assert found.model == "LogisticRegression"
    assert found.prediction == model.predict(X[:1])[0]
    assert f"{inner.classes_[rule.code]} is predicted from {rule.value:.4g} on" in found.headline()


def test_scores_that_are_no_probabilities_stay_as_they_are(table):
    model = FixedThresholdClassifier(RidgeClassifier(), threshold=0.3).fit(*table)
    assert split_threshold(model) == (model, None)


def test_a_fitted_model_gets_a_threshold(table):
    X, y = table
    model = LogisticRegression().fit(X, y)
    decided = with_threshold(model, "yes", 0.1)
    is_yes = model.predict_proba(X)[:, 1] >= 0.1
    assert (decided.predict(X) == np.where(is_yes, "yes", "no")).all()


def test_explanations_are_about_the_prediction_of_the_threshold(table):
    X, y = table
    model = LogisticRegression().fit(X, y)
    share = model.predict_proba(X)[:, 1]
    row = X[np.argmin(np.abs(share - 0.3))]
    found = explain(with_threshold(model, "yes", 0.1), row, background=X)
    assert found.model == "LogisticRegression"
    assert found.prediction == "yes"
    change = np.array(list(found["counterfactual"].values["counterfactual"].values()))
    assert 0.05 < model.predict_proba([change])[0, 1] < 0.1


@pytest.mark.parametrize("value", [0.1, 0.9])
def test_contributions_of_base_models_are_about_the_prediction_of_the_threshold(table, value):
    X, y = table
    estimators = [("logistic", LogisticRegression()), ("bayes", GaussianNB())]
    model = BayesianModelAveragingClassifier(estimators, weighting="pseudo_bma+", random_state=0)
    model.fit(X, y)
    share = model.predict_proba(X)[:, 1]
    at = np.argmin(np.abs(share - (0.3 if value < 0.5 else 0.7)))
    predicted, probability = ("yes", share[at]) if value < 0.5 else ("no", 1.0 - share[at])
    found = explain(with_threshold(model, "yes", value), X[at])
    section = found["base_models"]
    assert found.prediction == predicted != model.predict(X[[at]])[0]
    assert section.summary.endswith(f"add up to the probability of {predicted}.")
    assert sum(row[4] for row in section.rows) == pytest.approx(probability)
