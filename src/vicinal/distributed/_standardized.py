"""Standardised columns of a table that was never held."""

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin

from vicinal._kernels.linear._maps import usable_scale
from vicinal.distributed._moments import table_moments
from vicinal.distributed._survey import Survey


class Standardized(TransformerMixin, BaseEstimator):
    """Columns of mean 0 and deviation 1, learned elsewhere: fitting it changes nothing."""

    def __init__(self, mean, scale):
        self.mean = mean
        self.scale = scale

    @classmethod
    def of(cls, found: Survey, columns=None) -> "Standardized":
        """Return the map of some columns, from what the first pass over the rows has told."""
        moments = table_moments(found)
        mean, scale = moments.mean, usable_scale(moments.mean, moments.variance)
        return cls(mean, scale) if columns is None else cls(mean[columns], scale[columns])

    def __sklearn_clone__(self):
        return self

    def __sklearn_is_fitted__(self):
        return True

    def fit(self, X: Any, y: Any = None) -> "Standardized":
        """Return self."""
        return self

    def transform(self, X):
        """Return standardised rows."""
        return (np.asarray(X, dtype=np.float64) - self.mean) * (1.0 / self.scale)
