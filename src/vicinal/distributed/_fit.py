"""Fit a model to blocks of rows, and predict with a fitted one."""

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
        The rows; its blocks of rows are the unit of work, so each must fit a worker's memory some
        three times over.
    y, sample_weight : dask array or series, default=None
        Targets and weights, cut like ``X``.
    verbose : int, default=0
        With 1, Dask's progress bar for every pass over the rows.

    Returns
    -------
    estimator
        An ordinary fitted model, which needs Dask no longer: predict, explain, save or export it as
        if it had been fitted in memory.

    See Also
    --------
    predict : Lazy predictions of a fitted model.
    local_predict : Local models around queries, for which there is nothing to fit.

    Notes
    -----
    Where a model is a function of sums over rows, or of the nearest rows, its fit equals that in
    memory to rounding. Where it draws rows, the draw belongs to the row and not to its block, so
    that the same table in other blocks gives the same model. Of the models fitted to draws or begun
    on a sample (local models at anchors, starts of mixtures), tables of up to 100,000 rows are
    fitted as in memory. The guide says for each family what is exact.

    A worker that is lost takes its blocks with it; they are made again elsewhere.

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
            f"{type(model).__name__} cannot be fitted to blocks of rows; fit it in memory, to a "
            "random sample of the rows where the table is too large."
        )
    if y is None and get_tags(model).target_tags.required:
        raise ValueError(f"{type(model).__name__} requires y, and it is None; pass the targets.")
    return model.fit_blocks(DaskBlocks.of(X, y, sample_weight, verbose=verbose))


def predict(estimator: Any, X: Any, *, method: str = "predict"):
    """Return lazy predictions of a fitted model, a block for every block of ``X``.

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
        Not computed yet; lengths of blocks are known where those of ``X`` are.

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
    """Return a row like those of ``X``: its prediction has the shape and type of all others."""
    if hasattr(X, "columns"):
        from dask.dataframe.dispatch import make_meta, meta_nonempty

        return meta_nonempty(make_meta(X)).iloc[:1]
    return np.zeros((1, n_features))
