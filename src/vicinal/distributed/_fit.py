"""Fit a model to blocks of rows, predict them, and find nearest neighbours in them."""

from functools import partial
from numbers import Integral
from typing import Any

import dask.array as da
import numpy as np
import scipy.sparse as sp
from dask import delayed
from sklearn.base import clone
from sklearn.utils import get_tags

from vicinal._base import TrainingData
from vicinal.distributed._blocks import DaskBlocks, tree
from vicinal.neighbors import NeighborSearch


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


def kneighbors(
    X: Any, Q: Any, n_neighbors: int, *, metric: str = "euclidean", metric_params: Any = None
):
    """Find the nearest rows of ``X`` for every row of ``Q``, exactly, block by block.

    Every block of ``X`` is searched for every block of ``Q``, and the results are merged by a tree
    of tasks. Ties are broken by row number, so that the result does not depend on the blocks.

    Parameters
    ----------
    X : dask array or data frame of shape (n_samples, n_features)
        The rows searched.
    Q : dask array or data frame of shape (n_queries, n_features)
        The queries, best in few large blocks, because each block of them is searched in all blocks
        of ``X``. A worker needs memory for about ``30 * len(block) * n_neighbors`` numbers.
    n_neighbors : int
        Number of neighbours of each query.
    metric : str, default="euclidean"
        Any metric of scikit-learn.
    metric_params : dict, default=None
        Further arguments of the metric.

    Returns
    -------
    distances : dask array of shape (n_queries, n_neighbors)
        Lazy distances, ascending in each row.
    positions : dask array of shape (n_queries, n_neighbors)
        Lazy row numbers of the neighbours in ``X``.

    See Also
    --------
    vicinal.neighbors.NeighborSearch : The search in memory.

    Notes
    -----
    The k nearest rows are among the k nearest rows of the blocks, so the result is exact. With b
    blocks of rows, q queries and k neighbours, b q k pairs are sent between workers, and one task
    merges at most eight partial results. If the lengths of the blocks of ``X`` are unknown, as in a
    data frame, one pass counts them first.

    Examples
    --------
    >>> import dask.array as da
    >>> import numpy as np
    >>> from vicinal.distributed import kneighbors
    >>> X = da.from_array(np.arange(10.0)[:, None], chunks=(4, 1))
    >>> Q = da.from_array(np.array([[3.2], [9.0]]), chunks=(1, 1))
    >>> distances, positions = kneighbors(X, Q, 2)
    >>> positions.compute()
    array([[3, 4],
           [9, 8]])
    >>> distances.compute().round(1)
    array([[0.2, 0.8],
           [0. , 1. ]])
    """
    if not isinstance(n_neighbors, Integral) or n_neighbors < 1:
        raise ValueError(f"n_neighbors={n_neighbors!r} must be an integer of at least 1.")
    rows, queries = DaskBlocks.of(X), DaskBlocks.of(Q)
    _check_columns(rows, queries)
    k, lengths = int(n_neighbors), _known_lengths(X, len(rows))
    if np.isnan(lengths).any():
        lengths = rows.gather(len)
    if k > sum(lengths):
        raise ValueError(
            f"n_neighbors={k} exceeds the {sum(lengths)} rows of X; lower n_neighbors."
        )
    rows = rows.located(lengths)
    search = NeighborSearch(metric=metric, metric_params=metric_params, n_jobs=1)
    nearest, merge = delayed(_nearest, pure=True), partial(_merge, k=k)
    distances, positions = [], []
    for own, length in zip(queries.parts, _known_lengths(Q, len(queries)), strict=True):
        found = tree([nearest(part, own, search, k) for part in rows.parts], merge)
        distances.append(da.from_delayed(found[0], (length, k), dtype=np.float64))
        positions.append(da.from_delayed(found[1], (length, k), dtype=np.int64))
    return (
        da.concatenate(distances, allow_unknown_chunksizes=True),
        da.concatenate(positions, allow_unknown_chunksizes=True),
    )


def _nearest(block: TrainingData, queries: TrainingData, search: Any, k: int) -> tuple:
    """Return distances and row numbers of at most ``k`` rows of a block for every query."""
    if len(block) == 0 or len(queries) == 0:
        shape = (len(queries), 0 if len(queries) else k)
        return np.empty(shape), np.empty(shape, dtype=np.int64)
    index = clone(search).fit(_writeable(block.X))
    distances, rows = index.kneighbors(_writeable(queries.X), min(k, len(block)))
    return distances, rows + block.start


def _merge(left: tuple, right: tuple, k: int) -> tuple:
    """Return the nearest of two results; a stable sort leaves ties in the order of the rows."""
    distances, positions = (np.hstack(pair) for pair in zip(left, right, strict=True))
    order = np.argsort(distances, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(distances, order, 1), np.take_along_axis(positions, order, 1)


def _writeable(values):
    """Return a writeable array: read-only ones would be compiled again."""
    return values if sp.issparse(values) else np.require(values, requirements=["C", "W"])


def _check_columns(rows: DaskBlocks, queries: DaskBlocks) -> None:
    """Raise for queries with another number of columns or other names."""
    if rows.n_features != queries.n_features:
        raise ValueError(
            f"Q has {queries.n_features} columns, but X has {rows.n_features}; both must have the "
            "same columns."
        )
    own, given = rows.feature_names, queries.feature_names
    if own is not None and given is not None and list(own) != list(given):
        raise ValueError(
            f"Q has the columns {list(given)}, but X has {list(own)}; use the same columns in the "
            "same order."
        )


def _known_lengths(X: Any, n_blocks: int) -> list:
    """Return the known lengths of the blocks of a collection, NaN if they are unknown."""
    return list(X.chunks[0]) if hasattr(X, "chunks") else [np.nan] * n_blocks
