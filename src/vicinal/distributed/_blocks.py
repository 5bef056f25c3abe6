"""Blocks of rows of a Dask collection: fits, predictions and neighbours of them."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial, reduce
from numbers import Integral
from operator import add
from typing import Any

import dask
import dask.array as da
import numpy as np
import scipy.sparse as sp
from dask import delayed
from dask.diagnostics import ProgressBar
from sklearn.base import clone
from sklearn.utils import get_tags

import distributed
from vicinal._base import Blocks, TrainingData
from vicinal.neighbors import NeighborSearch

# Number of results added by one task, which bounds its memory.
_FAN_IN = 8


@dataclass(eq=False)
class DaskBlocks(Blocks):
    """Rows, targets and weights of a Dask collection, block by block.

    A block is computed whenever a task needs it, so that the table is never in memory: each pass
    reads the files again. Persist the collection first if it fits in the cluster's memory. With
    ``verbose`` every pass shows Dask's progress bar.
    """

    parts: list
    n_features: int
    feature_names: np.ndarray | None
    verbose: int = 0

    def __len__(self) -> int:
        return len(self.parts)

    @classmethod
    def of(cls, X: Any, y: Any = None, sample_weight: Any = None, *, verbose: int = 0):
        """Return the blocks of ``X`` with their parts of ``y`` and ``sample_weight``."""
        columns, names = _columns(X)
        if _is_frame(X):
            parts = _frame_parts(X, y, sample_weight)
        else:
            whole_rows = X.rechunk({1: -1}) if X.numblocks[1] > 1 else X
            rows = list(whole_rows.to_delayed().ravel())
            targets = _vector_parts(y, X, len(rows), "y")
            weights = _vector_parts(sample_weight, X, len(rows), "sample_weight")
            as_block = delayed(_as_block, pure=True)
            parts = [as_block(*three) for three in zip(rows, targets, weights, strict=True)]
        return cls(parts, columns, names, verbose)

    def located(self, lengths: Sequence[int]) -> "DaskBlocks":
        starts = np.concatenate([[0], np.cumsum(lengths)[:-1]]).tolist()
        locate = delayed(replace, pure=True)
        pairs = zip(self.parts, starts, strict=True)
        return replace(self, parts=[locate(part, start=start) for part, start in pairs])

    def then(self, function: Callable, *shared: Any, n_features: int | None = None) -> "DaskBlocks":
        made = replace(self, parts=self.map(function, *shared))
        if n_features is None:
            return made
        return replace(made, n_features=n_features, feature_names=None)

    def held(self) -> "DaskBlocks":
        return replace(self, parts=persist(self.parts))

    def gather(self, function: Callable, *shared: Any) -> list:
        return list(compute(self.map(function, *shared), verbose=self.verbose))

    def total(
        self, function: Callable, *shared: Any, combine: Callable[[Any, Any], Any] = add
    ) -> Any:
        lazy = tree(self.map(function, *shared), combine)
        return compute([lazy], verbose=self.verbose)[0]

    def regrouped(
        self, split: Callable, join: Callable, groups: list[tuple], *shared: Any
    ) -> "DaskBlocks":
        pieces = self.map(split, *shared)
        task = delayed(join, pure=True)
        parts = [
            task([piece[group] for piece in pieces], *map(_whole, own))
            for group, own in enumerate(groups)
        ]
        return DaskBlocks(parts, 0, None, self.verbose)

    def map(self, function: Callable, *shared: Any) -> list:
        """Return lazy ``function(block, *shared)`` for every block; shared values are sent once."""
        shared = tuple(map(_whole, shared))
        task = delayed(function, pure=True)
        return [task(part, *shared) for part in self.parts]


def tree(parts: list, combine: Callable[[Any, Any], Any]) -> Any:
    """Combine lazy values in order by a tree of tasks."""
    fold = delayed(reduce, pure=True)
    while len(parts) > 1:
        groups = [parts[i : i + _FAN_IN] for i in range(0, len(parts), _FAN_IN)]
        parts = [fold(combine, group) for group in groups]
    return parts[0]


def _whole(value: Any) -> Any:
    """Return a delayed value; Dask does not search it for lazy parts."""
    return delayed(value, traverse=False)


def _as_block(X, y, sample_weight) -> TrainingData:
    """Convert one block to arrays and validate it."""
    X = X.tocsr() if sp.issparse(X) else np.ascontiguousarray(X, dtype=np.float64)
    if not np.all(np.isfinite(X.data if sp.issparse(X) else X)):
        raise ValueError("X contains NaN or infinity; impute them or drop those rows.")
    n = X.shape[0]
    weights = np.ones(n) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    y = None if y is None else np.asarray(y)
    if y is not None and y.dtype.kind == "f" and not np.all(np.isfinite(y)):
        raise ValueError("y contains NaN or infinity; drop those rows from X and y.")
    for name, values in (("y", y), ("sample_weight", weights)):
        if values is not None and len(values) != n:
            raise ValueError(
                f"a block has {n} rows of X, but {len(values)} entries of {name}; take both from "
                "one data frame, or use equal chunks."
            )
    if not np.all(np.isfinite(weights)) or np.any(weights < 0):
        raise ValueError(
            "sample_weight must be finite and at least 0; use weight 0 to exclude a row."
        )
    kept = np.flatnonzero(weights)
    if len(kept) < n:
        X, weights = X[kept], weights[kept]
        y = None if y is None else y[kept]
    return TrainingData(X, y, sample_weight=weights)


def _columns(X) -> tuple[int, np.ndarray | None]:
    """Return the number of columns, and their names when the collection is a frame."""
    if _is_frame(X):
        names = np.asarray(X.columns, dtype=object)
        return len(names), names if all(isinstance(name, str) for name in names) else None
    if getattr(X, "ndim", 0) != 2:
        raise ValueError(
            f"X is a {type(X).__name__} of shape {getattr(X, 'shape', 'unknown')}, but must be a "
            "Dask array with two axes or a Dask data frame. Convert an array with "
            "dask.array.from_array(X, chunks=(rows_per_block, -1))."
        )
    return int(X.shape[1]), None


def _is_frame(X) -> bool:
    return hasattr(X, "to_delayed") and hasattr(X, "columns")


def _frame_parts(X, y, sample_weight) -> list:
    """Return the blocks of a frame, with y and weights as further columns: equal partitions."""
    added: dict[str, Any] = {}
    positions: list[int | None] = []
    for name, values in {"y": y, "sample_weight": sample_weight}.items():
        positions.append(None if values is None else X.shape[1] + len(added))
        if values is None:
            continue
        _refuse_memory(values, name)
        if getattr(values, "npartitions", X.npartitions) != X.npartitions:
            raise ValueError(_unlike(name, values.npartitions, X.npartitions))
        added[f"{name} of the rows"] = values
    split = delayed(_split_block, pure=True)
    parts = (X.assign(**added) if added else X).to_delayed()
    return [split(part, X.shape[1], *positions) for part in parts]


def _split_block(frame, n_columns: int, *positions: int | None) -> TrainingData:
    y, weight = (None if j is None else frame.iloc[:, j] for j in positions)
    return _as_block(frame.iloc[:, :n_columns], y, weight)


def _vector_parts(values, X, n_parts: int, name: str) -> list:
    """Return the parts of a vector that belong to the blocks of ``X``."""
    if values is None:
        return [None] * n_parts
    _refuse_memory(values, name)
    if getattr(values, "chunks", None) and not np.isnan([values.shape[0], X.shape[0]]).any():
        if values.shape[0] != X.shape[0]:
            raise ValueError(f"{name} has {values.shape[0]} entries for {X.shape[0]} rows of X.")
        values = values.rechunk((X.chunks[0],))
    parts = np.asarray(values.to_delayed()).ravel().tolist()
    if len(parts) != n_parts and not hasattr(values, "chunks"):
        # Dask may merge the partitions of a series that is read alone.
        parts = values.to_delayed(optimize_graph=False)
    if len(parts) != n_parts:
        raise ValueError(_unlike(name, len(parts), n_parts))
    return parts


def _refuse_memory(values, name: str) -> None:
    if not hasattr(values, "to_delayed"):
        raise TypeError(
            f"{name} is a {type(values).__name__}, but must be a Dask collection; convert it "
            f"with dask.array.from_array({name}, chunks=X.chunks[0])."
        )


def _unlike(name: str, n_blocks: int, n_wanted: int) -> str:
    return (
        f"{name} has {n_blocks} blocks, but X has {n_wanted}; take both from one data frame, or "
        "use chunks of known and equal lengths."
    )


# Retries of a task whose worker died.
_RETRIES = 3


def compute(lazy: list, *, verbose: int = 0) -> tuple:
    """Return the values of lazy objects, with Dask's own progress bar when ``verbose``."""
    client = connected_client()
    if client is None:
        with ProgressBar() if verbose else nullcontext():
            return dask.compute(*lazy)
    futures = client.compute(lazy, retries=_RETRIES, sync=False)
    if verbose:
        distributed.progress(futures, notebook=False)
    return tuple(client.gather(futures))


def persist(lazy: list) -> list:
    """Return lazy objects whose values are kept in memory, by the workers or locally."""
    client = connected_client()
    if client is None:
        return list(dask.persist(*lazy))
    return list(client.persist(lazy, retries=_RETRIES))


def connected_client() -> Any:
    """Return the client of the cluster in use, or ``None``."""
    try:
        return distributed.get_client()
    except ValueError:
        return None


# --- fit, predict and search --------------------------------------------------------------------


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
