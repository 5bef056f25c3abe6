"""Instances of every estimator for the common checks.

scikit-learn's checks and our contracts see a quick instance of every class (its default, or the
``QUICK`` form where the default is slow) and ``OTHER_SETTINGS``; `make test-statistical` puts slow
defaults through all of them. ``DRAWS`` names the estimators whose fit draws folds, starts,
bootstrap rows or epochs: for them invariances under a change of the training rows hold in the
statistical sense only, and exactly under a fixed seed for unchanged rows.
"""

from collections.abc import Callable
from inspect import signature

from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge, RidgeClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from tests.common.discovery import public_estimators

REQUIRED: dict[str, dict] = {
    # class name: the arguments that have no default
    "BayesianModelAveragingClassifier": {
        "estimators": [("bayes", GaussianNB()), ("tree", DecisionTreeClassifier(max_depth=2))]
    },
    "BayesianModelAveragingRegressor": {
        "estimators": [
            ("ridge", Ridge()),
            ("tree", DecisionTreeRegressor(max_depth=2, random_state=0)),
        ]
    },
    "ConformalClassifier": {"estimator": GaussianNB()},
    "ConformalRegressor": {"estimator": Ridge()},
    "DecisionSurface": {"estimator": RidgeClassifier()},
    "SurfaceCalibratedClassifier": {"estimator": RidgeClassifier()},
}

_SMALL_NETS = {
    "n_estimators": 1,
    "n_components": 8,
    "n_hidden": 8,
    "max_iter": 20,
    "n_iter_no_change": 2,
    "tol": 1e-2,
}
_FEW_ROUNDS = {"kernel": "laplace", "n_rounds": 1}
_FEW_ANCHORS = {"anchors": 4, "n_neighbors": 5, "alpha": 1.0}
_ONE_FAMILY = {"families": ["linear"], "cv": 3}
_SMALL_TREES = {"n_estimators": 20, "depth": 3}

QUICK: dict[str, dict] = {
    # class name: arguments that make a slow default quick
    "AnchoredLocalClassifier": _FEW_ANCHORS,
    "AnchoredLocalRegressor": _FEW_ANCHORS,
    "AutoClassifier": _ONE_FAMILY,
    "AutoRegressor": _ONE_FAMILY,
    "BootstrapEnsembleClassifier": {"n_estimators": 12},
    "BootstrapEnsembleRegressor": {"n_estimators": 12},
    "ConformalClassifier": {"cv": 3},
    "ConformalRegressor": {"cv": 3},
    "FunctionalGradientBoostingClassifier": {"n_estimators": 5, "subsample": 1.0},
    "FunctionalGradientBoostingRegressor": {"n_estimators": 5},
    "GradientKernelClassifier": _FEW_ROUNDS,
    "GradientKernelRegressor": _FEW_ROUNDS,
    "LocalDiscriminantTransformer": {"n_regions": 2, "n_init": 1},
    "LocallyAdaptiveClassifier": {"n_regions": 2, "tol": 1e-2, "n_splits": 2},
    "NeuralNeighborsClassifier": _SMALL_NETS,
    "NeuralNeighborsRegressor": _SMALL_NETS,
    "ObliviousBoostingClassifier": _SMALL_TREES,
    "ObliviousBoostingRegressor": _SMALL_TREES,
    "PretrainedNeighborsClassifier": {"n_passes": 1},
    "PretrainedNeighborsRegressor": {"n_passes": 1},
    "PrunedTreeClassifier": {"cv": 3},
    "PrunedTreeRegressor": {"cv": 3},
    "RealAdaBoostClassifier": {"n_estimators": 5},
    "ResponsibilityMixture": {"n_components": 2, "n_init": 1},
    "SpacePartitioningClassifier": {"n_init": 1, "max_iter": 2},
    "SpacePartitioningRegressor": {"n_init": 1, "max_iter": 2},
    "SubspaceFusionClassifier": {
        "decompositions": ["discriminant"],
        "estimator": RidgeClassifier(),
        "n_subspaces": 2,
        "cv": 2,
    },
    "SubspaceFusionRegressor": {
        "decompositions": ["cholesky"],
        "estimator": Ridge(),
        "n_subspaces": 2,
        "cv": 2,
    },
    "SurfaceCalibratedClassifier": {"cv": 2},
    "SurrogatePartitionClassifier": {"n_init": 1},
}

OTHER_SETTINGS: dict[str, list[dict]] = {
    # class name: one dictionary of arguments per further instance
    "BayesianModelAveragingRegressor": [
        {"estimators": [("ridge", Ridge()), ("slope", LinearRegression())], "cv": "loo"}
    ],
    "DivideConquerSVC": [
        {"C": 100.0, "n_clusters": 3, "prediction": "exact"},
    ],
    "FeatureSpaceDecomposition": [
        # The ridge keeps the eigenvectors of a dozen rows apart by more than rounding.
        {"method": method, "n_repeats": 1, "shrinkage": 0.1}
        for method in ("random", "principal", "discriminant", "cholesky", "approximate")
    ],
    "LocalClassifier": [{"n_neighbors": 5, "alpha": 1.0, "loss": "log_loss"}],
    "LoessRegressor": [{"degree": 0, "span": 0.2}],
    "SpacePartitioningClassifier": [
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
    "SpacePartitioningRegressor": [{"n_regions": 2, "n_init": 2, "max_iter": 5}],
    "SurfaceCalibratedClassifier": [
        {
            "estimator": DecisionTreeClassifier(max_depth=3, random_state=0),
            "cv": 2,
        },
    ],
    "TableEncoder": [{"encoding": "tree"}],
    "TruncatedRBFClassifier": [{"solver": "dual"}],
    "WeightedLDA": [{"shrinkage": "auto"}],
    "WhiteningTransformer": [{"method": "zca"}, {"method": "pca"}],
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
    "ObliviousBoostingClassifier": "folds and weights of rows",
    "ObliviousBoostingRegressor": "folds and weights of rows",
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
    "DivideConquerSVC": "starts of the clustering",
    "SurfaceCalibratedClassifier": "folds",
}


def accepts(cls, parameter):
    return parameter in signature(cls.__init__).parameters


def _seeded(cls, **arguments):
    """An instance of ``cls`` with a seed and the arguments it cannot do without."""
    seed = {"random_state": 0} if accepts(cls, "random_state") else {}
    return cls(**{**seed, **REQUIRED.get(cls.__name__, {}), **arguments})


def default(cls):
    """The instance of ``cls`` that a user gets without a word, seeded."""
    return _seeded(cls)


def make(cls, **overrides):
    """One small, quick instance of ``cls``, seeded."""
    return _seeded(cls, **{**QUICK.get(cls.__name__, {}), **overrides})


def other_settings(cls):
    return [_seeded(cls, **arguments) for arguments in OTHER_SETTINGS.get(cls.__name__, [])]


def all_instances():
    """A quick instance of every class, and those of other settings."""
    classes = public_estimators().values()
    return [estimator for cls in classes for estimator in (make(cls), *other_settings(cls))]


def draws(estimator):
    """What ``estimator`` draws from its training rows, ``None`` for nothing."""
    entry = DRAWS.get(type(estimator).__name__)
    return entry(estimator) if callable(entry) else entry


def is_deterministic(estimator):
    return draws(estimator) is None
