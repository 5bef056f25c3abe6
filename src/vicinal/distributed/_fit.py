"""One function that fits: it finds the way to do it by the kind of model."""

from typing import Any

from sklearn.base import clone
from sklearn.utils import get_tags

from vicinal.distributed._blocks import Blocks

# Model class -> function(unfitted estimator, blocks, verbose) that fits it in place.
_WAYS: dict[type, Any] = {}


def fits(*models: type):
    """Register the decorated function as the way to fit these models."""

    def register(function):
        _WAYS.update(dict.fromkeys(models, function))
        return function

    return register


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
    on a sample (local models at anchors, starts of mixtures, members of ensembles), tables of up to
    100,000 rows are fitted as in memory. The guide says for each family what is exact.

    A worker that is lost takes its blocks with it; they are made again elsewhere.

    Examples
    --------
    >>> import dask.array as da
    >>> from sklearn.datasets import load_iris
    >>> from vicinal.distributed import fit
    >>> from vicinal.local import LocalClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> rows, labels = da.from_array(X, chunks=(50, 4)), da.from_array(y, chunks=50)
    >>> model = LocalClassifier(anchors=12, n_neighbors=40, metric="standardized", random_state=0)
    >>> model = fit(model, rows, labels)
    >>> model.predict(X[[0, 70, 140]])
    array([0, 1, 2])
    """
    model = clone(estimator)
    if y is None and get_tags(model).target_tags.required:
        raise ValueError(f"{type(model).__name__} requires y, and it is None; pass the targets.")
    return fit_blocks(model, Blocks.of(X, y, sample_weight), verbose)


def has_way(model: Any) -> bool:
    """Tell whether models of this kind are fitted by blocks."""
    return type(model) in _WAYS


def fit_blocks(model: Any, blocks: Blocks, verbose: int = 0) -> Any:
    """Fit a model in place and return it."""
    if not has_way(model):
        names = ", ".join(sorted(kind.__name__ for kind in _WAYS))
        raise TypeError(
            f"{type(model).__name__} has no distributed fit; there is one for {names}. Fit it "
            "to a sample in memory, or as the member of a bootstrap ensemble."
        )
    model._validate_params()
    _WAYS[type(model)](model, blocks, verbose)
    model.n_features_in_ = blocks.n_features
    if blocks.feature_names is not None:
        model.feature_names_in_ = blocks.feature_names
    return model


def refuse(model: Any, *, why: str, **only: Any) -> None:
    """Raise where a parameter has another value than the one that can be had here."""
    for name, value in only.items():
        given = getattr(model, name)
        if given != value:
            raise ValueError(
                f"{name}={given!r} is not possible {why}; use {name}={value!r}, or fit to a sample "
                "in memory."
            )
