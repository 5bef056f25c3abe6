"""How an ensemble is fitted: base models are tried on held-out rows, weighted, and refitted."""

import warnings
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import norm, rankdata
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils import check_random_state

from vicinal._base import (
    Blocks,
    Survey,
    TrainingData,
    _clock,
    as_numpy,
    check_magnitude,
    class_factors,
    fit_weighted,
    join_blocks,
    random_seeds,
    row_uniforms,
    saved,
    thread_map,
)
from vicinal._base._compat import threadpool_controller
from vicinal._conformal import HeldOutRows
from vicinal.auto._base_models import TableShape
from vicinal.auto._encodings import Encodings
from vicinal.auto._predict import base_predictions
from vicinal.auto._scorers import held_out_score
from vicinal.auto._search import Pool, Search, Trial, TrialData, search_models, widened
from vicinal.auto._settings import Settings
from vicinal.auto._tables import Table

# Up to so many rows a fit computes products of matrices with one thread.
_SMALL_TABLE = 5000
# Rows predicted to measure the time of a prediction.
_TIMED_ROWS = 100
# Rank correlations with the row number, or the row before, from which the order of rows matters.
_LEAST_ORDER = {"target": 0.3, "errors": 0.1}
_ORDERED_ROWS, _ORDERED_CLASSES = 20_000, 20
# Level of the test whether the order of rows matters, and the fewest rows that are tested.
_LEVEL, _MIN_ORDERED = 1e-4, 20
# Rows of the sample of a table in blocks; a table of no more is fitted as in memory.
SAMPLE_ROWS = 100_000
# Of a class so rare that the sample would lose it, about so many are sampled.
_OF_A_CLASS = 20


class EnsembleFit(NamedTuple):
    """Result of a fit."""

    encodings: Encodings
    base_models: list["BaseModel"]  # fitted, largest weight first
    skipped: list["BaseModel"]
    cv_results: dict[str, np.ndarray]
    score: float
    score_error: float
    held_out: np.ndarray  # (n_given, n_outputs), NaN where a row was not predicted
    held_out_rows: HeldOutRows
    order: str  # how the order of the rows matters; empty if it does not, or was accounted for


@saved(limits="2 o")
@dataclass
class BaseModel:
    """A model of the ensemble, or a model that was skipped.

    Attributes
    ----------
    name : str
        Its name.
    weight : float
        Its weight in every prediction; 0 if it was skipped.
    reason : str
        Why it was skipped, empty for models that carry weight.
    loss : float
        Mean held-out loss: log loss after calibration, squared error in units of the variance, or
        quantile loss in units of the standard deviation; NaN if it was not tried.
    params : dict
        Setting that was chosen on held-out rows.
    trial_time, fit_time, predict_time : float
        Seconds of predicting held-out rows with all settings, of the fit to all rows, and of the
        prediction of 1,000 rows; NaN where there was none.
    n_rows : int
        Number of rows that it was fitted to.
    encoding : {"distance", "tree"}
        Encoding of the table that it is given.
    estimator : estimator or None
        Fitted to the encoded table.
    slope : float
        One over the temperature of its probabilities; 1 for regression.
    offset : float
        What is added to its predictions, where ``scoring`` is about a quantile.
    limits : ndarray of shape (2, n_outputs) or None
        Between which its predictions are kept; ``None`` for probabilities.
    """

    name: str
    weight: float = 0.0
    reason: str = ""
    loss: float = np.nan
    params: dict | None = None
    trial_time: float = np.nan
    fit_time: float = np.nan
    predict_time: float = np.nan
    n_rows: int = 0
    encoding: str = "distance"
    estimator: Any = None
    slope: float = 1.0
    offset: float = 0.0
    limits: np.ndarray | None = None

    def predict(self, X, classes: np.ndarray | None) -> np.ndarray:
        """Return predictions, or probabilities of ``classes`` before calibration, as columns."""
        found = base_predictions(self.estimator, X, classes)
        return found if self.limits is None else np.clip(found, *self.limits)


def fit_ensemble(data: Table, class_weight: Any, n_given: int, settings: Settings) -> EnsembleFit:
    """Try base models on held-out rows, weight them and fit those that carry weight.

    ``n_given`` is the number of rows of the table given, of which some may have no weight.
    """
    # Products of small matrices take longer with several threads; models and folds run at the same
    # time instead.
    limits = 1 if len(data.y) <= _SMALL_TABLE else None
    with threadpool_controller().limit(limits=limits, user_api="blas"):
        return _fit_ensemble(data, class_weight, n_given, settings)


def _fit_ensemble(data: Table, class_weight: Any, n_given: int, settings: Settings) -> EnsembleFit:
    encodings, weight = data.encodings(), data.weights
    if data.classes is not None:
        weight = weight * class_factors(class_weight, data.classes, data.y, weight)[data.y]
    # Equal weights are none; the ensemble does not depend on their unit.
    own = None if np.ptp(weight) == 0.0 else weight
    X = encodings.fit_transform(data.X, data.labels, data.groups)
    whole = TrialData(X, data.y, data.classes, own, data.groups, data.index)
    check_magnitude("X", X["distance"])  # a column of a frame among categorical ones, too
    shape = _shape(whole, encodings, settings)
    search = search_models(data, whole, shape, settings, weight, n_given)
    trial = search.data
    cv_results = _cv_results(search)
    base_models, skipped = _fit_pool(search, whole, settings.model.max_predict_time)
    predictions = search.nested_predictions()
    known = np.flatnonzero(np.isfinite(predictions[:, 0]))
    predictions, rows = predictions[known], trial.entries[known]
    score = held_out_score(
        search.scorer.part(known), predictions, trial.units[rows], trial.n_units_learned
    )
    held_out = _mean_predictions(predictions, trial.positions[rows], n_given)
    judged = trial.take(np.unique(rows))
    held_out_rows = HeldOutRows(
        as_numpy(judged.X["distance"]),
        held_out[judged.positions],
        judged.y if data.classes is not None else judged.y.reshape(len(judged), -1),
        # The weights given, without those of classes.
        data.weights[np.searchsorted(data.positions, judged.positions)],
        settings.n_jobs,
        groups=judged.groups,
    )
    order = ""
    if settings.splits is None and data.groups is None:
        order = _order(data, held_out_rows)
    results = cv_results, *score, held_out, held_out_rows, order
    return EnsembleFit(encodings, base_models, skipped, *results)


def _order(data: TrainingData, rows: HeldOutRows) -> str:
    """Return whether the order of the rows predicts the target, or the errors; empty if neither."""
    y, targets, predictions = data.y, rows.targets, rows.predictions
    if is_sorted(y, data.classes is not None):
        return ""
    # Of a long table, blocks of neighbours.
    y = y[np.arange(len(y)) // 100 % (1 + len(y) // _ORDERED_ROWS) == 0]
    if data.classes is not None:
        frequent = np.argsort(-np.bincount(data.y), kind="stable")[:_ORDERED_CLASSES]
        y, targets = (codes[:, None] == frequent for codes in (y, targets))
        predictions = predictions[:, frequent]
    if depends_on_order(y.reshape(len(y), -1), _LEAST_ORDER["target"]):
        return "the order of the rows predicts the target"
    errors = targets - predictions
    if depends_on_order(errors, _LEAST_ORDER["errors"]):
        return "held-out errors depend on the order of the rows"
    return ""


def depends_on_order(columns: np.ndarray, least: float) -> bool:
    """Return whether columns of values drift with the row number, or resemble the row before.

    Rank correlations with the row number, and with the row before, have a standard error of one
    over the root of the number of rows if the order is random; those below ``least`` do not count.
    """
    n = len(columns)
    ranks = rankdata(columns, axis=0)
    ranks -= ranks.mean(axis=0)
    spread = ranks.std(axis=0)
    if n < _MIN_ORDERED or not spread.any():
        return False
    number = np.arange(n) - 0.5 * (n - 1)
    drift = np.abs(number @ ranks) / (n * number.std() * np.where(spread > 0.0, spread, 1.0))
    likeness = (ranks[1:] * ranks[:-1]).sum() / (ranks**2).sum()
    by_chance = norm.isf(_LEVEL / (4.0 * columns.shape[1])) / np.sqrt(n)
    return bool(max(drift.max(), likeness) > max(by_chance, least))


def is_sorted(y: np.ndarray, has_classes: bool) -> bool:
    """Return whether rows are sorted by the target, so that their order means nothing else."""
    steps = np.diff(y, axis=0)
    if has_classes:
        return np.count_nonzero(steps) == len(np.unique(y)) - 1
    return bool((steps >= 0.0).all() or (steps <= 0.0).all())


def _shape(data: TrialData, encodings: Encodings, settings: Settings) -> TableShape:
    n_outputs = 1 if data.y.ndim == 1 else data.y.shape[1]
    return TableShape(
        len(data),
        data.X["distance"].shape[1],
        n_outputs if data.classes is None else len(data.classes),
        data.classes is not None,
        data.groups is not None,
        encodings.categorical,
        settings.n_jobs,
        settings.rules,
        settings.model.max_fit_time is not None,
        settings.model.preset,
        settings.device,
        None if settings.metric is None else settings.metric.quantile,
        None if settings.signs is None else encodings.encoded_signs(settings.signs, data.X),
        data.X["tree"].shape[1],
    )


def _mean_predictions(predictions: np.ndarray, rows: np.ndarray, n_given: int) -> np.ndarray:
    """Return the mean prediction of every row that was predicted, NaN for the others."""
    total, count = np.zeros((n_given, predictions.shape[1])), np.zeros((n_given, 1))
    np.add.at(total, rows, predictions)
    np.add.at(count, rows, 1.0)
    with np.errstate(invalid="ignore"):
        return total / count


def _fit_pool(
    search: Search, data: TrialData, max_predict_time: float | None
) -> tuple[list[BaseModel], list[BaseModel]]:
    """Fit the models that carry weight; return them, and those skipped with a reason.

    Models are dropped until a row is predicted in ``max_predict_time`` seconds: first the one whose
    gain for each second of predictions is the least.
    """
    limit = np.inf if max_predict_time is None else 1000.0 * max_predict_time
    while True:
        pool = search.pool(np.arange(len(search.data.entries)))
        used, skipped = _base_models(search, pool, data)
        seconds = sum(model.predict_time for model in used)
        if seconds <= limit:
            return used, skipped
        if len(pool.trials) == 1:
            warnings.warn(
                f"max_predict_time={max_predict_time:.2g} is exceeded: the base model that is left "
                f"takes {seconds / 1000.0:.2g} s for a row.",
                UserWarning,
                stacklevel=5,
            )
            return used, skipped
        times = np.array([one.model.predict_time if one.model else np.nan for one in pool.trials])
        slow = pool.least_useful(times)
        pool.trials[
            slow
        ].reason = f"a row takes {times[slow]:.2g} ms, too long for max_predict_time"


def _base_models(
    search: Search, pool: Pool, data: TrialData
) -> tuple[list[BaseModel], list[BaseModel]]:
    """Fit the models of a pool that are not yet fitted; return them, and those skipped."""
    models: list[BaseModel] = []
    fits: list[tuple[BaseModel, Trial, int]] = []
    judged = iter(zip(pool.candidates, pool.weights, pool.slopes, strict=True))
    for trial in search.trials:
        model = trial.model or BaseModel(trial.spec.name, encoding=trial.spec.encoding)
        model.weight, model.reason = 0.0, trial.reason
        models.append(model)
        if trial.reason:
            model.estimator = None
            continue
        c, weight, slope = next(judged)
        model.loss = float((trial.losses @ search.scorer.share)[c])
        model.params = trial.candidates[c]
        model.trial_time = trial.seconds
        model.weight = float(weight)
        setattr(model, "slope" if data.classes is not None else "offset", float(slope))
        if model.weight == 0.0:
            model.reason = "it would not improve the ensemble"
        elif model.estimator is None:
            fits.append((model, trial, c))
            trial.model = model
    was_sampled = len(search.data) < len(data)
    thread_map(lambda fit: _fit_to_all(data, was_sampled, *fit), fits, search.n_jobs)
    used = sorted((model for model in models if model.weight > 0.0), key=lambda one: -one.weight)
    return used, [model for model in models if model.weight == 0.0]


def _fit_to_all(
    data: TrialData, was_sampled: bool, model: BaseModel, trial: Trial, candidate: int
) -> None:
    """Fit one base model to all rows and measure its times."""
    X, y, weight = data.X[model.encoding], data.labels, data.sample_weight
    # Models are fitted at the same time, and threads of a library would only queue.
    with threadpool_controller().limit(limits=1, user_api="openmp"):
        start = _clock.now()
        if trial.fitted is not None:
            # The rows that it was tried on are all rows, or some of them.
            model.estimator = trial.fitted(candidate, *((X, y, weight) if was_sampled else ()))
        else:
            estimator = clone(trial.spec.estimator).set_params(**trial.candidates[candidate])
            model.estimator = fit_weighted(estimator, X, y, weight)
        model.fit_time = _clock.now() - start
    model.n_rows = len(data)
    if data.classes is None:
        y = data.y.reshape(len(data), -1)
        model.limits = widened(np.array([y.min(axis=0), y.max(axis=0)]), trial.reach)
    some = X[:_TIMED_ROWS]
    model.predict(some[:1], data.classes)  # compiles
    start = _clock.now()
    model.predict(some, data.classes)
    model.predict_time = (_clock.now() - start) * 1000.0 / len(some)


def _cv_results(search: Search) -> dict[str, np.ndarray]:
    """Return every setting that was tried, with its loss."""
    judged = search.judged()
    pairs = [(trial.spec.name, setting) for trial in judged for setting in trial.candidates]
    names, params = np.array(pairs, dtype=object).T
    losses = [trial.losses @ search.scorer.share for trial in judged]
    return {"name": names, "params": params, "loss": np.concatenate(losses)}


# --- tables in blocks of rows: chosen on a sample, fitted by sums where a model can ---------------


def sample_blocks(blocks: Blocks, found: Survey, random_state) -> tuple[TrainingData, np.ndarray]:
    """Return rows of located blocks, some of every class, and their positions in the table."""
    random_state = 0 if random_state is None else deepcopy(random_state)
    seed = random_seeds(check_random_state(random_state), 1)[0]
    share = min(1.0, SAMPLE_ROWS / found.n_rows)
    shares = np.array([share])
    if found.classes is not None:
        shares = np.clip(_OF_A_CLASS / found.class_rows, share, 1.0)
    parts = blocks.gather(_sample_block, shares, found.classes, seed)
    return join_blocks([part for part, _ in parts]), np.concatenate([part[1] for part in parts])


def _sample_block(block: TrainingData, shares: np.ndarray, classes, seed: int) -> tuple:
    """Return rows by random numbers of their own, whatever the blocks, and their positions."""
    codes = 0 if classes is None else np.searchsorted(classes, block.y)
    rows = np.flatnonzero(row_uniforms(seed, block.start, len(block)) < shares[codes])
    return block.take(rows), block.start + rows


def fit_to_blocks(
    model: BaseModel, blocks: Blocks, found: Survey, encodings: Encodings, class_weight: Any
) -> None:
    """Fit the last step of a base model to all rows if it can; steps before it know the sample."""
    estimator, steps, classes = model.estimator, None, found.classes
    name, last = estimator.steps[-1] if isinstance(estimator, Pipeline) else ("", estimator)
    if not hasattr(last, "fit_blocks"):
        return
    factors = None
    if classes is not None and class_weight is not None:
        codes = np.arange(len(classes))
        factors = class_factors(class_weight, classes, codes, found.class_weights)
    if last is not estimator:
        steps = estimator[:-1]
    shared = encodings, model.encoding, steps
    width = _encoded(np.zeros((1, blocks.n_features)), *shared).shape[1]
    encoded = blocks.then(_encode_block, *shared, width, classes, factors, n_features=width)
    last = clone(last).fit_blocks(encoded)
    model.estimator = last if steps is None else Pipeline([*steps.steps, (name, last)])
    model.n_rows, model.limits = found.n_rows, None  # that of the sample is not of all rows


def _encoded(X, encodings: Encodings, encoding: str, steps) -> np.ndarray:
    X = encodings.transform(X, encoding)
    return X if steps is None else steps.transform(X)


def _encode_block(
    block: TrainingData, encodings, encoding, steps, width, classes, factors
) -> TrainingData:
    X = np.zeros((0, width))
    if len(block):
        X = _encoded(block.X, encodings, encoding, steps)
    weight = block.sample_weight
    if factors is not None:
        weight = weight * factors[np.searchsorted(classes, block.y)]
    return replace(block, X=X, sample_weight=weight)
