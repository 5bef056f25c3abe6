"""A weighted average of models of all families, on any table, with an estimated score."""

from vicinal.auto._auto import AutoClassifier, AutoRegressor

__all__ = ["AutoClassifier", "AutoRegressor"]
