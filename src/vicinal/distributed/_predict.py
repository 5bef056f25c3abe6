"""Answers of a fitted model for a Dask collection."""

from typing import Any

import dask.array as da
import numpy as np
from dask import delayed


def predict(estimator: Any, X: Any, *, method: str = "predict"):
    """Return lazy answers of a fitted model, a block for every block of ``X``.

    Parameters
    ----------
    estimator : fitted estimator
        Any fitted scikit-learn or vicinal model.
    X : dask array or data frame
        The rows asked.
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
    >>> answers = predict(model, da.from_array(X, chunks=(60, 4)), method="predict_proba")
    >>> answers.chunks, answers[:2].compute().round(2).tolist()
    (((60, 60, 30), (3,)), [[1.0, 0.0, 0.0], [1.0, 0.0, 0.0]])
    """
    if hasattr(X, "columns"):
        parts, lengths = list(X.to_delayed()), [np.nan] * X.npartitions
    else:
        X = X.rechunk({1: -1})
        parts, lengths = list(X.to_delayed().ravel()), list(X.chunks[0])
    model = delayed(estimator)
    answer = delayed(_answer, pure=True)
    like = _answer(estimator, _sample(X, estimator.n_features_in_), method, None)[:0]
    blocks = [
        da.from_delayed(
            answer(model, part, method, like), (length, *like.shape[1:]), dtype=like.dtype
        )
        for part, length in zip(parts, lengths, strict=True)
    ]
    return da.concatenate(blocks, allow_unknown_chunksizes=True)


def _answer(model, rows, method, nothing):
    """Return the answers to rows; ``nothing`` is what a block without rows is answered with."""
    if rows.shape[0] == 0:
        return nothing
    return np.asarray(getattr(model, method)(rows))


def _sample(X, n_features):
    """Return a row like those of ``X``: its answer tells the shape and type of all others."""
    if hasattr(X, "columns"):
        from dask.dataframe.dispatch import make_meta, meta_nonempty

        return meta_nonempty(make_meta(X)).iloc[:1]
    return np.zeros((1, n_features))
