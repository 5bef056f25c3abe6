"""Selection of metric, size, penalty and degree by leaving rows out."""

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from sklearn.model_selection import KFold
from sklearn.utils import check_random_state

from vicinal._base import HeldOut, Progress, TrainingData, as_numpy, fold_entries, group_folds
from vicinal._kernels.calibration._probabilities import fit_temperature, fit_temperatures
from vicinal.local._fits import LocalFit
from vicinal.local._gradient_metric import GradientMetric
from vicinal.local._neighborhoods import ForestRule, NearestRule, RadiusRule
from vicinal.local._rows import LocalRows, learn_mapping, map_rows, sees_labels
from vicinal.local._settings import MAX_ROWS, LocalSettings, draw_rows, local_data, resolve
from vicinal.local._solvers import at_degree, probabilities, suited_to

# Rounds without improvement that end a search.
_N_ITER_NO_CHANGE = 2
_N_FOLDS = 5
# Settings whose losses differ by less than this many standard errors count as equal.
_STANDARD_ERRORS = 0.5


# --- candidates ---


class EarlyStopping:
    """Stopping rule: end a search after two rounds in a row without improvement."""

    def __init__(self):
        self._least, self._waited = np.inf, 0

    def ends_with(self, loss: float) -> bool:
        """Record the loss of a round; return whether the search ends."""
        self._waited = 0 if loss < self._least else self._waited + 1
        self._least = min(loss, self._least)
        return self._waited >= _N_ITER_NO_CHANGE


@dataclass(frozen=True)
class Candidate:
    """One setting, with the loss of every row that was left out."""

    metric: Any
    degree: int
    rule: NearestRule | RadiusRule | ForestRule
    alpha: float
    losses: np.ndarray
    weights: np.ndarray  # how often each row counts

    @property
    def loss(self) -> float:
        """Mean loss."""
        return float(np.average(self.losses, weights=self.weights))

    def is_close_to(self, best: "Candidate") -> bool:
        """Return whether the excess over the best is within half its standard error.

        The difference is paired: both losses are of the same rows.
        """
        excess = self.losses - best.losses
        mean = np.average(excess, weights=self.weights)
        variance = np.average((excess - mean) ** 2, weights=self.weights)
        return bool(mean <= _STANDARD_ERRORS * np.sqrt(variance / self.weights.sum()))

    def is_smoother_than(self, other: "Candidate") -> bool:
        """Return whether penalty and size are at least those of a setting of the same metric."""
        same = self.metric is other.metric and self.degree == other.degree
        return same and self.alpha >= other.alpha and self.rule.size >= other.rule.size


def best_candidate(candidates: list[Candidate]) -> Candidate:
    """Return the smoothest of the settings whose loss is close to the least.

    Leave-one-out favours rough fits, and a few rows can decide. Of the settings at least as smooth
    as the best and close to it, the one of largest penalty, then of largest size, is taken.
    """
    best = min(candidates, key=lambda c: c.loss)
    close = [c for c in candidates if c.is_smoother_than(best) and c.is_close_to(best)]
    return max(close, key=lambda c: (c.alpha, c.rule.size))


def selection_table(candidates: list[Candidate]) -> dict[str, np.ndarray]:
    """Return the candidates as columns."""
    return {
        "metric": np.array([metric_name(c.metric) for c in candidates], dtype=object),
        "degree": np.array([c.degree for c in candidates]),
        "size": np.array([c.rule.size for c in candidates]),
        "alpha": np.array([c.alpha for c in candidates]),
        "loss": np.array([c.loss for c in candidates]),
    }


def metric_name(metric) -> str:
    """Return the name of a metric in ``selection_``."""
    if isinstance(metric, str):
        return metric
    name = getattr(metric, "__name__", type(metric).__name__)
    rounds = getattr(metric, "n_rounds", None)
    return name if rounds is None else f"gradient {rounds}"


def label_folds(n_samples: int, groups, random_state) -> list[np.ndarray]:
    """Return folds; a metric for a fold is learned without its labels."""
    n_folds = min(_N_FOLDS, n_samples)
    if groups is None:
        seed = check_random_state(random_state).randint(np.iinfo(np.int32).max)
        splits = KFold(n_folds, shuffle=True, random_state=seed).split(np.arange(n_samples))
        return [test for _, test in splits]
    return group_folds(groups, n_folds)


class Selected(NamedTuple):
    """The setting selected, its rows in coordinates, and what it was compared with."""

    rows: LocalRows
    metric: Any
    rule: Any
    degree: int
    alpha: float
    candidates: list[Candidate]


def select(data: TrainingData, settings: LocalSettings) -> Selected:
    """Select what the user left unset, by leaving rows out."""
    if not settings.is_open:
        rows = settings.mapped(data, settings.metric)
        rule, degree, alpha = settings.rules(rows)[0], settings.degrees[0], settings.alphas[0]
        return Selected(rows, settings.metric, rule, degree, alpha, [])
    candidates: list[Candidate] = []
    stopping, own_rows = EarlyStopping(), None
    sample = draw_rows(len(data), settings.random_state)
    n_steps = settings.n_metrics(len(data)) * len(settings.degrees)
    label = f"{settings.name} leave-one-out"
    with Progress(n_steps, label, verbose=settings.verbose) as shown:
        for metric, views in metric_views(data, settings, settings.metric, sample):
            if not sees_labels(settings.metric):
                own_rows = views[0].rows
            found: list[Candidate] = []
            for degree in settings.degrees:
                found += _compare(metric, views, degree, settings, data)
                shown.advance(note=f"least loss {min(c.loss for c in found):.4g}")
            candidates += found
            if stopping.ends_with(min(candidate.loss for candidate in found)):
                break
    best = best_candidate(candidates)
    rows = settings.mapped(data, best.metric) if own_rows is None else own_rows
    return Selected(rows, best.metric, best.rule, best.degree, best.alpha, candidates)


def store(estimator: Any, chosen: Selected, settings: LocalSettings) -> None:
    """Store the model of a setting in an estimator, with the attributes that users read."""
    rows, rule = chosen.rows, chosen.rule
    estimator._model = settings.fit(rows, rule, chosen.degree, chosen.alpha)
    learned = rows.mapping.coordinates.learned
    estimator.metric_ = chosen.metric if learned is None else learned
    estimator.alpha_ = float(chosen.alpha)
    estimator.degree_ = chosen.degree
    estimator.n_neighbors_ = int(rule.count) if isinstance(rule, NearestRule) else None
    estimator.bandwidth_ = float(rule.bandwidth) if isinstance(rule, RadiusRule) else None
    if chosen.candidates:
        estimator.selection_ = selection_table(chosen.candidates)
        estimator.loo_score_ = best_candidate(chosen.candidates).loss


@dataclass(frozen=True)
class View:
    """Training rows under one metric, and those of them that it did not see.

    ``positions`` are those of the predictions for ``sample`` among all predictions.
    """

    rows: LocalRows
    sample: np.ndarray
    positions: np.ndarray


def metric_views(
    data: TrainingData, settings: LocalSettings, metric: Any, sample, folds=None, entries=None
) -> Iterator[tuple[Any, list[View]]]:
    """Yield (metric, views) for every metric to compare: one, or one per round.

    A metric that learns from labels is learned once per fold, without the fold; neighbours are
    searched among all rows as at prediction.
    """
    if not sees_labels(metric):
        yield metric, [View(settings.mapped(data, metric), sample, np.arange(len(sample)))]
        return
    if folds is None or entries is None:
        folds = label_folds(len(data), data.groups, settings.random_state)
        entries = fold_entries(folds, sample)
    ends = np.cumsum([0] + [len(part) for part in entries])
    learned = [_mappings(data.outside(fold), settings, metric) for fold in folds]
    for r, mappings in enumerate(zip(*learned, strict=False)):
        views = [
            View(map_rows(data, one, settings.search), own, np.arange(end - len(own), end))
            for one, own, end in zip(mappings, entries, ends[1:], strict=True)
            if len(own)
        ]
        yield _round(metric, data, settings, r + 1), views


def _mappings(data: TrainingData, settings: LocalSettings, metric: Any) -> Iterator:
    """Yield the coordinates of a metric; those after each round of ``"gradient"``."""
    if not (isinstance(metric, str) and metric == "gradient"):
        yield learn_mapping(data, metric, settings.located)
        return
    gradient = _round(metric, data, settings, settings.n_metrics(len(data)))
    yield from gradient._mappings(data, settings.located)


def _round(metric: Any, data: TrainingData, settings: LocalSettings, n_rounds: int) -> Any:
    """Return the metric of a number of rounds."""
    if not (isinstance(metric, str) and metric == "gradient"):
        return metric
    task = "regression" if data.classes is None else "classification"
    fixed = {"task": task, "n_jobs": settings.search.n_jobs, "random_state": 0}
    return GradientMetric(n_rounds, **fixed | (settings.metric_params or {}))


def _left_out_paths(views, rules, solver, alphas, factor) -> Iterator[tuple]:
    """Yield (view, positions, row numbers, number of the rule, predictions for each penalty).

    One neighbour search serves all sizes, and one factorisation all penalties where possible. Rows
    are left out with their groups; where no row is near, the prior is predicted.
    """
    for view in views:
        prior = view.rows.prior()
        blocks = view.rows.left_out(rules, view.sample, factor)
        for block, own, j, design, found in blocks:
            predictions = solver.path(view.rows, design, found, alphas)
            empty = found.is_empty()
            if empty.any():
                predictions[:, empty] = prior
            yield view, view.positions[block], own, j, predictions


def _compare(metric, views, degree: int, settings: LocalSettings, data) -> list[Candidate]:
    """Return a candidate for every size and penalty under one metric."""
    rules, alphas = settings.rules(views[0].rows), settings.alphas
    solver = suited_to(at_degree(settings.solver, degree), data.X)
    n_rows = sum(len(view.sample) for view in views)
    order = np.empty(n_rows, dtype=np.int64)
    for view in views:
        order[view.positions] = view.sample
    losses = np.empty((len(rules), len(alphas), n_rows))
    loss_of = {id(view): view.rows.losses() for view in views}
    paths = _left_out_paths(views, rules, solver, alphas, settings.factor)
    for view, positions, own, j, predictions in paths:
        for c in range(len(alphas)):
            losses[j, c, positions] = as_numpy(loss_of[id(view)](predictions[c], own))
    weights = np.ones(n_rows)
    if data.sample_weight is not None:
        weights = data.host(data.sample_weight)[order]
    return [
        Candidate(metric, solver.degree, rule, float(alpha), losses[j, c], weights)
        for j, rule in enumerate(rules)
        for c, alpha in enumerate(alphas)
    ]


def left_out_temperature(
    model: LocalFit, data: TrainingData, settings: LocalSettings, metric: Any
) -> float | None:
    """Fit the temperature to scores of rows that their models, and metrics, did not see."""
    if not settings.has_temperature:
        return None
    sample = draw_rows(len(data), settings.random_state, MAX_ROWS)
    views = [View(model.data, sample, np.arange(len(sample)))]
    if sees_labels(metric):
        views = next(iter(metric_views(data, settings, metric, sample)))[1]
    scores = [as_numpy(model.left_out(view.sample, view.rows)) for view in views]
    order = np.concatenate([view.sample for view in views])
    weights = None if data.sample_weight is None else data.host(data.sample_weight)[order]
    codes = data.host(data.y)[order]
    return fit_temperature(np.concatenate(scores).astype(np.float64), codes, weights)


# --- predictions of every candidate ---


def held_out_candidates(
    model: Any, data: TrainingData, settings: LocalSettings, folds, rows, complete: Any
) -> HeldOut:
    """Return held-out predictions of every candidate.

    ``complete(model, temperature)`` finishes a candidate that is fitted afterwards; ``None`` where
    candidates cannot be.
    """
    if folds is None:
        folds = label_folds(len(data), data.groups, settings.random_state)
    entries = fold_entries(folds, rows)
    order = np.concatenate(entries)
    candidates: list[dict] = []
    predictions: list[np.ndarray] = []
    chosen: list[tuple] = []
    stopping = EarlyStopping()
    for metric, views in metric_views(data, settings, settings.metric, order, folds, entries):
        losses = []
        for degree in settings.degrees:
            rules, scores = _candidate_predictions(views, degree, settings, data)
            losses.append(_least_loss(scores, order, data))
            temperatures = _to_probabilities(scores, order, data, settings)
            predictions.append(scores)
            own = None if sees_labels(metric) else views[0].rows
            pairs = [(rule, alpha) for rule in rules for alpha in settings.alphas]
            for (rule, alpha), temperature in zip(pairs, temperatures, strict=True):
                candidates.append(_parameters(model, metric, degree, rule, alpha))
                chosen.append((own, metric, rule, degree, alpha, temperature))
        if stopping.ends_with(min(losses)):
            break

    def fitted(c: int, *table):
        own, metric, rule, degree, alpha, temperature = chosen[c]
        one = copy.copy(model).set_params(**candidates[c])
        used, what = data, settings
        if table:
            task = "regression" if data.classes is None else "classification"
            X, y, sample_weight = table
            used, own = local_data(one, X, y, sample_weight, None, task), None
            what = resolve(one, used)
        own = what.mapped(used, metric) if own is None else own
        store(one, Selected(own, metric, rule, degree, alpha, []), what)
        complete(one, temperature)
        return one

    whole = np.concatenate(predictions)
    return HeldOut(candidates, order, whole, None if complete is None else fitted)


def _candidate_predictions(views, degree: int, settings: LocalSettings, data):
    """Return (rules, predictions of every size and penalty), at the positions of the views."""
    rules, alphas = settings.rules(views[0].rows), settings.alphas
    solver = suited_to(at_degree(settings.solver, degree), data.X)
    n_entries = sum(len(view.sample) for view in views)
    shape = (len(rules), len(alphas), n_entries, views[0].rows.n_outputs)
    out = np.empty(shape, dtype=np.float32)
    paths = _left_out_paths(views, rules, solver, alphas, settings.factor)
    for _, positions, _, j, predictions in paths:
        for c in range(len(alphas)):
            out[j, c, positions] = as_numpy(predictions[c])
    return rules, out.reshape(-1, *shape[2:])


def _to_probabilities(scores, order, data: TrainingData, settings: LocalSettings) -> list:
    """Turn scores of classifiers into probabilities in place; return the temperatures."""
    temperatures: list[float | None] = [None] * len(scores)
    if data.classes is None:
        return temperatures
    if settings.has_temperature:
        weights = None if data.sample_weight is None else data.host(data.sample_weight)[order]
        codes = data.host(data.y)[order]
        temperatures = fit_temperatures(scores.astype(np.float64), codes, weights).tolist()
    for own, temperature in zip(scores, temperatures, strict=True):
        own[:] = probabilities(own.astype(np.float64), settings.solver.link, temperature)
    return temperatures


def _least_loss(predictions: np.ndarray, rows: np.ndarray, data: TrainingData) -> float:
    """Return the least mean loss of predictions (n_candidates, n_rows, n_outputs)."""
    y = data.host(data.y)
    if data.classes is not None:
        losses = predictions.argmax(axis=2) != y[rows]
    else:
        columns = y.reshape(len(y), -1)
        scale = columns.std(axis=0)
        errors = (predictions - columns[rows]) / np.where(scale > 0.0, scale, 1.0)
        losses = (errors**2).mean(axis=2)
    weights = None if data.sample_weight is None else data.host(data.sample_weight)[rows]
    return float(np.average(losses, axis=1, weights=weights).min())


def _parameters(model: Any, metric, degree: int, rule: Any, alpha: float) -> dict:
    """Return the constructor parameters of a candidate."""
    found: dict = {"metric": metric, "degree": degree, "alpha": alpha}
    if isinstance(rule, RadiusRule):
        found["bandwidth"] = rule.bandwidth
    elif isinstance(rule, NearestRule) and not rule.loess:
        found["n_neighbors"] = int(rule.count)
    known = model.get_params(deep=False)
    return {name: value for name, value in found.items() if name in known}
