"""Local learning: models that are simple around each query and flexible overall."""

from importlib import import_module
from typing import Any

__version__ = "0.2.0.dev0"

# Subpackages are imported on first use: `import vicinal` does not import scikit-learn or numba.
_SUBPACKAGES = (
    "auto",
    "cli",
    "datasets",
    "distributed",
    "ensemble",
    "inspection",
    "io",
    "linear",
    "local",
    "metric",
    "neighbors",
    "partition",
    "pretrained",
    "report",
    "serve",
    "subspace",
    "surface",
    "table",
    "uncertainty",
)

# Estimators that are also available as `vicinal.Name`.
_ESTIMATORS: dict[str, str] = {
    "AutoClassifier": "auto",
    "AutoRegressor": "auto",
    "BayesianModelAveragingClassifier": "ensemble",
    "BayesianModelAveragingRegressor": "ensemble",
    "BootstrapEnsembleClassifier": "ensemble",
    "BootstrapEnsembleRegressor": "ensemble",
    "FunctionalGradientBoostingClassifier": "ensemble",
    "FunctionalGradientBoostingRegressor": "ensemble",
    "ObliviousBoostingClassifier": "ensemble",
    "ObliviousBoostingRegressor": "ensemble",
    "PrunedTreeClassifier": "ensemble",
    "PrunedTreeRegressor": "ensemble",
    "RealAdaBoostClassifier": "ensemble",
    "AnchoredLocalClassifier": "local",
    "AnchoredLocalRegressor": "local",
    "LocalClassifier": "local",
    "LocalRegressor": "local",
    "LoessRegressor": "local",
    "NadarayaWatsonRegressor": "local",
    "GradientMetric": "local",
    "PrincipalSurface": "local",
    "GradientKernelClassifier": "metric",
    "GradientKernelRegressor": "metric",
    "NeuralNeighborsClassifier": "metric",
    "NeuralNeighborsRegressor": "metric",
    "SpacePartitioningClassifier": "partition",
    "SpacePartitioningRegressor": "partition",
    "SurrogatePartitionClassifier": "partition",
    "PretrainedNeighborsClassifier": "pretrained",
    "PretrainedNeighborsRegressor": "pretrained",
    "DivideConquerSVC": "subspace",
    "FeatureSpaceDecomposition": "subspace",
    "SubspaceFusionClassifier": "subspace",
    "SubspaceFusionRegressor": "subspace",
    "TruncatedRBFClassifier": "subspace",
    "TruncatedRBFFeatures": "subspace",
    "TruncatedRBFRegressor": "subspace",
    "DecisionSurface": "surface",
    "SurfaceCalibratedClassifier": "surface",
    "ConformalClassifier": "uncertainty",
    "ConformalRegressor": "uncertainty",
    "LocalDiscriminantTransformer": "uncertainty",
    "LocallyAdaptiveClassifier": "uncertainty",
    "ResponsibilityMixture": "uncertainty",
}

__all__ = [*_SUBPACKAGES, *_ESTIMATORS, "__version__"]


def __getattr__(name: str) -> Any:
    if name in _SUBPACKAGES:
        return import_module(f"vicinal.{name}")
    if name in _ESTIMATORS:
        return getattr(import_module(f"vicinal.{_ESTIMATORS[name]}"), name)
    raise AttributeError(f"module 'vicinal' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
