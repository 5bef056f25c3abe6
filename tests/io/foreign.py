"""Fitted models of every scikit-learn class that a model file may hold, to save and to damage."""

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn import model_selection
from sklearn.base import is_regressor
from sklearn.compose import ColumnTransformer, make_column_selector, make_column_transformer
from sklearn.datasets import make_classification
from sklearn.ensemble import (
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.feature_selection import SelectKBest
from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor, kernels
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.metrics import make_scorer, r2_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
from sklearn.utils import Bunch
from sklearn.utils._param_validation import make_constraint
from tests.io import helpers

from vicinal.io._types import _SKLEARN, _listed_class

X, Y = make_classification(
    60, 4, n_informative=3, n_redundant=0, n_classes=3, n_clusters_per_class=1, random_state=0
)
LABELS = np.array(["a", "b", "c"])[Y]
TARGET = X @ [1.0, -2.0, 0.5, 1.0]
THIN = sparse.csr_matrix(np.where(X > 0, X, 0.0))
WITH_MISSING = np.where(X > 1.2, np.nan, X)
TEXTS = np.array(["red tree", "green tree", "blue sea", "red sea"])[np.arange(60) % 4]
CODES = np.abs(np.rint(X)).astype(int)
BOTH = [("line", LinearRegression()), ("tree", DecisionTreeRegressor(max_depth=2))]
VOTES = [("line", LogisticRegression()), ("tree", DecisionTreeClassifier(max_depth=2))]

# Class: the arguments of each fitted instance; one without arguments for all others.
SETTINGS = {
    "AdaBoostClassifier": [{"n_estimators": 2}],
    "AdaBoostRegressor": [{"n_estimators": 2}],
    "BaggingClassifier": [{"n_estimators": 2, "max_features": 3}],
    "BaggingRegressor": [{"n_estimators": 2}],
    "BayesianGaussianMixture": [{"n_components": 2}],
    "CalibratedClassifierCV": [
        {"cv": 2},
        {"cv": 2, "method": "isotonic", "ensemble": False},
        {"cv": 2, "method": "temperature"},
    ],
    "ClassifierChain": [{"estimator": LogisticRegression()}],
    "DictVectorizer": [{"sparse": False}],
    "ElasticNetCV": [{"cv": 2, "alphas": 3}],
    "ExtraTreesClassifier": [{"n_estimators": 2, "max_depth": 3}],
    "ExtraTreesRegressor": [{"n_estimators": 2, "max_depth": 3}],
    "FeatureHasher": [{"n_features": 8, "input_type": "string"}],
    "FixedThresholdClassifier": [{"estimator": LogisticRegression()}],
    "GaussianMixture": [{"n_components": 2, "covariance_type": name} for name in ("full", "diag")],
    "GaussianRandomProjection": [{"n_components": 2}],
    "GenericUnivariateSelect": [{"mode": "k_best", "param": 2}],
    "GradientBoostingClassifier": [{"n_estimators": 2}],
    "GradientBoostingRegressor": [
        {"n_estimators": 2, "loss": "huber"},
        {"n_estimators": 2, "subsample": 0.5, "n_iter_no_change": 2},
    ],
    "GridSearchCV": [
        {"estimator": DecisionTreeRegressor(), "param_grid": {"max_depth": [1, 2]}, "cv": 2},
        {
            "estimator": Ridge(),
            "param_grid": [{"alpha": [1.0]}, {"solver": ["svd"]}],
            "cv": 2,
            "scoring": make_scorer(r2_score),
        },
    ],
    "HashingVectorizer": [{"n_features": 8}],
    "HistGradientBoostingClassifier": [
        {"max_iter": 2},
        {"max_iter": 2, "categorical_features": [True, False, False, False]},
    ],
    "HistGradientBoostingRegressor": [{"max_iter": 2, "early_stopping": True}],
    "IsolationForest": [{"n_estimators": 2, "max_features": 3}],
    "IterativeImputer": [{"max_iter": 2, "add_indicator": True}],
    "KBinsDiscretizer": [{"quantile_method": "averaged_inverted_cdf"}],
    "KMeans": [{"n_clusters": 2, "n_init": 1}],
    "KNeighborsClassifier": [
        {"algorithm": "brute", "metric": "manhattan"},
        {"algorithm": "kd_tree"},
        {"algorithm": "brute", "weights": "distance"},
    ],
    "KNeighborsRegressor": [{"algorithm": "ball_tree"}, {"algorithm": "brute"}],
    "KernelPCA": [{"n_components": 2, "kernel": "rbf", "fit_inverse_transform": True}],
    "LabelBinarizer": [{}],
    "LassoCV": [{"cv": 2, "alphas": 3}],
    "LinearDiscriminantAnalysis": [{}, {"solver": "eigen"}],
    "LocalOutlierFactor": [{"novelty": True, "n_neighbors": 5}],
    "LogisticRegressionCV": [{"Cs": 2, "cv": 2, "use_legacy_attributes": False, "l1_ratios": (0,)}],
    "MLPClassifier": [{"hidden_layer_sizes": (3,), "max_iter": 3, "early_stopping": True}],
    "MLPRegressor": [{"hidden_layer_sizes": (3,), "max_iter": 3, "solver": "sgd"}],
    "MiniBatchKMeans": [{"n_clusters": 2, "n_init": 1}],
    "MinCovDet": [{"random_state": 0}],
    "EllipticEnvelope": [{"random_state": 0}],
    "MultiOutputClassifier": [{"estimator": LogisticRegression()}],
    "MultiOutputRegressor": [{"estimator": Ridge()}],
    "NMF": [{"n_components": 2, "max_iter": 500}],
    "NearestNeighbors": [{"algorithm": name} for name in ("kd_tree", "brute")],
    "NeighborhoodComponentsAnalysis": [{"max_iter": 2}],
    "NuSVC": [{"nu": 0.2}],
    "Nystroem": [{"n_components": 5}],
    "OneHotEncoder": [{}, {"max_categories": 2, "handle_unknown": "infrequent_if_exist"}],
    "OneVsOneClassifier": [{"estimator": LogisticRegression()}],
    "OneVsRestClassifier": [{"estimator": LogisticRegression()}],
    "OrdinalEncoder": [{"max_categories": 2}],
    "OutputCodeClassifier": [{"estimator": LogisticRegression()}],
    "PCA": [{"n_components": 2}],
    "PLSSVD": [{"n_components": 1}],
    "Pipeline": [{"steps": [("scale", StandardScaler()), ("line", Ridge())]}],
    "FeatureUnion": [{"transformer_list": [("a", StandardScaler()), ("b", SelectKBest(k=2))]}],
    "ColumnTransformer": [
        {"transformers": [("a", StandardScaler(), [0, 1])], "remainder": "passthrough"}
    ],
    "TransformedTargetRegressor": [{}, {"func": np.cbrt, "inverse_func": np.exp}],
    "FrozenEstimator": [{"estimator": Ridge().fit(X, TARGET)}],
    "PolynomialCountSketch": [{"n_components": 5}],
    "PredefinedSplit": [{"test_fold": Y}],
    "QuantileTransformer": [{"n_quantiles": 10}],
    "RANSACRegressor": [{"random_state": 0}],
    "RBFSampler": [{"n_components": 5}],
    "RFE": [{"estimator": Ridge()}],
    "RFECV": [{"estimator": Ridge(), "cv": 2}],
    "RadiusNeighborsClassifier": [
        {"radius": 3.0, "algorithm": "brute", "metric": "manhattan", "outlier_label": "a"},
        {"radius": 3.0, "algorithm": "kd_tree", "outlier_label": "most_frequent"},
    ],
    "RadiusNeighborsRegressor": [{"radius": 3.0}],
    "RadiusNeighborsTransformer": [{"radius": 3.0}],
    "RandomForestClassifier": [
        {"n_estimators": 2, "max_depth": 3},
        {"n_estimators": 5, "max_depth": 2, "oob_score": True},
    ],
    "RandomForestRegressor": [{"n_estimators": 2, "max_depth": 3}],
    "RandomizedSearchCV": [
        {"estimator": Ridge(), "param_distributions": {"alpha": [1.0, 2.0]}, "n_iter": 2, "cv": 2}
    ],
    "RegressorChain": [{"estimator": Ridge()}],
    "RidgeCV": [{}, {"cv": 2}],
    "SGDClassifier": [{"loss": name} for name in ("hinge", "log_loss", "modified_huber")]
    + [{"average": True}],
    "SGDRegressor": [{}, {"loss": "huber", "average": True}],
    "SVC": [
        {},
        {"kernel": "linear", "decision_function_shape": "ovo"},
        {"kernel": "precomputed"},
    ],
    "SelectFromModel": [{"estimator": Ridge()}],
    "SequentialFeatureSelector": [{"estimator": Ridge(), "n_features_to_select": 1, "cv": 2}],
    "SimpleImputer": [{"add_indicator": True}],
    "SparseRandomProjection": [{"n_components": 2}],
    "StackingClassifier": [{"estimators": VOTES, "cv": 2}],
    "StackingRegressor": [{"estimators": BOTH, "cv": 2}],
    "TruncatedSVD": [{"n_components": 2}],
    "TunedThresholdClassifierCV": [{"estimator": LogisticRegression(), "cv": 2}],
    "TheilSenRegressor": [{"max_subpopulation": 20}],
    "VotingClassifier": [{"estimators": VOTES, "voting": "soft"}],
    "VotingRegressor": [{"estimators": BOTH}],
}
SPECIAL = {  # class: what it is fitted to
    "TfidfTransformer": (THIN, None),
    "CategoricalNB": (CODES, LABELS),
    "MultinomialNB": (CODES, LABELS),
    "ComplementNB": (CODES, LABELS),
    "BernoulliNB": (X, LABELS),
    "CountVectorizer": (TEXTS, None),
    "TfidfVectorizer": (TEXTS, None),
    "HashingVectorizer": (TEXTS, None),
    "FeatureHasher": ([text.split() for text in TEXTS], None),
    "DictVectorizer": ([{"a": 1.0, "b": float(y)} for y in Y], None),
    "LabelEncoder": (LABELS,),
    "LabelBinarizer": (LABELS,),
    "MultiLabelBinarizer": ([[y] for y in Y],),
    "IsotonicRegression": (X[:, 0], TARGET),
    "ClassifierChain": (X, (X > 0).astype(int)),
    "MultiOutputClassifier": (X, (X > 0).astype(int)),
    "MultiOutputRegressor": (X, X @ X.T[:, :2]),
    "RegressorChain": (X, X @ X.T[:, :2]),
    "MultiTaskElasticNet": (X, X @ X.T[:, :2]),
    "MultiTaskLasso": (X, X @ X.T[:, :2]),
    "CCA": (X, X[:, :2] ** 2),
    "PLSCanonical": (X, X[:, :2] ** 2),
    "PLSSVD": (X, X[:, :2] ** 2),
    "NMF": (np.abs(X), None),
    "AdditiveChi2Sampler": (np.abs(X), None),
    "SkewedChi2Sampler": (np.abs(X), None),
    "OneHotEncoder": (LABELS[:, None], None),
    "OrdinalEncoder": (LABELS[:, None], None),
    "TargetEncoder": (CODES, TARGET),
    "SimpleImputer": (WITH_MISSING, None),
    "IterativeImputer": (WITH_MISSING, None),
    "KNNImputer": (WITH_MISSING, None),
    "MissingIndicator": (WITH_MISSING, None),
    "GammaRegressor": (X, np.exp(TARGET / 5)),
    "PoissonRegressor": (X, np.exp(TARGET / 5)),
    "FixedThresholdClassifier": (X, Y > 0),
    "MLPClassifier": (X, Y),  # strings with early stopping fail in scikit-learn 1.6.0
    "TunedThresholdClassifierCV": (X, Y > 0),
    "KernelCenterer": (X @ X.T, None),
    "FunctionTransformer": (X, None),
    "GaussianMixture": (X, None),
}

OTHERS = (
    "kernels",
    "binary",
    "frame",
    "constant",
    "logs",
    "union",
    "columns",
    "quantile",
    "rough",
    "splitters",
    "bunch",
    "generator",
)


def instances():
    """Return fitted models by name."""
    found = {}
    for package, names in _SKLEARN.items():
        for name in names.split():
            kind = _listed_class(f"sklearn.{package.strip()}.{name}")
            if not hasattr(kind, "fit") or name.startswith("_"):
                continue
            for i, setting in enumerate(SETTINGS.get(name, [{}])):
                found[f"{name}{i}"] = fit(kind(**known(kind, setting)))
    return {**found, **others()}


def known(kind, setting):
    """Return the arguments that the installed version of scikit-learn knows."""
    allowed = getattr(kind, "_parameter_constraints", {name: [object] for name in setting})
    if "base_estimator" in allowed and "estimator" not in allowed:  # chains before 1.7
        return {"base_estimator": setting["estimator"]}
    return {
        name: value
        for name, value in setting.items()
        if any(make_constraint(c).is_satisfied_by(value) for c in allowed.get(name, ()))
    }


def fit(model):
    name = type(model).__name__
    if "random_state" in model.get_params(deep=False):
        model.random_state = 0
    rows, *target = SPECIAL.get(name, (X, TARGET if is_regressor(model) else LABELS))
    if name.endswith(("RFE", "RFECV", "SearchCV", "SelectFromModel", "FeatureSelector")):
        target = [TARGET]
    if getattr(model, "kernel", None) == "precomputed":
        rows = X @ X.T
    return model.fit(rows, *target)


def rows(name):
    """Return the rows that a model of `instances` was fitted to, or the common rows of tests."""
    kind = name.rstrip("0123456789")
    if kind in SPECIAL:
        return SPECIAL[kind][0]
    known = {"frame": pd.DataFrame(X, columns=list("abcd")), "SVC2": X @ X.T}
    is_listed = any(kind in names.split() for names in _SKLEARN.values())
    if name.startswith("sparse "):
        return THIN
    return known.get(name, X if is_listed or " " in name or name in OTHERS else helpers.X)


def others():
    """Return models of parts that the instances above do not hold."""
    kernel = (
        kernels.ConstantKernel() * kernels.RBF() + kernels.WhiteKernel() ** 2
        + kernels.Matern() * kernels.RationalQuadratic() + kernels.ExpSineSquared()
        + kernels.PairwiseKernel() + kernels.DotProduct()
    )  # fmt: skip
    frame = pd.DataFrame(X, columns=list("abcd"))
    by_name = make_column_transformer(
        (OneHotEncoder(), make_column_selector(pattern="a")), remainder=StandardScaler()
    )
    two = np.c_[Y > 0, Y > 1] * 1
    folds = [
        model_selection.__dict__[name]() for name in _SKLEARN["model_selection"].split()
        if name.endswith(("Fold", "Out", "Split")) and name != "PredefinedSplit"
    ]  # fmt: skip
    return {
        "kernels": GaussianProcessRegressor(kernel, alpha=99.0, optimizer=None).fit(X, TARGET),
        "binary": GaussianProcessClassifier().fit(X, Y > 0),
        "frame": by_name.fit(frame),
        "constant": OneVsRestClassifier(LogisticRegression()).fit(X, np.c_[Y > 0, Y > 9] * 1),
        "logs": make_pipeline(FunctionTransformer(np.cbrt), Ridge()).fit(X, TARGET),
        "union": FeatureUnion([("a", "passthrough"), ("b", StandardScaler())]).fit(X),
        "columns": ColumnTransformer([("a", "drop", [0]), ("b", "passthrough", [1])]).fit(X),
        "two boosted": HistGradientBoostingClassifier(max_iter=2).fit(X, Y > 0),
        "two trees": DecisionTreeClassifier(max_depth=2).fit(X, two),
        "two forests": RandomForestClassifier(2, max_depth=2).fit(X, two),
        "two neighbors": KNeighborsClassifier(algorithm="brute").fit(X, two),
        "sparse neighbors": KNeighborsRegressor().fit(THIN, TARGET),
        "sparse machine": SVC().fit(THIN, LABELS),
        "likely machine": SVC(probability=True, random_state=0).fit(X, LABELS),
        "sparse line": LogisticRegression().fit(X, LABELS).sparsify(),
        "quantile": GradientBoostingRegressor(loss="quantile", n_estimators=2).fit(X, TARGET),
        "rough": RandomForestRegressor(5, max_depth=2, oob_score=True).fit(X, TARGET),
        "splitters": [*folds, model_selection.PredefinedSplit(Y)],
        "bunch": Bunch(a=X, b=kernels.CompoundKernel([kernels.RBF()])),
        "generator": np.random.default_rng(0),
    }
