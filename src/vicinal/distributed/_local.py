"""Local models of a table larger than memory: around each query, or at anchors."""

from copy import deepcopy
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import dask.array as da
import numpy as np
from dask import delayed
from sklearn.base import clone, is_classifier
from sklearn.frozen import FrozenEstimator

from vicinal._base import draw_seeds
from vicinal._kernels.calibration._temperature import fit_temperature
from vicinal.distributed._blocks import Block, Blocks
from vicinal.distributed._compute import compute
from vicinal.distributed._fit import fits
from vicinal.distributed._neighbors import (
    Ball,
    Found,
    Shards,
    check_columns,
    lazy_rows,
    query_lengths,
    take_rows,
)
from vicinal.distributed._sample import sample_rows
from vicinal.distributed._standardized import Standardized
from vicinal.distributed._survey import Survey, survey
from vicinal.local import LocalClassifier, LocalRegressor
from vicinal.local._anchored import Plan, _Search
from vicinal.local._forest import FORESTS
from vicinal.local._metrics import search_metric
from vicinal.local._neighborhood import NearestRule
from vicinal.local._selection import MAX_ROWS, draw_rows

# Rows on which centres are placed and all that is open is chosen, in memory.
SAMPLE_ROWS = 100_000
# A model at an anchor sees as large a share of the table as it did of the sample, up to this.
_MOST_NEIGHBORS = 1280
# Numbers of the neighbours' rows that meet in one task.
_ENTRIES = 2**22
_CALIBRATION_QUERIES = 500
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
    """Fit a local model around each query, among rows that no machine holds.

    The neighbours of a block of queries are found by exact search in every block of ``X`` and
    merged with their rows and targets; the local models are then fitted by the estimator itself, to
    the few rows that matter. Answers equal those of the estimator fitted in memory.

    Parameters
    ----------
    estimator : LocalClassifier or LocalRegressor
        Unfitted, with nothing left open: a whole number ``n_neighbors``, ``alpha``, ``degree`` and
        ``metric`` given. The metric is one of scikit-learn, "standardized" or a fitted transformer
        in a :class:`~sklearn.frozen.FrozenEstimator`. Choose them by fitting the estimator to a
        sample in memory.
    X : dask array or data frame of shape (n_samples, n_features)
        Training rows.
    y : dask array or series of shape (n_samples,)
        Their targets.
    Q : dask array or data frame of shape (n_queries, n_features)
        Queries; each of its blocks visits every block of ``X``.
    method : {"predict", "predict_proba", "decision_function", "local_coef"}, default="predict"
        What to ask of the estimator.
    sample_weight : dask array or series of shape (n_samples,), default=None
        How often each row counts.
    verbose : int, default=0
        With 1, Dask's progress bar for the passes made before the answer is returned.

    Returns
    -------
    dask array
        Not computed yet; a block for every block of ``Q``.

    See Also
    --------
    fit : With ``anchors``, a model of its own, which answers any number of queries.
    kneighbors : The search alone.

    Notes
    -----
    A local model of k neighbours is a function of the rows within the ball around its query that
    weighs more than k (ties included), and that ball is contained in the union of the balls of the
    blocks: the search loses nothing, whatever the blocks. Probabilities need the temperature, which
    is fitted as in memory to the scores of 3000 drawn rows, each left out of its own model; their
    neighbours are searched first. Means and scales are sums over blocks, so that results differ
    from those in memory by rounding only.

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
    _check_settled(estimator)
    if method not in _METHODS or not hasattr(estimator, method):
        raise ValueError(
            f"method={method!r} is not one that {type(estimator).__name__} answers with here; use "
            f"one of {[m for m in _METHODS if hasattr(estimator, m)]}."
        )
    blocks, queries = Blocks.of(X, y, sample_weight), Blocks.of(Q)
    check_columns(blocks, queries)
    blocks, found = survey(blocks, has_classes=is_classifier(estimator), verbose=verbose)
    if estimator.n_neighbors > found.weight:
        raise ValueError(
            f"n_neighbors={estimator.n_neighbors} exceeds the {found.weight:g} samples given "
            "(counted by weight); lower n_neighbors."
        )
    frame = _Frame.of(estimator, blocks, found)
    if method == "predict_proba":
        frame = frame.calibrated(estimator, blocks, found, verbose)
    return _lazy_answers(frame, blocks, queries, Q, method)


@dataclass(frozen=True)
class _Place:
    """From rows to the coordinates of the search."""

    columns: np.ndarray | None
    transformer: Any

    def __call__(self, X):
        X = X if self.columns is None else X[:, self.columns]
        return X if self.transformer is None else np.asarray(self.transformer.transform(X))


@dataclass(frozen=True)
class _Frame:
    """All of a local model but its rows."""

    estimator: Any  # nothing left to learn but the rows
    classes: np.ndarray | None
    temperature: float | None
    place: _Place

    @classmethod
    def of(cls, estimator, blocks: Blocks, found: Survey) -> "_Frame":
        """Settle what depends on all rows: coordinates and weights of classes."""
        model = clone(estimator).set_params(n_jobs=1, verbose=0)
        mask = _location_mask(model, blocks)
        model.set_params(location_columns=mask)
        columns = None if mask is None else np.flatnonzero(mask)
        if isinstance(model.metric, str) and model.metric == "standardized":
            model.set_params(metric=Standardized.of(found, columns))
        transformer = model.metric if hasattr(model.metric, "transform") else None
        if is_classifier(model):
            model.set_params(calibration=None)
            if model.class_weight == "balanced":
                balanced = zip(found.classes, _balanced(found), strict=True)
                model.set_params(class_weight=dict(balanced))
        return cls(model, found.classes, None, _Place(columns, transformer))

    def shards(self, blocks: Blocks) -> Shards:
        """Return the blocks, to be searched in the coordinates of the model."""
        return Shards(
            blocks,
            place=self.place,
            carry=("X", "y", "sample_weight"),
            count_weights=True,
            metric=search_metric(self.estimator.metric),
            metric_params=self.estimator.metric_params,
        )

    def around(self, found: Found):
        """Return the model of the rows found: for their queries, as good as that of all rows."""
        X, y, sample_weight = found.columns
        if self.classes is None:
            return clone(self.estimator).fit(X, y, sample_weight)
        model = clone(self.estimator)
        model.partial_fit(X, y, classes=self.classes, sample_weight=sample_weight)
        model.temperature_ = self.temperature
        return model

    def calibrated(self, estimator, blocks: Blocks, survey: Survey, verbose: int) -> "_Frame":
        """Return the frame with the temperature that a fit in memory would find."""
        if estimator.calibration is None:
            return self
        positions = draw_rows(survey.n_rows, estimator.random_state, MAX_ROWS)
        rows = take_rows(blocks, positions, verbose=verbose)
        place = self.place(rows.X)
        # One copy of the row itself is left out, or all of it: its ball must hold that much more.
        rule = Ball(estimator.n_neighbors + max(1.0, float(rows.sample_weight.max())))
        groups = [
            slice(start, start + _CALIBRATION_QUERIES)
            for start in range(0, len(positions), _CALIBRATION_QUERIES)
        ]
        searched = self.shards(blocks).lazy_search([place[group] for group in groups], rule)
        score = delayed(_left_out_scores, pure=True)
        frame = delayed(self, pure=True)
        scores = compute(
            [
                score(frame, found, positions[group])
                for found, group in zip(searched, groups, strict=True)
            ],
            verbose=verbose,
        )
        if scores[0] is None:
            return self
        codes = _codes(rows, survey.classes)
        share = None if np.all(rows.sample_weight == 1.0) else rows.sample_weight
        temperature = fit_temperature(np.concatenate(scores), codes, share)
        return _Frame(self.estimator, self.classes, temperature, self.place)


def _left_out_scores(frame: _Frame, found: Found, positions: np.ndarray):
    """Return scores of training rows, each left out; ``None`` where the model has its own."""
    model = frame.around(found)
    model.calibration = "temperature"
    if not model._has_temperature():
        return None
    return model._left_out_scores(np.searchsorted(found.positions, positions), model._data)


def _lazy_answers(frame: _Frame, blocks: Blocks, queries: Blocks, Q, method: str):
    shards, rule = frame.shards(blocks), Ball(float(frame.estimator.n_neighbors))
    ask = delayed(_ask, pure=True)
    shared = delayed(frame, pure=True)
    width, dtype = _answer_kind(frame, blocks.n_features, method)
    answers = []
    parts = zip(
        queries.parts,
        lazy_rows(queries, frame.place),
        query_lengths(Q, len(queries)),
        strict=True,
    )
    for part, place, length in parts:
        found = shards.lazy_search([place], rule)[0]
        lazy = ask(shared, found, part, method, (*width, dtype))
        answers.append(da.from_delayed(lazy, (length, *width), dtype=dtype))
    return da.concatenate(answers, allow_unknown_chunksizes=True)


def _ask(frame: _Frame, found: Found, queries: Block, method: str, kind: tuple):
    if len(queries) == 0:
        *width, dtype = kind
        return np.empty((0, *width), dtype=dtype)
    return getattr(frame.around(found), method)(queries.X)


def _answer_kind(frame: _Frame, n_features: int, method: str) -> tuple[tuple, Any]:
    """Return the shape of an answer beyond its length, and its type."""
    if frame.classes is None:
        return ((n_features,) if method == "local_coef" else ()), np.dtype(np.float64)
    if method == "predict":
        return (), frame.classes.dtype
    n_classes = len(frame.classes)
    outputs = (n_classes,) if n_classes > 2 or method == "predict_proba" else ()
    return (*outputs, n_features) if method == "local_coef" else outputs, np.dtype(np.float64)


def _codes(block: Block, classes: Any) -> np.ndarray:
    return np.searchsorted(classes, np.asarray(block.y))


def _balanced(found: Survey) -> np.ndarray:
    """Return the weights of classes that give each the same say."""
    held = found.class_weights
    return held.sum() / (len(held) * held)


def _check_settled(estimator) -> None:
    """Refuse what would have to be chosen, or needs other rows than the neighbours."""
    name = type(estimator).__name__
    if type(estimator) not in (LocalClassifier, LocalRegressor):
        raise TypeError(f"local_predict takes a LocalClassifier or LocalRegressor, not {name}.")
    if estimator.anchors is not None:
        raise ValueError(
            f"{name} with anchors is a model of its own; use vicinal.distributed.fit and predict."
        )
    own_model = estimator.estimator is not None
    is_open = {
        "metric": isinstance(estimator.metric, str) and estimator.metric == "auto",
        "alpha": isinstance(estimator.alpha, str) and not own_model,
        "degree": isinstance(estimator.degree, str) and not own_model,
    }
    for parameter, open_ in is_open.items():
        if open_:
            raise ValueError(
                f'{parameter}="auto" would be chosen by fits to all rows; fit {name} to a sample '
                f"in memory and hand in its {parameter}_."
            )
    if estimator.bandwidth is not None or not isinstance(estimator.n_neighbors, Integral):
        raise ValueError(
            f"n_neighbors={estimator.n_neighbors!r} and bandwidth={estimator.bandwidth!r}: the "
            "merged search needs a whole number n_neighbors and bandwidth=None."
        )
    if getattr(estimator, "robust_iterations", 0):
        raise ValueError(
            "robust_iterations weigh rows by the residuals of all of them; use 0 for a table that "
            "memory does not hold."
        )
    metric = estimator.metric
    learned = ("ranked", "within_class", "gradient", *FORESTS)
    if isinstance(metric, str) and metric in learned:
        raise ValueError(
            f'metric="{metric}" is learned from all rows; learn it on a sample and hand in the '
            "fitted transformer in a FrozenEstimator, or use a metric of scikit-learn or "
            '"standardized".'
        )
    if hasattr(metric, "transform") and not isinstance(metric, (FrozenEstimator, Standardized)):
        raise ValueError(
            f"metric={metric!r} would be fitted to neighbours only; fit it to a sample and wrap it "
            "in sklearn.frozen.FrozenEstimator."
        )


# --- anchors ---


@fits(LocalClassifier, LocalRegressor)
def fit_anchored(model, blocks: Blocks, verbose: int) -> None:
    """Place and choose on a sample in memory; fit the models at the anchors to all rows.

    A table of no more than ``SAMPLE_ROWS`` rows is its own sample: the fit is that in memory.
    """
    name = type(model).__name__
    if model.anchors is None:
        raise ValueError(
            f"{name} keeps every row unless it has anchors; give anchors=, a number of centres, or "
            "use vicinal.distributed.local_predict."
        )
    if model.bandwidth is not None or isinstance(model.n_neighbors, float):
        raise ValueError(
            f"n_neighbors={model.n_neighbors!r} and bandwidth={model.bandwidth!r}: models at "
            'anchors of a distributed table need n_neighbors, a whole number or "auto".'
        )
    if getattr(model, "robust_iterations", 0):
        raise ValueError(
            "robust_iterations weigh rows by the residuals of all of them; use 0 for a table that "
            "memory does not hold."
        )
    blocks, found = survey(blocks, has_classes=is_classifier(model), verbose=verbose)
    named = model.location_columns
    model.location_columns = _location_mask(model, blocks)
    seed = draw_seeds(0 if model.random_state is None else deepcopy(model.random_state), 1)[0]
    sample = sample_rows(blocks, found, SAMPLE_ROWS, seed, verbose=verbose)
    _fit_in_memory(model, *sample, found.classes)
    if found.n_rows > SAMPLE_ROWS:
        _fit_to_all(model, blocks, found, len(sample[0]), verbose)
    model.location_columns = named


def _location_mask(model, blocks: Blocks) -> np.ndarray | None:
    """Return which columns locate a row, by position: blocks have no names."""
    if model.location_columns is None:
        return None
    if blocks.feature_names is not None:
        model.feature_names_in_ = blocks.feature_names
    return model._location_mask(blocks.n_features)


def _fit_in_memory(model, X, y, sample_weight, classes) -> None:
    """Fit the sample; its classes are those of the table."""
    if classes is None:
        model.fit(X, y, sample_weight)
    else:
        model._fit_rows(X, y, sample_weight, None, classes)


def _fit_to_all(model, blocks: Blocks, survey: Survey, n_sampled: int, verbose: int) -> None:
    """Fit the models at the anchors again, to their neighbours among all rows."""
    sampled, coordinates = model.anchors_, model._data.coordinates
    count = min(
        float(np.floor(model.n_neighbors_ * survey.n_rows / n_sampled)),
        max(_MOST_NEIGHBORS, model.n_neighbors_),
    )
    rule = NearestRule(count, model.kernel)
    shards = Shards(
        blocks,
        place=_AnchorPlace(model._split_columns, coordinates),
        carry=("X", "y", "sample_weight"),
        count_weights=True,
        metric=search_metric(model.metric_),
        metric_params=model.metric_params,
    )
    # Groups of anchors, so that no task holds the neighbours of all.
    size = max(1, int(_ENTRIES // (count * blocks.n_features)))
    starts = range(0, len(sampled.centers), size)
    groups = [sampled.centers[start : start + size] for start in starts]
    found = compute(shards.lazy_search(groups, Ball(count)), verbose=verbose)
    rows = _union(found)
    data = _take_rows(model, rows, coordinates)
    if is_classifier(model) and model.class_weight == "balanced":
        model._factor = _balanced(survey)[model._codes]
    plan = Plan(rule, model.alpha_, sampled.n_blended, model.n_refits_)
    near = _Search(data, sampled.centers, [rule], model._factor).found(rule, None)
    model._keep_anchors(model._fit_plan(data, sampled.centers, near, plan), plan)
    model._factor = None
    if survey.classes is None:
        model._targets = model.anchors_.values
    else:
        model._codes = np.empty(0, dtype=np.int64)


@dataclass(frozen=True)
class _AnchorPlace:
    split: Any
    coordinates: Any

    def __call__(self, X):
        return self.coordinates(self.split(X)[0])


def _union(found: tuple[Found, ...]) -> Block:
    """Return the rows of several answers, each once, in the order of the table."""
    positions = np.concatenate([part.positions for part in found])
    _, first = np.unique(positions, return_index=True)
    X, y, sample_weight = (
        np.concatenate(column)[first]
        for column in zip(*(part.columns for part in found), strict=True)
    )
    return Block(X, y, sample_weight, None)


def _take_rows(model, rows: Block, coordinates):
    """Give the model the rows found, in place of those of the sample."""
    weights = None if np.all(rows.sample_weight == 1.0) else rows.sample_weight
    if is_classifier(model):
        model._codes = model._encode(rows.y)
        model._factor = model._class_factors(weights)
    else:
        model._targets = np.ascontiguousarray(rows.y, dtype=np.float64).reshape(len(rows), -1)
    return model._place_data(rows.X, weights, None, model.metric_, coordinates)
