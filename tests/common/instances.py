"""Small, quick instances of every estimator for the common checks.

A class that is not listed is built with its defaults. ``DRAWS`` names the estimators whose fit
draws folds, starts, bootstrap rows or epochs: for them invariances under a change of the training
rows hold in the statistical sense only, and exactly under a fixed seed for unchanged rows.
"""

from collections.abc import Callable
from inspect import signature

from tests.common.discovery import public_estimators

PARAMETERS: dict[str, list[dict]] = {
    # class name: one dictionary of constructor arguments per instance
    "SpacePartitioningClassifier": [
        {"n_regions": 2, "n_init": 2, "max_iter": 4},
        {"region_estimator": "perceptron", "n_regions": 2, "n_init": 3, "max_iter": 5},
        {"region_estimator": "lda", "n_regions": 2, "n_init": 2, "max_iter": 5, "combine": "best"},
        {"gating": "soft", "n_regions": 2, "n_init": 2, "max_iter": 30},
    ],
    "SpacePartitioningRegressor": [{"n_regions": 2, "n_init": 2, "max_iter": 5}],
    "SurrogatePartitionClassifier": [{"n_init": 2}],
    "WeightedLDA": [{}, {"shrinkage": "auto"}],
    "WhiteningTransformer": [{}, {"method": "zca"}, {"method": "pca"}],
}

DRAWS: dict[str, str | Callable] = {
    # class name: what it draws, or a function of the instance that says it (None for nothing)
    "AveragedPerceptron": "the order of rows in each epoch",
    # Starts are drawn as directions in feature space, so only the perceptrons' orders remain.
    "SpacePartitioningClassifier": lambda estimator: (
        "the perceptrons' epochs"
        if (estimator.region_estimator, estimator.gating) == ("perceptron", "hard")
        else None
    ),
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


def draws(estimator):
    """What ``estimator`` draws from its training rows, ``None`` for nothing."""
    entry = DRAWS.get(type(estimator).__name__)
    return entry(estimator) if callable(entry) else entry


def is_deterministic(estimator):
    return draws(estimator) is None
