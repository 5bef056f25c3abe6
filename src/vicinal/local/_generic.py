"""Any estimator as the local model: clone and fit it around every query."""

from collections.abc import Callable

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import has_fit_parameter

from vicinal._base import parallel_map
from vicinal.local._neighborhood import Neighborhoods

_QUERIES_PER_TASK = 32


def check_local_estimator(estimator, kernel) -> bool:
    """Return whether the estimator takes weights; without them only equal weights make sense."""
    if has_fit_parameter(estimator, "sample_weight"):
        return True
    if kernel == "uniform":
        return False
    raise ValueError(
        f"{type(estimator).__name__}.fit takes no sample_weight, which kernel={kernel!r} needs; "
        'use kernel="uniform", or an estimator that accepts sample_weight.'
    )


def fit_around(estimator, rows, targets, weights, *, weighted: bool):
    """Return a clone fitted on rows that are already centred at the query."""
    model = clone(estimator)
    if weighted:
        return model.fit(rows, targets, sample_weight=weights)
    return model.fit(rows, targets)


def map_neighborhoods(
    function: Callable,
    rows,
    design,
    found: Neighborhoods,
    *,
    n_jobs: int | None,
) -> list:
    """Call ``function(offsets, indices, weights)`` for every query, through joblib."""

    def some(queries):
        return [
            function(
                rows[found.indices[found.indptr[t] : found.indptr[t + 1]]] - design[t],
                found.indices[found.indptr[t] : found.indptr[t + 1]],
                found.weights[found.indptr[t] : found.indptr[t + 1]],
            )
            for t in queries
        ]

    order = np.arange(found.n_queries)
    tasks = [(order[i : i + _QUERIES_PER_TASK],) for i in range(0, len(order), _QUERIES_PER_TASK)]
    parts = parallel_map(some, tasks, n_jobs=n_jobs, prefer="threads")
    return [value for part in parts for value in part]


def generic_predictions(estimator, rows, targets, design, found, *, weighted, n_jobs) -> np.ndarray:
    """Return the prediction at each query of a model fitted around it, (n_queries, n_outputs)."""
    origin = np.zeros((1, rows.shape[1]))
    flat = targets[:, 0] if targets.shape[1] == 1 else targets

    def predict(offsets, indices, weights):
        model = fit_around(estimator, offsets, flat[indices], weights, weighted=weighted)
        return np.ravel(model.predict(origin))

    values = map_neighborhoods(predict, rows, design, found, n_jobs=n_jobs)
    return np.array(values, dtype=np.float64).reshape(found.n_queries, targets.shape[1])


def generic_class_scores(
    estimator, rows, codes, n_classes: int, design, found, *, method, weighted, n_jobs
) -> np.ndarray:
    """Return ``method`` of local classifiers at their queries, one column per class.

    A class that the neighbourhood lacks has probability 0 (decision -inf) and its column stays in
    place; a neighbourhood of one class is answered without a fit.
    """
    origin = np.zeros((1, rows.shape[1]))
    absent = 0.0 if method == "predict_proba" else -np.inf

    def score(offsets, indices, weights):
        labels = codes[indices]
        out = np.full(n_classes, absent)
        if np.all(labels == labels[0]):
            out[labels[0]] = 1.0
            return out
        model = fit_around(estimator, offsets, labels, weights, weighted=weighted)
        if method == "predict":
            out[model.predict(origin)[0]] = 1.0
            return out
        values = np.ravel(getattr(model, method)(origin))
        if len(values) == 1:
            values = np.array([-values[0], values[0]])
        out[model.classes_] = values
        return out

    return np.array(map_neighborhoods(score, rows, design, found, n_jobs=n_jobs)).reshape(
        found.n_queries, n_classes
    )
