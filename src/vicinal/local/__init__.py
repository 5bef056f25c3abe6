"""Models fitted around each query."""

from vicinal.local._anchored import AnchoredLocalClassifier, AnchoredLocalRegressor
from vicinal.local._classifiers import LocalClassifier
from vicinal.local._gradient_metric import GradientMetric
from vicinal.local._principal_surface import PrincipalSurface
from vicinal.local._regressors import LocalRegressor, LoessRegressor, NadarayaWatsonRegressor

__all__ = [
    "LocalClassifier",
    "LocalRegressor",
    "AnchoredLocalClassifier",
    "AnchoredLocalRegressor",
    "LoessRegressor",
    "NadarayaWatsonRegressor",
    "GradientMetric",
    "PrincipalSurface",
]
