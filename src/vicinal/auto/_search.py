"""Try base models one after another on rows they have not seen, and average the best."""

import warnings
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.model_selection import GroupKFold, KFold, StratifiedGroupKFold

from vicinal._base import (
    HeldOut,
    Progress,
    TrainingData,
    _clock,
    aligned_predictions,
    fit_in_one_thread,
    fold_entries,
    held_out,
    last_step,
    n_threads,
    random_seeds,
    rows_outside,
    seeded_clone,
    takes_weights,
    thread_map,
)
from vicinal._base._tables import sampled_rows
from vicinal._kernels.ensemble._weights import few_weights, mean_and_error
from vicinal.auto._base_models import (
    FAMILIES,
    PRICES,
    Spec,
    TableShape,
    default_families,
    monotone_specs,
    signs_for,
)
from vicinal.auto._encodings import Split
from vicinal.auto._linear import settings_of
from vicinal.auto._scorers import ClassScorer, QuantileScorer, RegressionScorer, Scorer

# Rows of every class that base models are tried on, at least.
_LEAST_OF_A_CLASS = 10
# Rows on which base models are compared, within the memory that their candidates take.
_MAX_ROWS, _MIN_ROWS, _FLOPS = {"fast": 2000, "default": 5000, "best": 5000}, 1000, 2e10
# Tables of fewer rows are split into folds twice, because one split is noisy.
_MIDDLE = 1000
# Smaller weights are dropped, and more models than this.
_LEAST_WEIGHT, _MAX_MODELS = 0.02, 6
# A model whose loss exceeds the least by this factor and this much more gets no weight.
_BEHIND, _SLACK = 1.5, 0.05
# The best model must beat the constant by so many standard errors, or order rows by more.
_CERTAIN, _SEPARATED = 2.0, 3.0
# Folds that use less than this share of the rows, to learn or to test, go forward in time.
_FORWARD = 0.9
# Models of less than so many seconds are always tried.
_CHEAP = 0.2
# Why a trial has no result: it has not ended, or its predictions are not finite.
_WAITS, _NOT_FINITE = "its trial has not ended", "it predicted NaN or infinity"
# How many times as long as estimated a model may take while the pace of the machine is unknown.
_UNKNOWN_PACE = 3.0
# What cannot be stopped after its first fold may take so many times as long as expected.
_WHOLE_MARGIN = 2.0
# A forest takes so many times as long as the first fold of its probe.
_PROBE_SHARE = 25.0
# Share of a fit that is left where the trial has learned most of it.
_LEARNED = 0.2
# Predictions may leave the range of the targets by one of these shares of it.
_REACHES = (0.25, 0.5, 1.0, 10.0)
# Weights at which the gain of adding a model to the ensemble is estimated.
_ADDED_WEIGHTS = np.linspace(0.1, 1.0, 10)


@dataclass(frozen=True)
class TrialData(TrainingData):
    """Training rows as base models see them, with the folds they are tried on.

    Attributes
    ----------
    X : dict of str to array
        Rows in each encoding.
    folds : list of ndarray
        Rows of each fold, one repetition after another.
    n_repeats : int
        How often the rows were split into folds.
    judged : ndarray of int
        Rows that base models predict.
    growth : float
        How many times as many rows the chosen models are fitted to.
    splits : list of Split
        Where ``cv`` is no number of folds: which rows each fold learns from. Models are then
        fitted to these alone.
    is_forward : bool
        Whether folds learn from some of the other rows only, such as earlier ones.
    """

    folds: Any = ()
    n_repeats: int = 1
    judged: Any = None
    growth: float = 1.0
    splits: Any = ()
    is_forward: bool = False

    def __len__(self) -> int:
        return len(self.y)

    def rows(self, index: np.ndarray) -> dict[str, Any]:
        """Return some rows in each encoding; encodings that are one array stay one."""
        parts = {id(X): X[index] for X in self.X.values()}
        return {name: parts[id(X)] for name, X in self.X.items()}

    @cached_property
    def entries(self) -> np.ndarray:
        """Row of every held-out prediction: the judged rows, fold after fold."""
        return np.concatenate(fold_entries(self.folds, self.judged))

    @cached_property
    def ranges(self) -> np.ndarray:
        """Least and largest target that the model of every entry learns from."""
        y = self.y.reshape(len(self), -1)
        rows = self.learned if self.splits else [rows_outside(f, len(self)) for f in self.folds]
        ends = [(y[some].min(axis=0), y[some].max(axis=0)) for some in rows]
        n_entries = [len(own) for own in fold_entries(self.folds, self.judged)]
        return np.repeat(np.array(ends), n_entries, axis=0).swapaxes(0, 1)

    @property
    def first_folds(self) -> list[np.ndarray]:
        """Folds of the first repetition."""
        return self.folds[: len(self.folds) // self.n_repeats]

    @property
    def learned(self) -> list[np.ndarray]:
        """Rows that a model learns from while each of the first folds is held out."""
        if self.splits:
            return [split.train for split in self.splits]
        return [rows_outside(fold, len(self)) for fold in self.first_folds]

    @property
    def units(self) -> np.ndarray:
        """Independent unit that every row belongs to: its group, or itself."""
        return np.arange(len(self)) if self.groups is None else self.groups

    @property
    def n_units_learned(self) -> float:
        """Number of units that a model learns from while a fold is held out."""
        n_units = len(self) if self.groups is None else len(np.unique(self.groups))
        return n_units * float(np.mean([len(rows) for rows in self.learned])) / len(self)


@dataclass
class Trial:
    """A base model that was tried, or the reason why it was not.

    Attributes
    ----------
    spec : Spec
        The base model.
    candidates : list of dict
        Its settings.
    predictions : ndarray of shape (n_candidates, n_entries, n_outputs)
        Their predictions for every entry.
    losses : ndarray of shape (n_candidates, n_entries)
        Their losses.
    seconds : float
        Time of the trial.
    fit_seconds : float
        Estimated time of the fit to all rows.
    reason : str
        Why it was skipped, empty if it was not.
    reach : float
        How far predictions may leave the range of the targets, as a share of it.
    fitted : callable or None
        What makes the model of a candidate, where the trial has learned most of it, as in
        :class:`~vicinal._base.HeldOut`.
    model : BaseModel or None
        The model in the ensemble, once it was fitted to all rows.
    cuts : bool
        Whether its gain after the first fold must pay for its time.
    first : ndarray of shape (n_candidates, n_first_entries, n_outputs) or None
        Predictions for the first fold, of the model or of its probe, while the trial waits.
    steps : generator
        What continues the trial.
    """

    spec: Spec
    candidates: list[dict] = field(default_factory=list)
    predictions: np.ndarray = field(default_factory=lambda: np.empty(0))
    losses: np.ndarray = field(default_factory=lambda: np.empty(0))
    seconds: float = 0.0
    fit_seconds: float = 0.0
    reason: str = ""
    reach: float = 0.0
    fitted: Callable[..., Any] | None = None
    model: Any = None
    cuts: bool = False
    first: Any = None
    steps: Any = None

    @property
    def is_priced(self) -> bool:
        """Whether its gain must pay for its time; a cheap model is always tried."""
        return self.cuts and self.spec.seconds >= _CHEAP


@dataclass
class Search:
    """Try base models, each within its time, and store their held-out predictions.

    Attributes
    ----------
    data : TrialData
        Training rows with folds.
    scorer : Scorer
        Judge of predictions.
    deadline : float
        When trials and fits must end, of :func:`search_deadline`.
    price : float
        Relative reduction of a log loss that one processor second per 1,000 rows must bring.
    n_jobs : int or None
        Threads.
    seed : int
        Seed of the base models.
    trials : list of Trial
        The models tried so far.
    tried : dict of str to float
        The least loss of those that were judged, by name.
    """

    data: TrialData
    scorer: Scorer
    deadline: float = np.inf
    price: float = 0.0
    n_jobs: int | None = None
    seed: int = 0
    trials: list[Trial] = field(default_factory=list)
    tried: dict[str, float] = field(default_factory=dict)

    def run(self, specs: Iterable[Spec], *, cuts: bool) -> None:
        """Try models in turn; with ``cuts`` they wait after their first fold for ``finish``.

        Within a time limit nothing waits.
        """
        for spec in specs:
            trial = Trial(spec, reason=spec.reason or _WAITS, cuts=cuts)
            self.trials.append(trial)
            if not spec.reason:
                self._begin(trial)
            if np.isfinite(self.deadline):
                self.finish()
            elif trial.first is not None:
                self._drop_unpromising([trial])
            if trial.first is not None:
                part = self.scorer.part(np.arange(trial.first.shape[1]))
                self.tried[spec.name] = float((part.losses(trial.first) @ part.share).min())
            elif not trial.reason:
                self.tried[spec.name] = float((trial.losses @ self.scorer.share).min())

    def finish(self) -> None:
        """Continue the trials that wait: always the one that promises most, while one pays."""
        while waiting := [trial for trial in self.trials if trial.first is not None]:
            promises = self._drop_unpromising(waiting)
            if max(promises) > 0.0:
                self._advance(waiting[int(np.argmax(promises))])

    def judged(self) -> list[Trial]:
        """Return the trials that have predictions."""
        return [trial for trial in self.trials if not trial.reason]

    def _begin(self, trial: Trial) -> None:
        """Try a model until it waits or ends."""
        estimator, n_judged = seeded_clone(trial.spec.estimator, self.seed), len(self.judged())
        spec = trial.spec = replace(trial.spec, estimator=estimator)
        # However short the time, a linear model follows the constant, which alone is of no use.
        is_exempt = n_judged < (2 if spec.whole and spec.seconds < _CHEAP else 1)
        expected = _clock.now() + self._reserved() + self._first_seconds(spec)
        if not is_exempt and expected > self.deadline:
            trial.reason = "no time was left"
        elif self.data.is_weighted and not takes_weights(spec.estimator):
            trial.reason = f"{last_step(spec.estimator)!r} takes no sample_weight"
        else:
            waits = n_judged > 0 and (trial.is_priced or np.isfinite(self.deadline))
            trial.steps = self._held_out(trial, waits)
            self._advance(trial)

    def _advance(self, trial: Trial) -> None:
        """Continue a trial until it waits or ends."""
        start = _clock.now()
        trial.first = None
        try:
            first = next(trial.steps).predictions
            if np.isfinite(first).all():
                _, trial.first = self._within_reach(first)
            else:
                trial.reason = _NOT_FINITE
        except StopIteration as end:
            self._judge(trial, end.value)
        except Exception as error:
            trial.reason = f"{type(error).__name__}: {error}"
        trial.seconds += _clock.now() - start
        n_fits = len(self._folds(trial.spec))
        # What the trial has learned from all rows is not learned again.
        is_learned = trial.fitted is not None and self.data.growth == 1.0
        # Some estimators average several runs when they are fitted, but not in the folds.
        n_runs = getattr(last_step(trial.spec.estimator), "n_runs", 1)
        share = _LEARNED if is_learned else n_runs
        trial.fit_seconds = share * trial.seconds / n_fits * self.data.growth

    def _judge(self, trial: Trial, found: HeldOut) -> None:
        """Store the predictions of a trial."""
        if not np.isfinite(found.predictions).all():
            trial.reason = _NOT_FINITE
            return
        trial.reason, trial.candidates, trial.fitted = "", found.candidates, found.fitted
        trial.reach, trial.predictions = self._within_reach(found.predictions)
        trial.losses = self.scorer.losses(trial.predictions)

    def _within_reach(self, predictions: np.ndarray) -> tuple[float, np.ndarray]:
        """Keep predictions for the first entries near the targets learned, as far as it pays.

        Models that extrapolate are far off where one number of a row is out of all proportion, but
        needed where targets follow a line. So the least reach of least loss is chosen.
        """
        if self.data.classes is not None:
            return 0.0, predictions
        entries = np.arange(predictions.shape[1])
        part, ends = self.scorer.part(entries), self.data.ranges[:, entries]
        options = [np.clip(predictions, *widened(ends, reach)) for reach in _REACHES]
        losses = [(part.losses(option) @ part.share).min() for option in options]
        best = int(np.argmin(losses))
        return _REACHES[best], options[best]

    def _drop_unpromising(self, waiting: list[Trial]) -> list[float]:
        """Return what waiting trials promise to gain beyond their price; drop those below it.

        Those that would not fit the time are dropped, too.
        """
        gains = expected_gains(self.judged(), self.scorer, [trial.first for trial in waiting])
        promises = []
        for trial, gain in zip(waiting, gains, strict=True):
            gain, least = trial.spec.bonus + gain, self.least_gain(trial.spec)
            share = len(self._folds(trial.spec)) - 1.0 + self.data.growth
            if trial.spec.probe is not None:
                share = _PROBE_SHARE
            seconds = share * trial.seconds
            if _clock.now() + seconds + self._reserved() > self.deadline:
                trial.reason = f"about {seconds:.1f} s would not fit the time"
            elif not trial.is_priced:
                promises.append(np.inf)
                continue
            elif gain <= 0.0:
                trial.reason = "its first fold promises no gain"
            elif gain <= least:
                trial.reason = (
                    f"its first fold promises to reduce the loss by {gain:.2%}; about "
                    f"{trial.spec.seconds:.1f} s must reduce it by {least:.2%}"
                )
            else:
                promises.append(gain - least)
                continue
            promises.append(-np.inf)
            trial.first = None
        return promises

    def _first_seconds(self, spec: Spec) -> float:
        """Return the expected time until a trial can be stopped, at the pace of those before."""
        if not np.isfinite(self.deadline):
            return 0.0
        known = [trial for trial in self.judged() if trial.spec.seconds >= _CHEAP]
        taken = sum(trial.seconds + trial.fit_seconds for trial in known)
        pace = taken / sum(trial.spec.seconds for trial in known) if known else _UNKNOWN_PACE
        n_folds = len(self.data.first_folds)
        if spec.whole and spec.probe is None:
            return _WHOLE_MARGIN * pace * spec.seconds
        return pace * spec.seconds / (n_folds + 1.0)

    def _reserved(self) -> float:
        """Return the time that the fits to all rows will take."""
        return sum(sorted(trial.fit_seconds for trial in self.judged())[-_MAX_MODELS:])

    def _folds(self, spec: Spec) -> list:
        """Return the folds that a model is tried on."""
        return self.data.splits or (self.data.first_folds if spec.once else self.data.folds)

    def _held_out(self, trial: Trial, waits: bool) -> Generator[HeldOut, None, HeldOut]:
        """Return the predictions of every candidate for every entry; yield those of the first fold.

        Without ``waits`` nothing is yielded.
        """
        data, spec, folds = self.data, trial.spec, self._folds(trial.spec)
        if waits and trial.cuts and spec.probe is not None:
            probe = replace(spec, estimator=seeded_clone(spec.probe, self.seed))
            first = self._predict_folds(probe, folds[:1])
            if len(first.rows):
                yield first
        if self._takes_all_folds(trial):
            found = self._predict_folds(spec, folds)
        else:
            first = self._predict_folds(spec, folds[:1])
            if waits and len(first.rows):
                yield first
            rest = first.more or partial(self._predict_folds, spec)
            found = _joined(first, rest(folds[1:]))
        if not spec.once or data.splits:
            return found
        # Predictions of one repetition of the folds stand for the others.
        position = np.zeros(len(data), dtype=np.int64)
        position[found.rows] = np.arange(len(found.rows))
        predictions = found.predictions[:, position[data.entries]]
        return HeldOut(found.candidates, data.entries, predictions, found.fitted)

    def _takes_all_folds(self, trial: Trial) -> bool:
        """Return whether all folds are predicted together, not the first one alone as a test."""
        model = last_step(trial.spec.estimator)
        if trial.spec.whole or not hasattr(model, "held_out"):
            return trial.spec.whole
        return not trial.cuts and not getattr(model, "_fits_each_fold", False)

    def _predict_folds(self, spec: Spec, folds) -> HeldOut:
        data = self.data
        if data.splits:
            return self._predict_splits(spec, folds)
        options: dict[str, Any] = {
            "sample_weight": data.sample_weight,
            "method": "predict" if data.classes is None else "predict_proba",
            "rows": data.judged,
            "groups": data.groups,
            "n_jobs": n_threads(self.n_jobs),
        }
        return held_out(clone(spec.estimator), data.X[spec.encoding], data.labels, folds, **options)

    def _predict_splits(self, spec: Spec, splits: list[Split]) -> HeldOut:
        """Fit to the training rows of each split alone; models select the settings not listed."""
        data, method = self.data, "predict" if self.data.classes is None else "predict_proba"
        grid = settings_of(spec.estimator)

        def predict(task: tuple[dict, Split]) -> np.ndarray:
            setting, split = task
            y = data.labels[split.train]
            weight, groups = (
                None if part is None else part[split.train]
                for part in (data.sample_weight, data.groups)
            )
            estimator = _adapted(split, spec, setting)
            if data.classes is not None and len(np.unique(y)) == 1:
                estimator = DummyClassifier()  # before the second class is seen
            fitted = fit_in_one_thread(estimator, split.X_train[spec.encoding], y, weight, groups)
            return aligned_predictions(fitted, split.X_test[spec.encoding], method, data.classes)

        parts = thread_map(predict, [(one, split) for one in grid for split in splits], self.n_jobs)
        predictions = np.concatenate(parts)
        rows = np.concatenate([split.test for split in splits])
        return HeldOut(grid, rows, predictions.reshape(len(grid), len(rows), -1))

    def least_gain(self, spec: Spec) -> float:
        """Return the price of the time of a model: the gain that it must bring."""
        price = self.price * self.scorer.price * spec.price
        return price * spec.seconds / max(1.0, len(self.data) / 1000.0)

    def pool(self, entries: np.ndarray) -> "Pool":
        """Choose models and weights on some entries."""
        trials = self.judged()
        prices = np.array([self.least_gain(trial.spec) for trial in trials])
        data = self.data
        return choose_pool(
            trials, self.scorer, entries, data.entries, prices, is_forward=data.is_forward
        )

    def nested_predictions(self) -> np.ndarray:
        """Return predictions for all entries by pools not chosen on the rows they predict.

        For each fold, settings, calibration, models and weights are chosen on the predictions for
        rows that its models learn from: those of the other folds, or with splits in time those of
        earlier ones. NaN where there are none.
        """
        data, rows = self.data, self.data.entries
        out = np.full(self.judged()[0].predictions.shape[1:], np.nan)
        for held, learned in zip(data.first_folds, data.learned, strict=True):
            inside, outside = (np.flatnonzero(np.isin(rows, some)) for some in (held, learned))
            if len(inside) and len(outside):
                out[inside] = self.pool(outside).mix(inside)
        return out


def _adapted(split: Split, spec: Spec, setting: dict) -> Any:
    """Return a copy of a base model for the columns of the encodings of a split."""
    estimator, categorical = clone(spec.estimator).set_params(**setting), None
    new: dict[str, Any] = {}
    if spec.encoding == "tree" and split.encodings.reads_frames:
        categorical = split.encodings.categorical
        for name, value in estimator.get_params().items():
            if name.endswith("categorical_features") and isinstance(value, np.ndarray):
                new[name] = categorical
            elif name.endswith("__transformers"):
                new[name] = [(label, one, categorical) for label, one, _ in value]
        estimator.set_params(**new)
    if split.signs is None:
        return estimator
    return estimator.set_params(**signs_for(spec, split.signs[spec.encoding], categorical) or {})


def expected_gains(trials: list[Trial], scorer: Scorer, firsts: list[np.ndarray]) -> list[float]:
    """Return the relative reductions of the loss that adding models to the ensemble may bring.

    The ensemble is the weighted average of the models tried; ``firsts`` are the predictions of
    every candidate of each new model for the first entries, on which the gain is computed. A share
    of its standard error is added: few rows are no reason to skip a model.
    """
    whole, entries = np.arange(len(scorer.share)), np.arange(firsts[0].shape[1])
    pool = choose_pool(trials, scorer, whole, whole, sharpness=(1.0,))
    part = scorer.part(entries)
    # Both are calibrated on the same rows: fewer rows make probabilities less confident.
    ensemble = pool.mix(entries)
    ensemble = part.calibrated(ensemble, part.slopes(ensemble[None])[0])
    losses = part.row_losses(ensemble)
    least = max(part.share @ losses, np.finfo(np.float64).tiny)
    found = []
    for predictions in firsts:
        best = int((part.losses(predictions) @ part.share).argmin())
        new = part.calibrated(predictions[best], part.slopes(predictions[[best]])[0])
        gains = []
        for weight in _ADDED_WEIGHTS:
            gain = losses - part.row_losses((1.0 - weight) * ensemble + weight * new)
            mean = part.share @ gain
            gains.append(mean + part.optimism * np.sqrt(part.share**2 @ (gain - mean) ** 2))
        found.append(float(max(gains) / least))
    return found


def widened(ends: np.ndarray, reach: float) -> np.ndarray:
    """Return a range, its least and largest values, wider by a share of it on both sides."""
    return ends + reach * (ends[1] - ends[0]) * np.reshape(
        [-1.0, 1.0], (2,) + (1,) * (ends.ndim - 1)
    )


def _joined(first: HeldOut, rest: HeldOut) -> HeldOut:
    """Join the predictions of several folds for the candidates that all of them have."""
    if len(rest.rows) and len(first.rows) and rest.rows[0] == first.rows[0]:
        return rest  # of the first fold, too
    n = min(len(first.candidates), len(rest.candidates))
    return HeldOut(
        rest.candidates[:n],
        np.concatenate([first.rows, rest.rows]),
        np.concatenate([first.predictions[:n], rest.predictions[:n]], axis=1),
        rest.fitted,
    )


def search_models(
    table: Any, data: TrialData, shape: TableShape, settings: Any, weight: np.ndarray, n_given: int
) -> Search:
    """Try every family, or every pair, in the order given; at least one must be judged.

    ``table`` are the rows as given and ``data`` the same encoded, with the weights of the fit;
    ``weight`` are those by which predictions are judged. ``n_given`` is the number of rows of the
    table given, of which some may have no weight.
    """
    some = _trial_data(table, data, shape, settings, n_given)
    search = Search(
        some,
        _scorer(data, some, weight, settings.metric),
        deadline=settings.deadline,
        price=PRICES[settings.model.preset],
        n_jobs=settings.n_jobs,
        seed=random_seeds(settings.model_seed, 1)[0],
    )
    families, label = settings.model.families, type(settings.model).__name__
    entries, skipped = families, []
    if isinstance(families, str):
        defaults = default_families(shape)
        entries = [family for family, reason in defaults.items() if not reason]
        skipped = [Spec(name, None, reason=reason) for name, reason in defaults.items() if reason]
    with Progress(len(entries), label, verbose=settings.model.verbose) as progress:
        for entry in entries:
            search.run(_specs(entry, shape, search.tried), cuts=isinstance(entry, str))
            last = search.trials[-1].spec.name if search.trials else str(entry)
            progress.advance(note=last)
        search.finish()
    search.run(skipped, cuts=True)
    if not search.judged():
        why = "; ".join(f"{t.spec.name}: {t.reason}" for t in search.trials)
        why = why or f"no model of families={families!r} is tried on such a table"
        raise ValueError(f"No base model of {label} could be fitted: {why}.")
    named = {entry[0] for entry in entries if not isinstance(entry, str)}
    for trial in search.trials:
        if trial.reason and trial.spec.name in named:
            warnings.warn(
                f"the base model {trial.spec.name!r} is skipped: {trial.reason}",
                UserWarning,
                stacklevel=6,
            )
    return search


def _trial_data(
    table: Any, data: TrialData, shape: TableShape, settings: Any, n_given: int
) -> TrialData:
    """Return the rows that models are tried on, with folds and the rows that they predict."""
    codes, seed = None if data.classes is None else data.y, settings.row_seed
    tried = sample_table(len(data), codes, seed, shape.rules.max_rows)
    part: Any = data if len(tried) == len(data) else data.take(tried)
    codes = None if data.classes is None else part.y
    growth = len(data) / len(part)
    if settings.splits is not None:
        number = np.full(n_given, -1)
        number[part.positions] = np.arange(len(part))
        pairs = [[some[some >= 0] for some in (number[a], number[b])] for a, b in settings.splits]
        tested = np.unique(np.concatenate([test for _, test in pairs]))
        judged = tested[sample_judged(len(tested), shape.n_columns, seed, shape.preset)]
        table = table.take(tried)
        splits = [
            Split.of(table, train, test[np.isin(test, judged)], settings.signs)
            for train, test in pairs
        ]
        splits = [split for split in splits if len(split.train) and len(split.test)]
        folds = [split.test for split in splits]
        part = replace(part, folds=folds, judged=judged, growth=growth, splits=splits)
        n_used = min(len(train) + len(test) for train, test in pairs)
        return replace(part, is_forward=n_used < _FORWARD * len(part))
    folds, n_repeats = split_folds(len(part), codes, part.groups, settings.cv, settings.fold_seed)
    judged = sample_judged(len(part), shape.n_columns, seed, shape.preset)
    return replace(part, folds=folds, n_repeats=n_repeats, judged=judged, growth=growth)


def _scorer(data: TrialData, trial: TrialData, weight: np.ndarray, metric) -> Scorer:
    rows = np.searchsorted(data.positions, trial.positions[trial.entries])
    if data.classes is not None:
        return ClassScorer(data.y[rows], weight[rows], len(data), metric)
    Y = data.y.reshape(len(data), -1)
    mean = np.average(Y, axis=0, weights=weight)
    scale = np.sqrt(np.average((Y - mean) ** 2, axis=0, weights=weight))
    kind: Any = RegressionScorer if metric is None or metric.quantile is None else QuantileScorer
    return kind(Y[rows], weight[rows], np.where(scale > 0.0, scale, 1.0), metric)


def _specs(entry: Any, shape: TableShape, tried: dict[str, float]) -> Iterator[Spec]:
    """Return the base models that a family or a pair stands for."""
    specs = FAMILIES[entry](shape, tried) if isinstance(entry, str) else iter([Spec(*entry)])
    if shape.rules.at_once:
        specs = (replace(spec, whole=True) for spec in specs)
    return specs if shape.monotonic is None else monotone_specs(specs, shape)


def split_folds(n_rows: int, codes, groups, cv: int, seed: int) -> tuple[list[np.ndarray], int]:
    """Return folds of all rows, split twice on small tables, and the number of repetitions.

    Folds are stratified by class (``codes``, ``None`` for regression) and keep groups whole.
    """
    n_units = n_rows if groups is None else len(np.unique(groups))
    if n_units < 2:
        unit = "samples" if groups is None else "groups"
        raise ValueError(
            f"n_{unit}={n_units}, but models are judged on {unit} they have not seen: give at "
            f"least 2 {unit}."
        )
    n_folds = min(cv, n_units)
    n_repeats = 2 if n_rows < _MIDDLE else 1
    folds: list[np.ndarray] = []
    for own_seed in random_seeds(seed, n_repeats):
        folds += _split_once(n_rows, codes, groups, n_folds, own_seed)
    return folds, n_repeats


def _split_once(n_rows, codes, groups, n_folds, seed) -> list[np.ndarray]:
    settings = {"n_splits": n_folds, "shuffle": True, "random_state": seed}
    rows = np.arange(n_rows)
    if codes is None:
        splitter: Any = KFold(**settings) if groups is None else GroupKFold(**settings)
        return [test for _, test in splitter.split(rows, groups=groups)]
    if groups is not None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # a class rarer than the folds
            splitter = StratifiedGroupKFold(**settings)
            return [test for _, test in splitter.split(rows, codes, groups) if len(test)]
    # In proportion to the classes, however rare: shuffled rows, sorted by class, dealt in turn.
    order = np.random.RandomState(seed).permutation(n_rows)
    order = order[np.argsort(codes[order], kind="stable")]
    return [np.sort(order[f::n_folds]) for f in range(n_folds)]


def sample_table(n_rows: int, codes, seed: int, max_rows: float) -> np.ndarray:
    """Sample the rows that models are tried on, some of every class; all of them if few."""
    if n_rows <= max_rows:
        return np.arange(n_rows)
    order = np.random.RandomState(seed).permutation(n_rows)
    sampled = order[: int(max_rows)]
    if codes is None:
        return np.sort(sampled)
    some = [order[codes[order] == code][:_LEAST_OF_A_CLASS] for code in np.unique(codes)]
    return np.unique(np.concatenate([sampled, *some]))


def sample_judged(n_rows: int, n_columns: int, seed: int, preset: str = "default") -> np.ndarray:
    """Sample the rows that models predict: fewer where local models of many columns are slow."""
    d = min(n_columns, 100)
    limit = min(_MAX_ROWS[preset], max(_MIN_ROWS, int(_FLOPS / (1300.0 * d * min(d, 40)))))
    return sampled_rows(n_rows, limit, seed)


@dataclass(frozen=True)
class Pool:
    """The chosen models and their weights.

    Attributes
    ----------
    trials : list of Trial
        The models that were tried.
    scorer : Scorer
        Judge of all entries.
    candidates : list of int
        Chosen setting of every model that was tried.
    slopes : ndarray
        Slope that calibrates each.
    weights : ndarray
        Weight of each; most are zero.
    """

    trials: list[Trial]
    scorer: Scorer
    candidates: list[int]
    slopes: np.ndarray
    weights: np.ndarray

    def _calibrated(self, m: Any, entries: Any = slice(None)) -> np.ndarray:
        predictions = self.trials[m].predictions[self.candidates[m]][entries]
        return self.scorer.calibrated(predictions, self.slopes[m])

    def mix(self, entries: np.ndarray) -> np.ndarray:
        """Return the weighted average of the predictions for some entries."""
        kept = np.flatnonzero(self.weights)
        return sum(self.weights[m] * self._calibrated(m, entries) for m in kept)

    def least_useful(self, seconds: np.ndarray) -> int:
        """Return the model that reduces the loss least for each second it takes."""
        kept = np.flatnonzero(self.weights)
        if len(kept) == 1:
            return int(kept[0])
        stack = np.stack([self._calibrated(m) for m in kept])
        increases, _ = _removals(self.scorer, stack, self.weights[kept])
        return int(kept[(increases / np.maximum(seconds[kept], 1e-12)).argmin()])


def choose_pool(
    trials: list[Trial],
    scorer: Scorer,
    entries: np.ndarray,
    units: np.ndarray,
    least_gains: np.ndarray | None = None,
    sharpness: tuple[float, ...] | None = None,
    is_forward: bool = False,
) -> Pool:
    """Choose settings, calibration, models and weights on some entries.

    Models whose removal increases the loss by a smaller share than ``least_gains`` are dropped.
    ``units`` are the rows of all entries. Where no model is better than the constant by two
    standard errors, nor orders rows by their targets, the constant predicts:
    the best of many models by chance is not a signal. Rows in the order of time resemble those
    before, so that their order proves nothing (``is_forward``).
    """
    part = scorer.part(entries)
    tables = [trial.losses[:, entries] @ part.share for trial in trials]
    chosen = [int(table.argmin()) for table in tables]
    predictions = np.stack(
        [trial.predictions[c][entries] for trial, c in zip(trials, chosen, strict=True)]
    )
    slopes = part.slopes(predictions)
    losses = np.array([table.min() for table in tables])
    near = np.flatnonzero(losses <= _BEHIND * losses.min() + _SLACK)
    dummies = DummyClassifier, DummyRegressor
    floor = next((m for m, t in enumerate(trials) if isinstance(t.spec.estimator, dummies)), None)
    best = int(losses.argmin())
    if floor is not None and best != floor:
        gain = trials[floor].losses[0] - trials[best].losses[chosen[best]]
        mean, error = mean_and_error(gain[entries], part.share, units[entries])
        found = part.calibrated(predictions[best], slopes[best])
        is_ordered = not is_forward and part.evidence(found, units[entries]) > _SEPARATED
        if mean <= _CERTAIN * error and not is_ordered:
            near = np.array([floor])
    pools = []
    for factor in part.sharpness if sharpness is None else sharpness:
        own = factor * slopes
        stack = np.stack([part.calibrated(predictions[m], own[m]) for m in near])
        found = _few_weights_of(part, stack)
        pools.append((part.pool_loss(stack, found), factor, stack, found))
    _, factor, stack, found = min(pools, key=lambda one: one[0])
    weights = np.zeros(len(trials))
    if least_gains is not None:
        found = _without_superfluous(part, stack, found, least_gains[near])
    if part.metric is not None and not part.metric.is_minimised:
        found = _best_by_metric(part, stack, found)
    weights[near] = found
    return Pool(trials, scorer, chosen, factor * slopes, weights)


def _best_by_metric(scorer: Scorer, stack: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the weights of the best score: those of least loss, or equal ones of the best models.

    Scores such as the area under a curve have no gradient; few candidates can hardly overfit them.
    """
    order = np.argsort([-scorer.measured(one) for one in stack], kind="stable")
    pools = [weights]
    for k in range(1, min(len(order), _MAX_MODELS) + 1):
        equal = np.zeros(len(stack))
        equal[order[:k]] = 1.0 / k
        pools.append(equal)
    scores = [scorer.measured(np.tensordot(pool, stack, 1)) for pool in pools]
    return pools[int(np.argmax(np.nan_to_num(scores, nan=-np.inf)))]


def _without_superfluous(
    scorer: Scorer, stack: np.ndarray, weights: np.ndarray, least_gains: np.ndarray
) -> np.ndarray:
    """Drop models one by one as long as the loss increases by less than the model must gain."""
    while True:
        kept = np.flatnonzero(weights)
        if len(kept) == 1:
            return weights
        scale = scorer.share @ scorer.row_losses(np.tensordot(weights, stack, 1))
        increases, fewer = _removals(scorer, stack, weights)
        excess = increases - scale * least_gains[kept]
        if excess.min() >= 0.0:
            return weights
        weights = fewer[excess.argmin()]


def _removals(
    scorer: Scorer, stack: np.ndarray, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the increase of the loss without each model of the pool, and the weights then."""
    kept = np.flatnonzero(weights)
    fewer = np.zeros((len(kept), len(stack)))
    for own, m in zip(fewer, kept, strict=True):
        others = kept[kept != m]
        own[others] = scorer.weights(stack[others])
    losses = np.array([scorer.pool_loss(stack, own) for own in fewer])
    return losses - scorer.pool_loss(stack, weights), fewer


def _few_weights_of(scorer: Scorer, stack: np.ndarray) -> np.ndarray:
    def solve(kept: np.ndarray) -> np.ndarray:
        return scorer.weights(stack[kept])

    return few_weights(solve, len(stack), least=_LEAST_WEIGHT, most=_MAX_MODELS)
