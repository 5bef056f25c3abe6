"""The first call on any table: members of all families, mixed by their held-out answers."""

from vicinal.auto._auto_classifier import AutoClassifier
from vicinal.auto._auto_regressor import AutoRegressor

__all__ = ["AutoClassifier", "AutoRegressor"]
