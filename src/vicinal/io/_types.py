"""Lists of the classes and functions that a model file may name.

Objects are built without their constructors, so a class may be listed if its methods only compute,
for any attributes. Functions may be listed if they are pure.
"""

import functools
from collections.abc import Iterable
from importlib import import_module
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

import vicinal
from vicinal._base import saved_name, saved_part
from vicinal.io._errors import ModelFileError
from vicinal.io._foreign import CONVERSIONS

# Subpackages of models: the estimators in their `__all__`, and the parts that they declare.
_FAMILIES = set(
    "auto ensemble linear local metric neighbors partition pretrained subspace surface table "
    "uncertainty".split()
).intersection(vicinal.__all__)
# Private subpackages, imported by the families that use them.
_PRIVATE = {"_conformal", "_kernels"}

_SKLEARN = {
    "calibration": "CalibratedClassifierCV",
    "cluster": "KMeans MiniBatchKMeans",
    "compose": "ColumnTransformer TransformedTargetRegressor make_column_selector",
    "covariance": "EllipticEnvelope EmpiricalCovariance GraphicalLasso LedoitWolf MinCovDet OAS "
    "ShrunkCovariance",
    "cross_decomposition": "CCA PLSCanonical PLSRegression PLSSVD",
    "decomposition": "FactorAnalysis FastICA IncrementalPCA KernelPCA NMF PCA TruncatedSVD",
    "discriminant_analysis": "LinearDiscriminantAnalysis QuadraticDiscriminantAnalysis",
    "dummy": "DummyClassifier DummyRegressor",
    "ensemble": "AdaBoostClassifier AdaBoostRegressor BaggingClassifier BaggingRegressor "
    "ExtraTreesClassifier ExtraTreesRegressor GradientBoostingClassifier "
    "GradientBoostingRegressor HistGradientBoostingClassifier HistGradientBoostingRegressor "
    "IsolationForest RandomForestClassifier RandomForestRegressor StackingClassifier "
    "StackingRegressor VotingClassifier VotingRegressor",
    "feature_extraction": "DictVectorizer FeatureHasher",
    "feature_extraction.text": "CountVectorizer HashingVectorizer TfidfTransformer TfidfVectorizer",
    "feature_selection": "GenericUnivariateSelect RFE RFECV SelectFdr SelectFpr SelectFromModel "
    "SelectFwe SelectKBest SelectPercentile SequentialFeatureSelector VarianceThreshold",
    "frozen": "FrozenEstimator",
    "gaussian_process": "GaussianProcessClassifier GaussianProcessRegressor",
    "gaussian_process.kernels": "CompoundKernel ConstantKernel DotProduct ExpSineSquared "
    "Exponentiation Hyperparameter Matern PairwiseKernel Product RBF RationalQuadratic Sum "
    "WhiteKernel",
    "impute": "IterativeImputer KNNImputer MissingIndicator SimpleImputer",
    "isotonic": "IsotonicRegression",
    "kernel_approximation": "AdditiveChi2Sampler Nystroem PolynomialCountSketch RBFSampler "
    "SkewedChi2Sampler",
    "kernel_ridge": "KernelRidge",
    "linear_model": "ARDRegression BayesianRidge ElasticNet ElasticNetCV GammaRegressor "
    "HuberRegressor Lars LarsCV Lasso LassoCV LassoLars LassoLarsCV LassoLarsIC LinearRegression "
    "LogisticRegression LogisticRegressionCV MultiTaskElasticNet MultiTaskLasso "
    "OrthogonalMatchingPursuit PassiveAggressiveClassifier PassiveAggressiveRegressor Perceptron "
    "PoissonRegressor QuantileRegressor RANSACRegressor Ridge RidgeCV RidgeClassifier "
    "RidgeClassifierCV SGDClassifier SGDOneClassSVM SGDRegressor TheilSenRegressor "
    "TweedieRegressor",
    "mixture": "BayesianGaussianMixture GaussianMixture",
    "model_selection": "FixedThresholdClassifier GridSearchCV GroupKFold GroupShuffleSplit KFold "
    "LeaveOneGroupOut LeaveOneOut PredefinedSplit RandomizedSearchCV ShuffleSplit "
    "StratifiedGroupKFold StratifiedKFold "
    "StratifiedShuffleSplit TimeSeriesSplit TunedThresholdClassifierCV",
    "multiclass": "OneVsOneClassifier OneVsRestClassifier OutputCodeClassifier",
    "multioutput": "ClassifierChain MultiOutputClassifier MultiOutputRegressor RegressorChain",
    "naive_bayes": "BernoulliNB CategoricalNB ComplementNB GaussianNB MultinomialNB",
    "neighbors": "KNeighborsClassifier KNeighborsRegressor KNeighborsTransformer "
    "LocalOutlierFactor NearestCentroid NearestNeighbors NeighborhoodComponentsAnalysis "
    "RadiusNeighborsClassifier RadiusNeighborsRegressor RadiusNeighborsTransformer",
    "neural_network": "MLPClassifier MLPRegressor",
    "pipeline": "FeatureUnion Pipeline",
    "preprocessing": "Binarizer FunctionTransformer KBinsDiscretizer KernelCenterer "
    "LabelBinarizer LabelEncoder MaxAbsScaler MinMaxScaler MultiLabelBinarizer Normalizer "
    "OneHotEncoder OrdinalEncoder "
    "PolynomialFeatures PowerTransformer QuantileTransformer RobustScaler SplineTransformer "
    "StandardScaler TargetEncoder",
    "random_projection": "GaussianRandomProjection SparseRandomProjection",
    "svm": "LinearSVC LinearSVR NuSVC NuSVR OneClassSVM SVC SVR",
    "tree": "DecisionTreeClassifier DecisionTreeRegressor ExtraTreeClassifier ExtraTreeRegressor",
    "utils": "Bunch",
    # Their private parts.
    "calibration ": "_CalibratedClassifier _SigmoidCalibration _TemperatureScaling",
    "compose._column_transformer": "_RemainderColsList",
    "ensemble._hist_gradient_boosting.binning": "_BinMapper",
    "impute._iterative": "_ImputerTriplet",
    "gaussian_process._gpc": "_BinaryGaussianProcessClassifierLaplace",
    "metrics._scorer": "_CurveScorer _PassthroughScorer _Scorer",
    "multiclass ": "_ConstantPredictor",
    "neural_network._stochastic_optimizers": "AdamOptimizer SGDOptimizer",
    "utils._metadata_requests": "MetadataRequest MethodMetadataRequest",
}
_SKLEARN_CLASSES = {
    f"sklearn.{package.strip()}.{name}"
    for package, names in _SKLEARN.items()
    for name in names.split()
}

_FUNCTIONS = {
    "numpy": "abs absolute arcsinh arctan cbrt ceil cos deg2rad exp exp2 expm1 fabs floor log "
    "log10 log1p log2 negative positive rad2deg reciprocal rint sign sin sinh sqrt square tan tanh",
    "scipy.special": "expit log1p logit expm1",
    "sklearn.feature_selection": "chi2 f_classif f_regression mutual_info_classif "
    "mutual_info_regression r_regression",
    "sklearn.metrics": "accuracy_score average_precision_score balanced_accuracy_score "
    "brier_score_loss d2_absolute_error_score explained_variance_score f1_score log_loss "
    "matthews_corrcoef max_error mean_absolute_error mean_absolute_percentage_error "
    "mean_gamma_deviance mean_pinball_loss mean_poisson_deviance mean_squared_error "
    "mean_squared_log_error median_absolute_error precision_score r2_score recall_score "
    "roc_auc_score root_mean_squared_error top_k_accuracy_score",
}

# Types that are values, as in OneHotEncoder(dtype=numpy.float64).
VALUE_TYPES: dict[str, type] = {
    **{kind.__name__: kind for kind in (bool, float, int, object, str)},
    **{
        f"numpy.{kind.__name__}": kind
        for kind in (np.bool_, np.float32, np.float64, np.object_, np.str_)
    },
    **{f"numpy.{sign}int{bits}": np.dtype(f"{sign}int{bits}").type
       for sign in ("", "u") for bits in (8, 16, 32, 64)},
}  # fmt: skip


class Vocabulary:
    """The classes and functions that a file may name.

    Parameters
    ----------
    trusted : iterable of str, type or function
        Further classes and functions that the caller trusts, or their full names.
    """

    def __init__(self, trusted: Iterable[Any] = ()) -> None:
        if isinstance(trusted, str) or callable(trusted):
            trusted = [trusted]
        self._trusted: dict[str, Any] = {}
        for entry in trusted:
            self._trusted[entry if isinstance(entry, str) else full_name(entry)] = entry

    def find_class(self, name: str) -> type | None:
        """Return the class of this name, ``None`` if it is not listed."""
        found = self._trusted_object(name) or _listed_class(name)
        return found if isinstance(found, type) else None

    def find_function(self, name: str) -> Any:
        """Return the function of this name, ``None`` if it is not listed."""
        found = self._trusted_object(name) or _listed_functions().get(name)
        return None if isinstance(found, type) else found

    def is_trusted(self, name: str) -> bool:
        """Return whether the caller trusts a class of this name."""
        return name in self._trusted

    def name_of(self, kind: type) -> str:
        """Return the name of a class in model files; raise if it is not listed."""
        for name in (_public_name(kind), full_name(kind)):
            if self.find_class(name) is kind:
                return name
        raise refusal([full_name(kind)], "the model")

    def name_of_function(self, function: Any) -> str:
        """Return the name of a function in model files; raise if it is not listed."""
        for name, listed in _listed_functions().items():
            if listed is function:
                return name
        name = full_name(function)
        if self._trusted_object(name) is function:
            return name
        raise refusal([name], "the model")

    def _trusted_object(self, name: str) -> Any:
        """Return a class or function that the caller trusts."""
        entry = self._trusted.get(name)
        if isinstance(entry, str):
            module, _, short = entry.rpartition(".")
            entry = self._trusted[name] = getattr(import_module(module), short)
        return entry


def unlisted(classes: set[str], functions: set[str], vocabulary: Vocabulary) -> list[str]:
    """Return those of the classes and functions in a file that are not listed."""
    unknown = {name for name in functions if vocabulary.find_function(name) is None}
    # Families before `vicinal._...`, because they import the private parts that they use.
    for name in sorted(classes.difference(CONVERSIONS), reverse=True):
        if vocabulary.find_class(name) is None:
            unknown.add(name)
    return sorted(unknown)


def refusal(names: list[str], holder: str) -> ModelFileError:
    """Return the error for classes and functions that are not listed."""
    return ModelFileError(
        f"{holder} has {', '.join(names)}, which model files may not contain; use a class of "
        "vicinal or scikit-learn instead. If it is harmless for any attributes, pass it as "
        "trusted=[...] to save and load."
    )


def full_name(thing: Any) -> str:
    """Return module and name of a class or a function."""
    module = getattr(thing, "__module__", None)
    if module == "_loss":  # as scikit-learn 1.6 calls its compiled losses
        module = "sklearn._loss._loss"
    return f"{module}.{getattr(thing, '__qualname__', repr(thing))}"


def _listed_class(name: str) -> type | None:
    if name in _SKLEARN_CLASSES:
        module, _, short = name.rpartition(".")
        if short == "IterativeImputer":
            import_module("sklearn.experimental.enable_iterative_imputer")
        return getattr(import_module(module), short, None)
    root, _, rest = name.partition(".")
    package, _, short = rest.partition(".")
    if root != "vicinal" or package not in _FAMILIES | _PRIVATE:
        return None
    if package in _PRIVATE:
        return saved_part(name) or _part_of_any_family(name)
    family = import_module(f"vicinal.{package}")
    public = getattr(family, short, None) if short in getattr(family, "__all__", ()) else None
    if isinstance(public, type) and issubclass(public, BaseEstimator):
        return public
    return saved_part(name)


def _part_of_any_family(name: str) -> type | None:
    for family in _FAMILIES:
        import_module(f"vicinal.{family}")
    return saved_part(name)


def _public_name(kind: type) -> str:
    """Return the name without private modules: package and class."""
    if kind.__module__.startswith("vicinal."):
        return saved_name(kind)
    parts = kind.__module__.split(".")
    public = next((i for i, part in enumerate(parts) if part.startswith("_")), len(parts))
    return ".".join([*parts[:public], kind.__qualname__])


@functools.cache
def _listed_functions() -> dict[str, Any]:
    return {
        f"{package}.{name}": getattr(import_module(package), name)
        for package, names in _FUNCTIONS.items()
        for name in names.split()
    }
