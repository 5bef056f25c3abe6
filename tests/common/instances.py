"""Small, quick instances of every estimator for the common checks.

A class that is not listed is built with its defaults. ``DRAWS`` names the estimators whose fit
draws folds, starts, bootstrap rows or epochs: for them invariances under a change of the training
rows hold in the statistical sense only, and exactly under a fixed seed for unchanged rows.
"""

from collections.abc import Callable
from inspect import signature

from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge, RidgeClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from tests.common.discovery import public_estimators

_SMALL_NETS = {
    "n_estimators": 2,
    "n_components": 8,
    "n_hidden": 16,
    "n_iter_no_change": 2,
    "tol": 1e-2,
}

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
    "SpacePartitioningClassifier": [
        {"n_init": 2, "max_iter": 2},
        # A strong penalty: under a weak one equal problems end within the solver's tolerance of one
        # another, and the checks of weights ask for rounding.
        {
            "region_estimator": LogisticRegression(C=0.1, tol=1e-6, max_iter=1000),
            "reject_estimator": LogisticRegression(C=0.1, tol=1e-6, max_iter=1000),
            "n_regions": 2,
            "n_init": 2,
            "max_iter": 4,
        },
        {"region_estimator": "perceptron", "n_regions": 2, "n_init": 3, "max_iter": 5},
        {"region_estimator": "lda", "n_regions": 2, "n_init": 2, "max_iter": 5, "combine": "best"},
        {"gating": "soft", "n_regions": 2, "n_init": 2, "max_iter": 30},
    ],
    "SpacePartitioningRegressor": [
        {"n_init": 2, "max_iter": 3},
        {"n_regions": 2, "n_init": 2, "max_iter": 5},
    ],
    "SurrogatePartitionClassifier": [{"n_init": 2}],
    "ConformalClassifier": [{"estimator": GaussianNB()}],
    "ConformalRegressor": [{"estimator": Ridge()}],
    "LocalDiscriminantTransformer": [{"n_regions": 2, "n_init": 1}],
    "LocallyAdaptiveClassifier": [{"n_regions": 2, "tol": 1e-3}],
    "ResponsibilityMixture": [{"n_components": 2, "n_init": 1}],
    "DivideConquerSVC": [
        {"C": 100.0, "n_clusters": 3, "probability": True},
        {"C": 100.0, "n_clusters": 3, "prediction": "exact"},
        {"C": 100.0, "n_clusters": 3, "clustering": "kernel"},
    ],
    "FeatureSpaceDecomposition": [
        # The ridge keeps the eigenvectors of a dozen rows apart by more than rounding.
        {"method": method, "n_repeats": 1, "shrinkage": 0.1}
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
    "DecisionSurface": [{"estimator": RidgeClassifier()}],
    "SurfaceCalibratedClassifier": [
        {"estimator": RidgeClassifier(), "cv": 2},
        {
            "estimator": DecisionTreeClassifier(max_depth=3, random_state=0),
            "cv": 4,
            "multi_class": "ovo",
        },
    ],
    "TableEncoder": [{}, {"form": "tree"}],
    "TruncatedRBFClassifier": [{}, {"loss": "log_loss"}],
    "LocalClassifier": [{}, {"n_neighbors": 5, "alpha": 1.0, "solver": "logistic"}],
    "AnchoredLocalClassifier": [{}, {"anchors": 4, "n_neighbors": 5, "alpha": 1.0}],
    "AnchoredLocalRegressor": [{}, {"anchors": 4, "n_neighbors": 5, "alpha": 1.0}],
    "GradientMetric": [{"n_rounds": 1}],
    "GradientKernelClassifier": [{"n_rounds": 1}, {"kernel": "laplace", "n_rounds": 1}],
    "NeuralNeighborsClassifier": [_SMALL_NETS],
    "NeuralNeighborsRegressor": [_SMALL_NETS],
    "GradientKernelRegressor": [{}, {"kernel": "laplace", "n_rounds": 1}],
    # The checks bring fewer rows than a polynomial in their columns has coefficients.
    "LoessRegressor": [{"degree": 0, "span": 0.2}],
    "WeightedLDA": [{}, {"shrinkage": "auto"}],
    "WhiteningTransformer": [{}, {"method": "zca"}, {"method": "pca"}],
}


DRAWS: dict[str, str | Callable] = {
    # class name: what it draws, or a function of the instance that says it (None for nothing)
    "AutoClassifier": "folds and forests",
    "AutoRegressor": "folds and forests",
    "BayesianModelAveragingClassifier": "folds",
    "BayesianModelAveragingRegressor": "folds",
    "BootstrapEnsembleClassifier": "bootstrap rows",
    "BootstrapEnsembleRegressor": "bootstrap rows",
    "FunctionalGradientBoostingClassifier": "the order of features that breaks ties in its trees",
    "FunctionalGradientBoostingRegressor": "the order of features that breaks ties in its trees",
    "PrunedTreeClassifier": "folds",
    "PrunedTreeRegressor": "folds",
    "RealAdaBoostClassifier": "the order of features that breaks ties in its trees",
    "NeuralNeighborsClassifier": "nets, rows held out and batches",
    "NeuralNeighborsRegressor": "nets, rows held out and batches",
    "AnchoredLocalClassifier": "the centres of its anchors and folds",
    "AnchoredLocalRegressor": "the centres of its anchors and folds",
    "LocalDiscriminantTransformer": "the starts of its mixture",
    "ResponsibilityMixture": "the starts of EM",
    "AveragedPerceptron": "the order of rows in each epoch",
    # Starts are drawn as directions in feature space, so only these remain.
    "SpacePartitioningClassifier": lambda estimator: (
        "the rows held out to choose the number of regions"
        if estimator.n_regions == "auto"
        else "the perceptrons' epochs"
        if (estimator.region_estimator, estimator.gating) == ("perceptron", "hard")
        else None
    ),
    "SpacePartitioningRegressor": lambda estimator: (
        "the rows held out to choose the number of regions"
        if estimator.n_regions == "auto"
        else None
    ),
    "SubspaceFusionClassifier": "folds",
    "SubspaceFusionRegressor": "folds",
    "DivideConquerSVC": "starts of the clustering and folds",
    "SurfaceCalibratedClassifier": "folds",
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
