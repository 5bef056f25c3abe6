"""Fit a model to blocks of rows, and predict blocks of rows."""

from typing import Any

import dask.array as da
import numpy as np
from dask import delayed
from sklearn.base import clone
from sklearn.utils import get_tags

from vicinal.distributed._blocks import DaskBlocks


def fit(estimator: Any, X: Any, y: Any = None, *, sample_weight: Any = None, verbose: int = 0):
    """Fit a model to a Dask array or data frame, block by block.

    Parameters
    ----------
    estimator : estimator
        An unfitted model of this library; it is cloned, not changed.
    X : dask array or data frame
        The rows. A worker needs about three times the memory of one block.
    y, sample_weight : dask array or series, default=None
        Targets and weights, in the blocks of ``X``.
    verbose : int, default=0
        With 1, Dask's progress bar for every pass over the rows.

    Returns
    -------
    estimator
        An ordinary fitted model, which does not need Dask to predict, explain, save or export.

    See Also
    --------
    predict : Lazy predictions of a fitted model.

    Notes
    -----
    A model that is computed from sums over rows equals the fit in memory up to rounding. Random
    numbers depend on the row number, not on the block, so that the block size does not change the
    model. Models that start from a sample (mixtures, local models at anchors) equal the fit in
    memory for tables of up to 100,000 rows. The user guide has the details for each family.

    Blocks of a lost worker are computed again by others.

    Examples
    --------
    >>> import dask.array as da
    >>> from sklearn.datasets import load_iris
    >>> from vicinal.distributed import fit
    >>> from vicinal.subspace import TruncatedRBFClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> rows, labels = da.from_array(X, chunks=(50, 4)), da.from_array(y, chunks=50)
    >>> model = fit(TruncatedRBFClassifier(order=2), rows, labels)
    >>> model.predict(X[[0, 70, 140]])
    array([0, 1, 2])
    """
    model = clone(estimator)
    if not hasattr(model, "fit_blocks"):
        raise TypeError(
            f"{type(model).__name__} cannot be fitted to blocks of rows; fit it to a random sample "
            "of the rows in memory."
        )
    if y is None and get_tags(model).target_tags.required:
        raise ValueError(f"{type(model).__name__} requires y, but y is None; pass the targets.")
    return model.fit_blocks(DaskBlocks.of(X, y, sample_weight, verbose=verbose))


def predict(estimator: Any, X: Any, *, method: str = "predict"):
    """Return lazy predictions of a fitted model, with the blocks of ``X``.

    Parameters
    ----------
    estimator : fitted estimator
        Any fitted scikit-learn or vicinal model.
    X : dask array or data frame
        Query rows.
    method : str, default="predict"
        The model's method to call on every block: "predict", "predict_proba", "transform", ...

    Returns
    -------
    dask array
        Lazy predictions; chunk sizes are known if those of ``X`` are.

    See Also
    --------
    fit : Fits a model to a Dask collection.

    Examples
    --------
    >>> import dask.array as da
    >>> from sklearn.datasets import load_iris
    >>> from vicinal.distributed import predict
    >>> from vicinal.linear import WeightedLDA
    >>> X, y = load_iris(return_X_y=True)
    >>> model = WeightedLDA().fit(X, y)
    >>> proba = predict(model, da.from_array(X, chunks=(60, 4)), method="predict_proba")
    >>> proba.chunks, proba[:2].compute().round(2).tolist()
    (((60, 60, 30), (3,)), [[1.0, 0.0, 0.0], [1.0, 0.0, 0.0]])
    """
    if hasattr(X, "columns"):
        parts, lengths = list(X.to_delayed()), [np.nan] * X.npartitions
    else:
        X = X.rechunk({1: -1})
        parts, lengths = list(X.to_delayed().ravel()), list(X.chunks[0])
    model = delayed(estimator)
    task = delayed(_predictions, pure=True)
    like = _predictions(estimator, _sample(X, estimator.n_features_in_), method, None)[:0]
    blocks = [
        da.from_delayed(
            task(model, part, method, like), (length, *like.shape[1:]), dtype=like.dtype
        )
        for part, length in zip(parts, lengths, strict=True)
    ]
    return da.concatenate(blocks, allow_unknown_chunksizes=True)


def _predictions(model, rows, method, empty):
    """Return the predictions for rows; ``empty`` is returned for a block without rows."""
    if rows.shape[0] == 0:
        return empty
    return np.asarray(getattr(model, method)(rows))


def _sample(X, n_features):
    """Return a row with the columns of ``X``, to find shape and dtype of the predictions."""
    if hasattr(X, "columns"):
        from dask.dataframe.dispatch import make_meta, meta_nonempty

        return meta_nonempty(make_meta(X)).iloc[:1]
    return np.zeros((1, n_features))
