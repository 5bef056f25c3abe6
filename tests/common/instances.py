"""Small, quick instances of every estimator for the common checks.

A class that is not listed is built with its defaults. ``DRAWS`` names the estimators whose fit
draws folds, starts, bootstrap rows or epochs: for them invariances under a change of the training
rows hold in the statistical sense only, and exactly under a fixed seed for unchanged rows.
"""

from inspect import signature

from tests.common.discovery import public_estimators

PARAMETERS: dict[str, list[dict]] = {
    # class name: one dictionary of constructor arguments per instance
    # The checks bring fewer rows than a polynomial in their columns has coefficients.
    "LoessRegressor": [{"degree": 0, "span": 0.2}],
    "WeightedLDA": [{}, {"shrinkage": "auto"}],
    "WhiteningTransformer": [{}, {"method": "zca"}, {"method": "pca"}],
}

DRAWS: dict[str, str] = {
    # class name: what it draws
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
