"""Parameters that hold an estimator: a class handed over by mistake is named before any work."""

from inspect import signature

import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression, Ridge

from tests.common.discovery import public_estimators
from vicinal.auto import AutoClassifier

INNER = ("estimator", "region_estimator", "fusion_estimator", "reject_estimator")


def parameters():
    for name, estimator in sorted(public_estimators().items()):
        for parameter in INNER:
            if parameter in signature(estimator).parameters:
                yield pytest.param(estimator, parameter, id=f"{name} {parameter}")


@pytest.mark.parametrize(("estimator", "parameter"), parameters())
def test_a_class_is_refused(estimator, parameter):
    inner = Ridge if estimator.__name__.endswith("Regressor") else LogisticRegression
    given = {"estimator": inner()} if "estimator" in signature(estimator).parameters else {}
    X, y = load_breast_cancer(return_X_y=True)
    model = estimator(**{**given, parameter: inner})
    with pytest.raises(ValueError, match=f"'{parameter}' parameter.*instance, not a class.*Got"):
        model.fit(X, y)


def test_a_class_among_members_is_refused():
    X, y = load_breast_cancer(return_X_y=True)
    with pytest.raises(ValueError, match="LogisticRegression"):
        AutoClassifier([("logistic", LogisticRegression)]).fit(X, y)
