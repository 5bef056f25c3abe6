"""Small, quick instances of every estimator for the common checks.

A class that is not listed is built with its defaults. ``DRAWS`` names the estimators whose fit
draws folds, starts, bootstrap rows or epochs: for them invariances under a change of the training
rows hold in the statistical sense only, and exactly under a fixed seed for unchanged rows.
"""

from inspect import signature

from sklearn.linear_model import LinearRegression, Ridge
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from tests.common.discovery import public_estimators

PARAMETERS: dict[str, list[dict]] = {
    # class name: one dictionary of constructor arguments per instance
    "BayesianModelAveragingClassifier": [
        {"estimators": [("bayes", GaussianNB()), ("tree", DecisionTreeClassifier(max_depth=2))]}
    ],
    "BayesianModelAveragingRegressor": [
        {"estimators": [("ridge", Ridge()), ("slope", LinearRegression())], "cv": "loo"},
        {
            "estimators": [
                ("ridge", Ridge()),
                ("tree", DecisionTreeRegressor(max_depth=2, random_state=0)),
            ]
        },
    ],
    "BootstrapEnsembleClassifier": [{"n_estimators": 20}],
    "BootstrapEnsembleRegressor": [{"n_estimators": 20}],
    "FunctionalGradientBoostingClassifier": [{"n_estimators": 10}],
    "FunctionalGradientBoostingRegressor": [{"n_estimators": 10}],
    "PrunedTreeClassifier": [{"cv": 3}],
    "PrunedTreeRegressor": [{"cv": 3}],
    "RealAdaBoostClassifier": [{"n_estimators": 10}],
    "WeightedLDA": [{}, {"shrinkage": "auto"}],
    "WhiteningTransformer": [{}, {"method": "zca"}, {"method": "pca"}],
}

DRAWS: dict[str, str] = {
    # class name: what it draws
    "BayesianModelAveragingClassifier": "folds",
    "BayesianModelAveragingRegressor": "folds",
    "BootstrapEnsembleClassifier": "bootstrap rows",
    "BootstrapEnsembleRegressor": "bootstrap rows",
    "FunctionalGradientBoostingClassifier": "the order of features that breaks ties in its trees",
    "FunctionalGradientBoostingRegressor": "the order of features that breaks ties in its trees",
    "PrunedTreeClassifier": "folds",
    "PrunedTreeRegressor": "folds",
    "RealAdaBoostClassifier": "the order of features that breaks ties in its trees",
    "AveragedPerceptron": "the order of rows in each epoch",
}


def accepts(cls, parameter):
    return parameter in signature(cls.__init__).parameters


def make(cls, **overrides):
    """One test instance of ``cls``, seeded."""
    return instances_of(cls, **overrides)[0]


def instances_of(cls, **overrides):
    built = []
    for parameters in PARAMETERS.get(cls.__name__, [{}]):
        arguments = {**parameters, **overrides}
        if accepts(cls, "random_state"):
            arguments.setdefault("random_state", 0)
        built.append(cls(**arguments))
    return built


def all_instances():
    return [estimator for cls in public_estimators().values() for estimator in instances_of(cls)]


def is_deterministic(estimator):
    return type(estimator).__name__ not in DRAWS
