"""A weighted average of models of all families, on any table, with an estimated score."""

from vicinal.auto._auto import AutoClassifier, AutoRegressor
from vicinal.auto._settings import moments, table_splits  # noqa: F401

__all__ = ["AutoClassifier", "AutoRegressor"]
