"""Held-out predictions: for training rows, by models that were fitted without them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, clone
from sklearn.metrics import check_scoring
from sklearn.model_selection import GroupKFold
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import has_fit_parameter

from vicinal._base._arrays import as_numpy, select_rows
from vicinal._base._compat import num_samples, threadpool_controller
from vicinal._base._parallel import parallel_map, random_seeds
from vicinal._base._unseen import unreported

_STEP = np.uint64(0x9E3779B97F4A7C15)


def row_uniforms(seed: int, start: int, n: int) -> np.ndarray:
    """Return one number in [0, 1) for each of the rows ``start .. start + n`` of the table.

    The number is a hash of seed and position (the finaliser of SplitMix64; Steele, Lea and Flood,
    2014), so that it depends neither on the blocks nor on their order.
    """
    with np.errstate(over="ignore"):
        state = (np.arange(start, start + n, dtype=np.uint64) + np.uint64(1)) * _STEP
        state += _mixed(np.asarray([seed], dtype=np.uint64) + _STEP)
        return (_mixed(state) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def hold_out(codes: np.ndarray, fraction: float, rng: np.random.RandomState) -> np.ndarray:
    """Return a boolean mask of rows to hold out, stratified by class.

    Rows are sorted by class, shuffled within, and every ``1 / fraction``-th is held out. The only
    row of a class is never held out.
    """
    order = np.lexsort((rng.permutation(len(codes)), codes))
    order = order[np.bincount(codes)[codes[order]] > 1]
    mask = np.zeros(len(codes), dtype=bool)
    chosen = np.arange(rng.uniform() / fraction, len(order), 1 / fraction).astype(int)
    mask[order[chosen]] = True
    emptied = np.bincount(codes[~mask], minlength=codes.max() + 1)[codes] == 0
    mask[emptied] = False
    return mask


def _mixed(state: np.ndarray) -> np.ndarray:
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state ^ (state >> np.uint64(31))


@dataclass(frozen=True)
class OutOfFold:
    """Predictions of one model for rows that it was not fitted to.

    Attributes
    ----------
    rows : ndarray of shape (n_rows,)
        Row numbers, ascending; all rows if every fold was completed.
    prediction : ndarray of shape (n_rows,)
        Predicted labels or values.
    proba : ndarray of shape (n_rows, n_classes) or None
        Class probabilities, in the order of ``classes``.
    classes : ndarray of shape (n_classes,) or None
        All labels of the table, sorted; ``None`` for a regressor.
    """

    rows: np.ndarray
    prediction: np.ndarray
    proba: np.ndarray | None
    classes: np.ndarray | None


def stored_score(result: Any, y: Any, scoring: Any, sample_weight: Any = None) -> float:
    """Score stored predictions as scikit-learn's scorer would score the model.

    ``result`` has the attributes ``prediction``, ``classes`` (``None`` for a regressor), ``proba``
    and ``decision``, ``None`` where there are none.
    """
    stored = (_StoredRegressor if result.classes is None else _StoredClassifier)(result)
    scorer = check_scoring(stored, scoring)
    has_weights = sample_weight is not None and hasattr(scorer, "_score_func")
    weights = {"sample_weight": sample_weight} if has_weights else {}
    try:
        return float(scorer(stored, np.zeros((len(y), 1)), y, **weights))
    except AttributeError as error:
        raise ValueError(f"{scoring} needs scores that this model does not give") from error


def _has(name: str):
    return available_if(lambda stored: getattr(stored.result, name) is not None)


class _Stored(BaseEstimator):
    """Stored predictions with the interface of a fitted estimator."""

    def __init__(self, result):
        self.result = result
        if result.classes is not None:
            self.classes_ = result.classes

    def fit(self, X, y):
        return self

    def predict(self, X):
        return self.result.prediction

    @_has("proba")
    def predict_proba(self, X):
        return self.result.proba

    @_has("decision")
    def decision_function(self, X):
        return self.result.decision

    def __sklearn_is_fitted__(self):
        return True


class _StoredClassifier(ClassifierMixin, _Stored):
    pass


class _StoredRegressor(RegressorMixin, _Stored):
    pass


@dataclass(frozen=True)
class HeldOut:
    """Held-out predictions of all candidate settings of an estimator.

    Attributes
    ----------
    candidates : list of dict
        Parameters of each candidate: ``predictions[c]`` are the held-out predictions of
        ``clone(estimator).set_params(**candidates[c])``. ``[{}]`` if there is nothing to select.
    rows : ndarray of int of shape (n_predictions,)
        The training row of every prediction, in the order of :func:`fold_entries`.
    predictions : ndarray of shape (n_candidates, n_predictions, n_outputs)
        Predicted values, or class probabilities with a column for each label of ``np.unique(y)``.
    fitted : callable or None
        ``fitted(c)`` returns candidate ``c`` fitted to all rows, at less cost than a fit;
        ``fitted(c, X, y, sample_weight)`` the same for other rows.
    more : callable or None
        ``more(folds)`` are the predictions of further folds, where work is shared between them;
        those of the folds before come first if they change.
    """

    candidates: list[dict[str, Any]]
    rows: np.ndarray
    predictions: np.ndarray
    fitted: Callable[..., Any] | None = None
    more: Callable[..., Any] | None = None


def held_out(
    estimator: Any,
    X: Any,
    y: np.ndarray,
    folds: Sequence[np.ndarray],
    *,
    sample_weight: np.ndarray | None = None,
    groups: np.ndarray | None = None,
    method: str = "predict",
    rows: np.ndarray | None = None,
    n_jobs: int | None = None,
) -> HeldOut:
    """Return held-out predictions of an estimator for its training rows.

    An estimator with a method ``held_out(X, y, *, folds, rows, sample_weight, groups)`` computes
    them itself, for every setting it selects from: local models exclude the row from its
    neighbourhood, forests use the trees without the row. Any other estimator is cloned and fitted
    to the rows outside each fold.

    Parameters
    ----------
    estimator : object
        Unfitted estimator.
    X, y
        Training rows and targets, or labels.
    folds : sequence of ndarray of int
        Rows of each fold. With repeated folds a row is predicted several times.
    sample_weight, groups : ndarray of shape (n_samples,), optional
        Weights of the rows; groups whose rows are held out together (folds must respect them).
    method : {"predict", "predict_proba"}, default="predict"
        The method that predicts.
    rows : ndarray of int, optional
        Rows to predict; all of them by default.
    n_jobs : int, optional
        Number of folds in parallel, in threads.

    Returns
    -------
    HeldOut
        Candidates and their predictions.
    """
    options = {"rows": rows, "sample_weight": sample_weight, "groups": groups}
    if isinstance(estimator, Pipeline) and hasattr(estimator.steps[-1][1], "held_out"):
        return _held_out_of_pipeline(estimator, X, y, folds, **options)
    if hasattr(estimator, "held_out"):
        return estimator.held_out(X, y, folds=folds, **options)
    return held_out_by_folds(
        estimator, X, y, folds, sample_weight=sample_weight, method=method, rows=rows, n_jobs=n_jobs
    )


def held_out_by_folds(
    estimator: Any,
    X: Any,
    y: np.ndarray,
    folds: Sequence[np.ndarray],
    *,
    sample_weight: np.ndarray | None = None,
    method: str = "predict",
    classes: np.ndarray | None = None,
    rows: np.ndarray | None = None,
    n_jobs: int | None = None,
) -> HeldOut:
    """Fit copies to the rows outside each fold: :func:`held_out` of any estimator.

    ``classes`` are the columns of probabilities, by default those of y.
    """
    if method == "predict_proba" and classes is None:
        classes = np.unique(y)
    predictions = cross_fit(
        lambda *some: fit_in_one_thread(clone(estimator), *some),
        lambda model, some: aligned_predictions(model, some, method, classes),
        X,
        y,
        folds,
        sample_weight=sample_weight,
        rows=rows,
        n_jobs=n_jobs,
        prefer="threads",
    )
    return HeldOut([{}], np.concatenate(fold_entries(folds, rows)), predictions[None])


def _held_out_of_pipeline(pipeline, X, y, folds, **options) -> HeldOut:
    """Return held-out predictions of the last step; transformers that ignore y see every row."""
    *_, (name, last) = pipeline.steps
    blind = clone(pipeline[:-1])
    looks = [step for _, step in blind.steps if get_tags(step).target_tags.required]
    if looks:
        raise ValueError(
            f"{looks[0]!r} learns from y and would see the rows that {last!r} holds out; pass it "
            "to the model itself, or use an estimator without held_out."
        )

    def wrapped(found: Any) -> HeldOut:
        candidates = [
            {f"{name}__{key}": value for key, value in candidate.items()}
            for candidate in found.candidates
        ]

        def fitted(c: int, *table) -> Pipeline:
            whole, steps = clone(pipeline), blind
            if table:
                steps = clone(blind)
                table = steps.fit_transform(table[0]), *table[1:]
            whole.steps = [*steps.steps, (name, found.fitted(c, *table))]
            return whole

        return HeldOut(
            candidates,
            found.rows,
            found.predictions,
            found.fitted and fitted,
            found.more and (lambda folds: wrapped(found.more(folds))),
        )

    return wrapped(last.held_out(blind.fit_transform(X), y, folds=folds, **options))


def group_folds(groups: np.ndarray, n_folds: int) -> list[np.ndarray]:
    """Return at most ``n_folds`` folds of whole groups."""
    n_groups = len(np.unique(groups))
    if n_groups < 2:
        raise ValueError(
            "groups holds one group only, but at least two are needed to hold one out; pass more "
            "groups, or groups=None."
        )
    splits = GroupKFold(min(n_folds, n_groups)).split(groups, groups=groups)
    return [test for _, test in splits]


def rows_outside(fold: np.ndarray, n_rows: int) -> np.ndarray:
    """Return the other rows, in order."""
    is_outside = np.ones(n_rows, dtype=bool)
    is_outside[fold] = False
    return np.flatnonzero(is_outside)


def fold_entries(folds: Sequence[np.ndarray], rows: np.ndarray | None = None) -> list[np.ndarray]:
    """Return the rows of each fold that are predicted, in the order of the folds."""
    folds = [np.asarray(fold) for fold in folds]
    if rows is None:
        return folds
    is_wanted = np.zeros(1 + max(int(part.max(initial=-1)) for part in (rows, *folds)), dtype=bool)
    is_wanted[rows] = True
    return [fold[is_wanted[fold]] for fold in folds]


def cross_fit(
    fit: Callable[[Any, Any, Any], Any],
    predict: Callable[[Any, Any], np.ndarray],
    X: Any,
    y: np.ndarray,
    folds: Sequence[np.ndarray],
    *,
    sample_weight: np.ndarray | None = None,
    rows: np.ndarray | None = None,
    n_jobs: int | None = None,
    prefer: str | None = None,
) -> np.ndarray:
    """Fit outside every fold and predict inside it.

    Parameters
    ----------
    fit : callable
        (X, y, sample_weight) -> model.
    predict : callable
        (model, X) -> ndarray with one row per row of X.
    X, y, folds, sample_weight, rows
        As in :func:`held_out`.
    n_jobs, prefer
        As in joblib.

    Returns
    -------
    ndarray
        Predictions, concatenated in the order of :func:`fold_entries`.
    """
    tasks = [
        (fit, predict, X, y, sample_weight, fold, entries)
        for fold, entries in zip(folds, fold_entries(folds, rows), strict=True)
        if len(entries)
    ]
    return np.concatenate(parallel_map(_fit_and_predict, tasks, n_jobs=n_jobs, prefer=prefer))


def _fit_and_predict(fit, predict, X, y, sample_weight, fold, entries):
    train = rows_outside(fold, num_samples(X))
    weight = None if sample_weight is None else sample_weight[train]
    with unreported():
        model = fit(select_rows(X, train), y[train], weight)
        return predict(model, select_rows(X, entries))


def aligned_predictions(fitted: Any, X: Any, method: str, classes: Any = None) -> np.ndarray:
    """Return predictions as columns; probabilities have a column per class, 0 if it was not seen.

    Without ``predict_proba`` they are the softmax of the decision function, or else one for the
    predicted class.
    """
    if method != "predict_proba":
        values = _as_floats(getattr(fitted, method)(X))
        return values.reshape(len(values), -1)
    if hasattr(fitted, "predict_proba"):
        proba = _as_floats(fitted.predict_proba(X))
    elif hasattr(fitted, "decision_function"):
        scores = _as_floats(fitted.decision_function(X))
        scores = np.stack([-scores / 2, scores / 2], 1) if scores.ndim == 1 else scores
        proba = softmax(scores, axis=1)
    else:
        proba = (fitted.predict(X)[:, None] == fitted.classes_).astype(np.float64)
    return aligned_columns(proba, fitted.classes_, classes)


def aligned_columns(proba: np.ndarray, known: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Return probabilities of ``known`` classes with a column for each of ``classes``."""
    full = np.zeros((len(proba), len(classes)), dtype=proba.dtype)
    full[:, np.searchsorted(classes, known)] = proba
    return full


def finite_predictions(model: Any, values: np.ndarray) -> np.ndarray:
    """Return predictions if all are finite; models of other libraries may return NaN."""
    wrong = ~np.isfinite(values)
    if wrong.any():
        raise ValueError(
            f"{model!r} predicts {values[wrong][0]} for {len(np.unique(np.nonzero(wrong)[0]))} of "
            f"{len(values)} rows, but predictions must be finite. Scale X first (with "
            "sklearn.preprocessing.StandardScaler in a pipeline), or use another model."
        )
    return values


def _as_floats(values: Any) -> np.ndarray:
    return np.asarray(as_numpy(values), dtype=np.float64)


def last_step(estimator: Any) -> Any:
    """Return the estimator at the end of (nested) pipelines, or the estimator itself."""
    while isinstance(estimator, Pipeline):
        estimator = estimator.steps[-1][1]
    return estimator


def takes_weights(estimator: Any) -> bool:
    """Return whether ``fit`` takes sample weights, also at the end of a pipeline."""
    return has_fit_parameter(last_step(estimator), "sample_weight")


def check_takes_weights(estimator: Any, name: str = "estimator") -> None:
    """Raise if ``fit`` of an estimator does not take the sample weights that were given."""
    if not takes_weights(estimator):
        raise ValueError(
            f"sample_weight was given, but {name}={estimator!r} does not accept it; use another "
            "one, or repeat rows instead of weighting them."
        )


def fit_weighted(
    estimator: Any, X: Any, y: Any, weight: np.ndarray | None, groups: np.ndarray | None = None
) -> Any:
    """Fit with weights and groups, also at the end of a pipeline.

    ``None`` is not passed on, nor are groups to models that do not take them.
    """
    prefix, inner = "", estimator
    while isinstance(inner, Pipeline):
        name, inner = inner.steps[-1]
        prefix += f"{name}__"
    given = {} if weight is None else {f"{prefix}sample_weight": weight}
    if groups is not None and has_fit_parameter(inner, "groups"):
        given[f"{prefix}groups"] = groups
    return estimator.fit(X, y, **given)


def fit_in_one_thread(estimator: Any, *data: Any) -> Any:
    """Fit as ``fit_weighted``, with one OpenMP thread, because folds already use all cores."""
    with threadpool_controller().limit(limits=1, user_api="openmp"):
        return fit_weighted(estimator, *data)


def seeded_clone(estimator: Any, seed: Any, *, only_unset: bool = True) -> Any:
    """Clone an estimator and give every (unset) ``random_state`` in it a seed of its own."""
    cloned = clone(estimator)
    names = sorted(
        name
        for name, value in cloned.get_params(deep=True).items()
        if (name == "random_state" or name.endswith("__random_state"))
        and (value is None or not only_unset)
    )
    if names:
        cloned.set_params(**dict(zip(names, random_seeds(seed, len(names)), strict=True)))
    return cloned
