"""Models fitted anew around each query."""

from vicinal.local._local_classifier import LocalClassifier
from vicinal.local._local_regressor import LocalRegressor

__all__ = ["LocalClassifier", "LocalRegressor"]
