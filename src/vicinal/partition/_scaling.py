"""Standardised features: a scaler from moments, applied to rows of any array library."""

from typing import Any

import numpy as np
from array_api_compat import device as device_of
from scipy import sparse
from sklearn.preprocessing import StandardScaler

from vicinal._base import is_array_api, namespace


def scaler_of(mean: np.ndarray, variance: np.ndarray, total: float) -> StandardScaler:
    """Return scikit-learn's scaler with the given moments; constant columns have scale one."""
    scaler = StandardScaler()
    eps = np.finfo(np.float64).eps
    constant = variance <= total * eps * variance + (total * mean * eps) ** 2
    scaler.mean_, scaler.var_ = mean, variance
    scaler.scale_ = np.where(constant, 1.0, np.sqrt(np.where(constant, 1.0, variance)))
    scaler.n_features_in_ = len(mean)
    scaler.n_samples_seen_ = total
    return scaler


def scale_rows(scaler: StandardScaler | None, X: Any) -> Any:
    """Return rows as the scaler makes them, where they are."""
    if scaler is None:
        return X
    if not is_array_api(X):
        # Sparse queries to a model of dense rows are few; a model of sparse rows does not centre.
        is_centred = scaler.with_mean and sparse.issparse(X)
        X = X.toarray() if is_centred else X
        # Single precision cannot hold the numbers of every model.
        numbers = np.r_[scaler.mean_, scaler.scale_] if scaler.with_mean else scaler.scale_
        is_held = np.abs(numbers).max() < np.finfo(X.dtype).max
        return scaler.transform(X if is_held else X.astype(np.float64))
    xp, device = namespace(X), device_of(X)
    mean = xp.asarray(scaler.mean_, dtype=X.dtype, device=device)
    return (X - mean) / xp.asarray(scaler.scale_, dtype=X.dtype, device=device)
