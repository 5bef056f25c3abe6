"""Models fitted anew around each query."""

from vicinal.local._anchored_local_classifier import AnchoredLocalClassifier
from vicinal.local._anchored_local_regressor import AnchoredLocalRegressor
from vicinal.local._gradient_metric import GradientMetric
from vicinal.local._local_classifier import LocalClassifier
from vicinal.local._local_regressor import LocalRegressor
from vicinal.local._loess_regressor import LoessRegressor
from vicinal.local._nadaraya_watson_regressor import NadarayaWatsonRegressor
from vicinal.local._principal_surface import PrincipalSurface

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
