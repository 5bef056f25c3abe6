"""One function that fits whatever can be fitted by blocks of rows."""

from typing import Any

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
    predict : Lazy answers of a fitted model.
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
