"""Blocks of rows of a Dask collection: fits and predictions."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import reduce
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


# --- fit and predict --------------------------------------------------------------------


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
