"""Held-out rows and predictions for training rows by models that were fitted without them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import array_api_compat as compat
import numpy as np
from scipy.special import softmax
from sklearn.base import clone
from sklearn.model_selection import GroupKFold
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags
from sklearn.utils.validation import has_fit_parameter

from vicinal._base._arrays import as_numpy, is_array_api, namespace
from vicinal._base._compat import num_samples, rows_of, threadpool_controller
from vicinal._base._parallel import draw_seeds, parallel_map

_STEP = np.uint64(0x9E3779B97F4A7C15)


def row_uniforms(seed: int, start: int, n: int) -> np.ndarray:
    """Return one number in [0, 1) for each of the rows ``start .. start + n`` of the table.

    The number is a hash of seed and position (the finaliser of SplitMix64; Steele, Lea and Flood,
    2014), so that it hangs on neither the blocks nor the order in which they are worked.
    """
    with np.errstate(over="ignore"):
        state = (np.arange(start, start + n, dtype=np.uint64) + np.uint64(1)) * _STEP
        state += _mixed(np.asarray([seed], dtype=np.uint64) + _STEP)
        return (_mixed(state) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def hold_out(codes: np.ndarray, fraction: float, rng: np.random.RandomState) -> np.ndarray:
    """Choose rows to hold out, in proportion to the classes: a boolean mask.

    Rows are lined up by class, shuffled within, and every ``1 / fraction``-th is taken. A class of
    one row keeps it.
    """
    order = np.lexsort((rng.permutation(len(codes)), codes))
    order = order[np.bincount(codes)[codes[order]] > 1]
    mask = np.zeros(len(codes), dtype=bool)
    places = np.arange(rng.uniform() / fraction, len(order), 1 / fraction).astype(int)
    mask[order[places]] = True
    emptied = np.bincount(codes[~mask], minlength=codes.max() + 1)[codes] == 0
    mask[emptied] = False
    return mask


def _mixed(state: np.ndarray) -> np.ndarray:
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state ^ (state >> np.uint64(31))


@dataclass(frozen=True)
class OutOfFold:
    """What a model answered on rows it had not seen.

    Attributes
    ----------
    rows : ndarray of shape (n_rows,)
        Positions in the table, ascending; all rows when every fold was finished.
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


@dataclass(frozen=True)
class HeldOut:
    """What the candidates of an estimator say of rows they did not see.

    Attributes
    ----------
    candidates : list of dict
        Parameters of each candidate: ``clone(estimator).set_params(**candidates[c]).fit(X, y)`` is
        the model that ``answers[c]`` speaks for. ``[{}]`` where nothing is left open.
    rows : ndarray of int of shape (n_answers,)
        The training row of every answer, in the order of :func:`fold_entries`.
    answers : ndarray of shape (n_candidates, n_answers, n_outputs)
        What ``predict`` would say, as columns; of a classifier what ``predict_proba`` would say,
        one column for each label of ``np.unique(y)``.
    fitted : callable or None
        ``fitted(c)`` is that model, where what was learned on the way makes it cheaper than a fit;
        ``fitted(c, X, y, sample_weight)`` is the same with other rows, of which these may be some.
    more : callable or None
        ``more(folds)`` are the predictions of further folds, where work is shared between them.
    """

    candidates: list[dict[str, Any]]
    rows: np.ndarray
    answers: np.ndarray
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
    """Let an estimator answer training rows without having seen them.

    An estimator with a method ``held_out(X, y, *, folds, rows, sample_weight, groups)`` is asked
    for it: local models leave the row out of its neighbourhood, forests ask the trees that did not
    draw it, and all answer for every setting they would choose from. Of any other estimator copies
    are fitted to the rows outside each fold.

    Parameters
    ----------
    estimator : object
        Unfitted estimator.
    X, y
        Training rows and targets, or labels.
    folds : sequence of ndarray of int
        Rows of each fold. Repeated folds hold a row several times: it is then answered as often.
    sample_weight, groups : ndarray of shape (n_samples,), optional
        Weights of the rows; groups whose rows are left out together (folds must respect them).
    method : {"predict", "predict_proba"}, default="predict"
        What to answer with.
    rows : ndarray of int, optional
        Rows to answer; all of them by default.
    n_jobs : int, optional
        Folds at once, in threads.

    Returns
    -------
    HeldOut
        Candidates and their answers.
    """
    if isinstance(estimator, Pipeline) and hasattr(estimator.steps[-1][1], "held_out"):
        return _held_out_of_pipeline(
            estimator, X, y, folds, rows=rows, sample_weight=sample_weight, groups=groups
        )
    if hasattr(estimator, "held_out"):
        return estimator.held_out(
            X, y, folds=folds, rows=rows, sample_weight=sample_weight, groups=groups
        )
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

    ``classes`` are the columns of probabilities, those of y by default.
    """
    if method == "predict_proba" and classes is None:
        classes = np.unique(y)
    _, answers = cross_fit(
        lambda *some: _fit_in_one_thread(clone(estimator), *some),
        lambda model, some: aligned_answers(model, some, method, classes),
        X,
        y,
        folds,
        sample_weight=sample_weight,
        rows=rows,
        n_jobs=n_jobs,
        prefer="threads",
    )
    return HeldOut([{}], np.concatenate(fold_entries(folds, rows)), answers[None])


def _held_out_of_pipeline(pipeline, X, y, folds, **options) -> HeldOut:
    """Ask the last step, behind transformers that do not look at y and may see every row."""
    *_, (name, last) = pipeline.steps
    blind = clone(pipeline[:-1])
    looks = [step for _, step in blind.steps if get_tags(step).target_tags.required]
    if looks:
        raise ValueError(
            f"{looks[0]!r} learns from y, so rows that {last!r} leaves out would have been seen; "
            "hand it to the model itself, or use an estimator without held_out."
        )
    found = last.held_out(blind.fit_transform(X), y, folds=folds, **options)
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

    return HeldOut(candidates, found.rows, found.answers, found.fitted and fitted)


def group_folds(groups: np.ndarray, n_folds: int) -> list[np.ndarray]:
    """Return folds that hold groups whole; as many as there are groups at most."""
    n_groups = len(np.unique(groups))
    if n_groups < 2:
        raise ValueError(
            "groups holds one group only, and groups are held out whole; give rows of two groups "
            "or more, or leave groups out."
        )
    splits = GroupKFold(min(n_folds, n_groups)).split(groups, groups=groups)
    return [test for _, test in splits]


def rows_outside(fold: np.ndarray, n_rows: int) -> np.ndarray:
    """Return the other rows, in order: by a mask, where a set difference would sort or hash."""
    is_outside = np.ones(n_rows, dtype=bool)
    is_outside[fold] = False
    return np.flatnonzero(is_outside)


def fold_entries(folds: Sequence[np.ndarray], rows: np.ndarray | None = None) -> list[np.ndarray]:
    """Return the rows of each fold that are to be answered, in the order of the folds."""
    folds = [np.asarray(fold) for fold in folds]
    if rows is None:
        return folds
    is_asked = np.zeros(1 + max(int(part.max(initial=-1)) for part in (rows, *folds)), dtype=bool)
    is_asked[rows] = True
    return [fold[is_asked[fold]] for fold in folds]


def cross_fit(
    fit: Callable[[Any, Any, Any], Any],
    answer: Callable[[Any, Any], np.ndarray],
    X: Any,
    y: np.ndarray,
    folds: Sequence[np.ndarray],
    *,
    sample_weight: np.ndarray | None = None,
    rows: np.ndarray | None = None,
    keep_models: bool = False,
    n_jobs: int | None = None,
    prefer: str | None = None,
) -> tuple[list[Any], np.ndarray]:
    """Fit outside every fold and answer inside it.

    Parameters
    ----------
    fit : callable
        (X, y, sample_weight) -> model.
    answer : callable
        (model, X) -> ndarray with one row per row of X.
    X, y, folds, sample_weight, rows
        As in :func:`held_out`.
    keep_models : bool, default=False
        Also return the models.
    n_jobs, prefer
        As in joblib.

    Returns
    -------
    models : list
        One per fold that has a row to answer; ``None`` unless they are kept.
    answers : ndarray
        One below another, in the order of :func:`fold_entries`.
    """
    data = X, y, sample_weight
    tasks = [
        (fit, answer, *data, fold, entries, keep_models)
        for fold, entries in zip(folds, fold_entries(folds, rows), strict=True)
        if len(entries)
    ]
    results = parallel_map(_fit_and_answer, tasks, n_jobs=n_jobs, prefer=prefer)
    return [model for model, _ in results], np.concatenate([said for _, said in results])


def _fit_and_answer(fit, answer, X, y, sample_weight, fold, entries, keep_model):
    train = rows_outside(fold, num_samples(X))
    weight = None if sample_weight is None else sample_weight[train]
    model = fit(_some(X, train), y[train], weight)
    return (model if keep_model else None), answer(model, _some(X, entries))


def _some(X: Any, rows: np.ndarray) -> Any:
    """Return some rows, where they are."""
    if not is_array_api(X):
        return rows_of(X, rows)
    xp = namespace(X)
    return xp.take(X, xp.asarray(rows, device=compat.device(X)), axis=0)


def aligned_answers(fitted: Any, X: Any, method: str, classes: Any = None) -> np.ndarray:
    """Return answers as columns; probabilities have one column per class, 0 for an unseen one.

    A classifier without ``predict_proba`` answers by the softmax of its decision function, or else
    by its votes.
    """
    if method != "predict_proba":
        said = _numbers(getattr(fitted, method)(X))
        return said.reshape(len(said), -1)
    if hasattr(fitted, "predict_proba"):
        said = _numbers(fitted.predict_proba(X))
    elif hasattr(fitted, "decision_function"):
        said = _numbers(fitted.decision_function(X))
        said = softmax(np.stack([-said / 2, said / 2], 1) if said.ndim == 1 else said, axis=1)
    else:
        said = (fitted.predict(X)[:, None] == fitted.classes_).astype(np.float64)
    out = np.zeros((len(said), len(classes)))
    out[:, np.searchsorted(classes, fitted.classes_)] = said
    return out


def finite_answers(model: Any, said: np.ndarray) -> np.ndarray:
    """Return what a model says if all of it is numbers; others' models may answer NaN."""
    wrong = ~np.isfinite(said)
    if wrong.any():
        raise ValueError(
            f"{model!r} answers {said[wrong][0]} for {len(np.unique(np.nonzero(wrong)[0]))} of "
            f"{len(said)} rows; its sums overflow or vanish there, so scale X first (with "
            "sklearn.preprocessing.StandardScaler in a pipeline), or take another model."
        )
    return said


def _numbers(answers: Any) -> np.ndarray:
    return np.asarray(as_numpy(answers), dtype=np.float64)


def last_step(estimator: Any) -> Any:
    """Return the estimator at the end of (nested) pipelines, or the estimator itself."""
    while isinstance(estimator, Pipeline):
        estimator = estimator.steps[-1][1]
    return estimator


def takes_weights(estimator: Any) -> bool:
    """Tell whether ``fit`` takes sample weights, also at the end of a pipeline."""
    return has_fit_parameter(last_step(estimator), "sample_weight")


def fit_weighted(
    estimator: Any, X: Any, y: Any, weight: np.ndarray | None, groups: np.ndarray | None = None
) -> Any:
    """Fit with weights and groups, also at the end of a pipeline; ``None`` leaves one away.

    Groups reach models that take them.
    """
    prefix, inner = "", estimator
    while isinstance(inner, Pipeline):
        name, inner = inner.steps[-1]
        prefix += f"{name}__"
    given = {} if weight is None else {f"{prefix}sample_weight": weight}
    if groups is not None and has_fit_parameter(inner, "groups"):
        given[f"{prefix}groups"] = groups
    return estimator.fit(X, y, **given)


def _fit_in_one_thread(estimator: Any, X: Any, y: Any, weight: np.ndarray | None) -> Any:
    """Fit with one OpenMP thread: folds are as many as cores, and more threads only queue."""
    with threadpool_controller().limit(limits=1, user_api="openmp"):
        return fit_weighted(estimator, X, y, weight)


def seeded_clone(estimator: Any, seed: Any) -> Any:
    """Clone an estimator and give every unset ``random_state`` in it a seed of its own."""
    cloned = clone(estimator)
    names = sorted(
        name
        for name, value in cloned.get_params(deep=True).items()
        if (name == "random_state" or name.endswith("__random_state")) and value is None
    )
    if names:
        cloned.set_params(**dict(zip(names, draw_seeds(seed, len(names)), strict=True)))
    return cloned
