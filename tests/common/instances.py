"""Small, quick instances of every estimator for the common checks.

A class that is not listed is built with its defaults. ``DRAWS`` names the estimators whose fit
draws folds, starts, bootstrap rows or epochs: for them invariances under a change of the training
rows hold in the statistical sense only, and exactly under a fixed seed for unchanged rows.
"""

from inspect import signature

from sklearn.linear_model import Ridge, RidgeClassifier

from tests.common.discovery import public_estimators

PARAMETERS: dict[str, list[dict]] = {
    # class name: one dictionary of constructor arguments per instance
    "DivideConquerSVC": [
        {"C": 100.0, "n_clusters": 3, "probability": True},
        {"C": 100.0, "n_clusters": 3, "prediction": "exact"},
        {"C": 100.0, "n_clusters": 3, "clustering": "kernel"},
    ],
    "FeatureSpaceDecomposition": [
        # The ridge keeps the eigenvectors of a dozen rows apart by more than rounding.
        {"method": method, "n_repeats": 1, "ridge": 0.1}
        for method in ("random", "principal", "discriminant", "cholesky", "approximate")
    ],
    "SubspaceFusionClassifier": [
        {
            "decompositions": ["principal", "discriminant"],
            "estimator": RidgeClassifier(),
            "n_subspaces": 2,
            "cv": 2,
        },
    ],
    "SubspaceFusionRegressor": [
        {"decompositions": ["cholesky"], "estimator": Ridge(), "n_subspaces": 2, "cv": 2}
    ],
    "TruncatedRBFClassifier": [{}, {"loss": "logistic"}],
    "WeightedLDA": [{}, {"shrinkage": "auto"}],
    "WhiteningTransformer": [{}, {"method": "zca"}, {"method": "pca"}],
}

DRAWS: dict[str, str] = {
    # class name: what it draws
    "AveragedPerceptron": "the order of rows in each epoch",
    "SubspaceFusionClassifier": "folds",
    "SubspaceFusionRegressor": "folds",
    "DivideConquerSVC": "starts of the clustering and folds",
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
