"""Local models of Dask queries and training rows."""

from typing import Any

import dask.array as da
import numpy as np
from dask import delayed

from vicinal._base import TrainingData
from vicinal.distributed._blocks import DaskBlocks
from vicinal.distributed._neighbors import check_columns, lazy_rows, lazy_search, query_lengths
from vicinal.local.blocks import LocalFrame, check_resolved
from vicinal.neighbors.blocks import NeighborRows

_METHODS = ("predict", "predict_proba", "decision_function", "local_coef")


def local_predict(
    estimator: Any,
    X: Any,
    y: Any,
    Q: Any,
    *,
    method: str = "predict",
    sample_weight: Any = None,
    verbose: int = 0,
):
    """Fit a local model around each query, with training rows that exceed memory.

    The neighbours of a block of queries are found by exact search in every block of ``X``; the
    estimator is then fitted to the rows found. Predictions equal those of the estimator fitted in
    memory.

    Parameters
    ----------
    estimator : LocalClassifier or LocalRegressor
        Unfitted, with numbers for ``n_neighbors``, ``alpha`` and ``degree``, and a ``metric`` of
        scikit-learn, "standardized" or a fitted transformer in a
        :class:`~sklearn.frozen.FrozenEstimator`. Select them with a fit to a sample in memory.
    X : dask array or data frame of shape (n_samples, n_features)
        Training rows.
    y : dask array or series of shape (n_samples,)
        Their targets.
    Q : dask array or data frame of shape (n_queries, n_features)
        Queries; each block of them is searched in every block of ``X``.
    method : {"predict", "predict_proba", "decision_function", "local_coef"}, default="predict"
        The method of the estimator to call.
    sample_weight : dask array or series of shape (n_samples,), default=None
        Weights of the rows.
    verbose : int, default=0
        With 1, Dask's progress bar for the passes made before the function returns.

    Returns
    -------
    dask array
        Lazy predictions, with the blocks of ``Q``.

    See Also
    --------
    fit : Fits a model that predicts any number of queries.
    kneighbors : The search alone.

    Notes
    -----
    A local model depends on the rows of the smallest ball around its query with a total weight
    above k (ties included). These rows are among those found in the blocks, so the search is exact.
    The temperature of the probabilities is fitted to leave-one-out scores of 3000 sampled rows, as
    in memory. Means and scales are sums over blocks, so results differ by rounding only.

    Examples
    --------
    >>> import dask.array as da
    >>> from sklearn.datasets import load_iris
    >>> from vicinal.distributed import local_predict
    >>> from vicinal.local import LocalClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> rows, labels = da.from_array(X, chunks=(40, 4)), da.from_array(y, chunks=40)
    >>> model = LocalClassifier(n_neighbors=40, alpha=1.0, metric="euclidean")
    >>> local_predict(model, rows, labels, rows[[0, 70, 140]]).compute()
    array([0, 1, 2])
    """
    check_resolved(estimator)
    if method not in _METHODS or not hasattr(estimator, method):
        raise ValueError(
            f"method={method!r} is not supported for {type(estimator).__name__}; use one of "
            f"{[m for m in _METHODS if hasattr(estimator, m)]}."
        )
    blocks = DaskBlocks.of(X, y, sample_weight, verbose=verbose)
    queries = DaskBlocks.of(Q)
    check_columns(blocks, queries)
    blocks, frame = LocalFrame.of(estimator, blocks, calibrated=method == "predict_proba")
    task = delayed(_predictions, pure=True)
    shared = delayed(frame, pure=True)
    width, dtype = _output_type(frame, blocks.n_features, method)
    rows, lengths = lazy_rows(queries, frame.coordinates), query_lengths(Q, len(queries))
    predictions = []
    for part, own_rows, length in zip(queries.parts, rows, lengths, strict=True):
        found = lazy_search(blocks, frame.search, own_rows, frame.rule)
        lazy = task(shared, found, part, method, (*width, dtype))
        predictions.append(da.from_delayed(lazy, (length, *width), dtype=dtype))
    return da.concatenate(predictions, allow_unknown_chunksizes=True)


def _predictions(
    frame: LocalFrame, found: NeighborRows, queries: TrainingData, method: str, kind: tuple
):
    if len(queries) == 0:
        *width, dtype = kind
        return np.empty((0, *width), dtype=dtype)
    return getattr(frame.around(found), method)(queries.X)


def _output_type(frame: LocalFrame, n_features: int, method: str) -> tuple[tuple, Any]:
    """Return the shape of an output without its first axis, and its dtype."""
    if frame.classes is None:
        return ((n_features,) if method == "local_coef" else ()), np.dtype(np.float64)
    if method == "predict":
        return (), frame.classes.dtype
    n_classes = len(frame.classes)
    outputs = (n_classes,) if n_classes > 2 or method == "predict_proba" else ()
    return (*outputs, n_features) if method == "local_coef" else outputs, np.dtype(np.float64)
