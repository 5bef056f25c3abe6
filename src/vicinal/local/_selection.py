"""Selection of metric, degree, size and penalty by predictions of rows that are left out."""

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import KFold
from sklearn.utils import check_random_state

from vicinal._base import HeldOut, Progress, TrainingData, fold_entries, group_folds
from vicinal._base._tables import sampled_rows
from vicinal._kernels.calibration._probabilities import fit_temperature, fit_temperatures
from vicinal.local._data import MAX_ROWS, local_data
from vicinal.local._fits import store
from vicinal.local._neighborhoods import ForestRule, NearestRule, RadiusRule
from vicinal.local._rows import (
    LocalRows,
    learn_mapping,
    left_out_predictions,
    map_rows,
    sees_labels,
)
from vicinal.local._settings import LocalSettings, resolve, size_rules
from vicinal.local._solvers import at_degree, probabilities

# Rounds of a metric without improvement that end the search.
_N_ITER_NO_CHANGE = 2
# Settings whose losses differ by less than this many standard errors count as equal.
_STANDARD_ERRORS = 0.5
_N_FOLDS = 5
# Settings whose loss on the first fold exceeds the least by more standard errors are dropped there;
# the smallest probability in that loss.
_NEAR, _LEAST_PROBABILITY = 1.5, 1e-6


@dataclass(frozen=True)
class Candidate:
    """One setting, with predictions and losses of rows that were left out.

    Attributes
    ----------
    metric, degree, rule, alpha
        Metric, degree of the local models, neighbourhood rule and penalty.
    rows : LocalRows or None
        Training rows in the coordinates of the metric; ``None`` where these were learned in folds.
    order, weights : ndarray
        The rows left out, and how often each counts.
    losses : ndarray
        Loss of each of them.
    predictions : ndarray of shape (n_rows, n_outputs)
        Predictions of each of them.
    """

    metric: Any
    degree: int
    rule: NearestRule | RadiusRule | ForestRule
    alpha: float
    rows: LocalRows | None
    order: Any = None
    weights: Any = None
    losses: Any = None
    predictions: Any = None

    @property
    def setting(self) -> tuple:
        """What the candidates of the same rows differ in."""
        return _n_rounds(self.metric), self.degree, self.rule, self.alpha

    def joined(self, further: "Candidate") -> "Candidate":
        """Return the candidate with the rows that it left out further on."""
        names = "order", "weights", "losses", "predictions"
        joined: dict[str, Any] = {
            name: np.concatenate([getattr(self, name), getattr(further, name)]) for name in names
        }
        return replace(further, **joined)

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


def select(data: TrainingData, settings: LocalSettings) -> tuple[Candidate, list[Candidate]]:
    """Select what the user left unset, by leaving rows out; also return what was compared."""
    if not (settings.is_open or settings.has_temperature):
        rows = mapped(data, settings, settings.metric)
        rule = size_rules(settings, rows)[0]
        fixed = settings.metric, settings.degrees[0], rule, settings.alphas[0], rows
        return Candidate(*fixed), []
    compared: list[Candidate] = []
    leading: list[Candidate] = []
    n_steps = (settings.metric.n_rounds if settings.is_gradient else 1) * len(settings.degrees)
    label = f"{settings.name} leave-one-out"
    with Progress(n_steps, label, verbose=settings.verbose) as shown:
        for found in comparisons(data, settings):
            least = min(c.loss for c in found)
            if not leading or least < min(c.loss for c in leading):
                leading = found
            compared += [replace(c, predictions=None) for c in found]
            shown.advance(note=f"least loss {least:.4g}")
    best = best_candidate(leading)
    if best.rows is None:
        best = replace(best, rows=mapped(data, settings, best.metric))
    return best, compared if settings.is_open else []


def best_candidate(candidates: list[Candidate]) -> Candidate:
    """Return the smoothest of the settings of one metric and degree that are close to the best.

    Leave-one-out favours rough fits, and a few rows can decide. Of the settings at least as smooth
    as the best and close to it, the one of largest penalty, then of largest size, is taken.
    """
    best = min(candidates, key=lambda c: c.loss)
    smoother = [c for c in candidates if c.alpha >= best.alpha and c.rule.size >= best.rule.size]
    close = [c for c in smoother if c.is_close_to(best)]
    return max(close, key=lambda c: (c.alpha, c.rule.size))


def comparisons(
    data: TrainingData, settings: LocalSettings, sample=None, folds=None, entries=None,
    dtype=np.float64, near: list[Candidate] | None = None,
) -> Iterator[list[Candidate]]:  # fmt: skip
    """Yield the candidates of each metric and degree, until two metrics in a row gain nothing.

    Of a random sample of the rows, or of ``sample``, whose rows of each fold are ``entries``. With
    ``near``, only the sizes and penalties of these candidates are compared.
    """
    loss, weights = loss_of(data), data.host(data.weights)
    if sample is None:
        sample = sampled_rows(len(data), MAX_ROWS, settings.random_state)
    best, n_waited = np.inf, 0
    for metric, views in metric_views(data, settings, settings.metric, sample, folds, entries):
        first, least = views[0][0], np.inf
        order = np.concatenate([own for _, own in views])
        shared = None if sees_labels(metric) else first, order, weights[order]
        for degree in settings.degrees:
            rules, alphas = size_rules(settings, first), settings.alphas
            if near is not None:
                like = [c for c in near if c.setting[:2] == (_n_rounds(metric), degree)]
                if not like:
                    continue
                rules = [rule for rule in rules if rule in [c.rule for c in like]]
                alphas = tuple(alpha for alpha in alphas if alpha in [c.alpha for c in like])
            fixed = at_degree(settings.solver, degree), alphas, settings.factor
            values = left_out_predictions(views, rules, *fixed, dtype)
            found = [
                Candidate(metric, degree, rule, float(alpha), *shared, loss(own, order), own)
                for rule, path in zip(rules, values, strict=True)
                for alpha, own in zip(alphas, path, strict=True)
            ]
            least = min(least, *(c.loss for c in found))
            yield found
        best, n_waited = min(least, best), 0 if least < best else n_waited + 1
        if near is not None:
            if _n_rounds(metric) == max(_n_rounds(c.metric) for c in near):
                return
        elif n_waited >= _N_ITER_NO_CHANGE:
            return


def _n_rounds(metric: Any) -> int:
    """Return the number of rounds of a gradient metric, 0 of others."""
    return getattr(metric, "n_rounds", 0)


def loss_of(data: TrainingData) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """Return the loss of predictions (..., n_rows, n_outputs) for given rows.

    One where the class is wrong; squared error in units of each output's variance.
    """
    y = data.host(data.y)
    if data.classes is not None:
        return lambda scores, rows: (scores.argmax(axis=-1) != y[rows]).astype(np.float64)
    columns = y.reshape(len(y), -1)
    weights = None if data.sample_weight is None else data.host(data.sample_weight)
    centred = columns - np.average(columns, axis=0, weights=weights)
    variance = np.average(centred**2, axis=0, weights=weights)
    scale = np.where(variance > 0.0, variance, 1.0)
    return lambda values, rows: ((values - columns[rows]) ** 2 / scale).mean(axis=-1)


def temperature_of(chosen: Candidate, data: TrainingData, settings: LocalSettings) -> float | None:
    """Fit the temperature to scores of rows that their models, and metrics, did not see."""
    if not settings.has_temperature:
        return None
    order = chosen.order
    weights = None if data.sample_weight is None else data.host(data.sample_weight)[order]
    return fit_temperature(chosen.predictions, data.host(data.y)[order], weights)


# --- rows under a metric ---


def mapped(data: TrainingData, settings: LocalSettings, metric: Any) -> LocalRows:
    """Return the rows in the coordinates of a metric, learned from them."""
    mapping = learn_mapping(data, metric, settings.located)
    return map_rows(data, mapping, settings.search, settings.random_state)


def metric_views(
    data: TrainingData, settings: LocalSettings, metric: Any, sample, folds=None, entries=None
) -> Iterator[tuple[Any, list[tuple[LocalRows, np.ndarray]]]]:
    """Yield (metric, [(rows under it, those that it did not see)]) for every metric to compare.

    There is one, or one per round. A metric that learns from labels is learned once per fold,
    without the fold; neighbours are searched among all rows as at prediction.
    """
    if not sees_labels(metric):
        yield metric, [(mapped(data, settings, metric), sample)]
        return
    if folds is None or entries is None:
        folds = label_folds(len(data), data.groups, settings.random_state)
        entries = fold_entries(folds, sample)
    learned = [_mappings(data.outside(fold), settings, metric) for fold in folds]
    for found in zip(*learned, strict=False):
        pairs = zip(found, entries, strict=True)
        views = [(map_rows(data, one[1], settings.search), own) for one, own in pairs if len(own)]
        yield found[0][0], views


def _mappings(data: TrainingData, settings: LocalSettings, metric: Any) -> Iterator[tuple]:
    """Yield (metric, coordinates), of a gradient metric in selection after each round."""
    if not (settings.is_gradient and metric is settings.metric):
        yield metric, learn_mapping(data, metric, settings.located)
        return
    for r, mapping in enumerate(clone(metric)._mappings(data, settings.located)):
        yield clone(metric).set_params(n_rounds=r + 1), mapping


def label_folds(n_samples: int, groups, random_state) -> list[np.ndarray]:
    """Return folds; a metric for a fold is learned without its labels."""
    n_folds = min(_N_FOLDS, n_samples)
    if groups is None:
        seed = check_random_state(random_state).randint(np.iinfo(np.int32).max)
        splits = KFold(n_folds, shuffle=True, random_state=seed).split(np.arange(n_samples))
        return [test for _, test in splits]
    return group_folds(groups, n_folds)


# --- held-out predictions of every candidate ---


def held_out_candidates(
    model: Any, data: TrainingData, settings: LocalSettings, folds, rows, before=()
) -> HeldOut:
    """Return held-out predictions of every candidate.

    Further folds are predicted by the candidates whose loss on the folds ``before`` was near the
    least.
    """
    if folds is None:
        folds = label_folds(len(data), data.groups, settings.random_state)
    entries = fold_entries(folds, rows)
    order, near = np.concatenate(entries), near_best(before, data) if before else None
    found: list[Candidate] = []
    temperatures: list[float | None] = []
    for some in comparisons(data, settings, order, folds, entries, np.float32, near):
        found += some
        temperatures += _to_probabilities(some, data, settings)
    if before:
        known = {candidate.setting: candidate for candidate in before}
        found = [known[candidate.setting].joined(candidate) for candidate in found]
        order = found[0].order
    parameters = [_parameters(model, candidate) for candidate in found]

    def fitted(c: int, *table):
        one = copy.copy(model).set_params(**parameters[c])
        used, what, rows = data, settings, found[c].rows
        if table:
            X, y, weight = table
            used = local_data(one, X, y, weight, None)
            what = resolve(one, used)
        if table or rows is None:
            rows = mapped(used, what, found[c].metric)
        store(one, replace(found[c], rows=rows), what)
        if data.classes is not None:
            one.temperature_ = temperatures[c]
        return one

    predictions = np.stack([candidate.predictions for candidate in found])
    has_rows = not hasattr(model, "anchors")  # anchored models store other models than these
    more = partial(held_out_candidates, model, data, settings, rows=rows, before=found)
    return HeldOut(parameters, order, predictions, fitted if has_rows else None, more)


def near_best(found: list[Candidate], data: TrainingData) -> list[Candidate]:
    """Return the candidates whose loss is within some standard errors of the least.

    The log loss of the probabilities, or the squared error; differences are paired.
    """
    order, weights = found[0].order, found[0].weights
    losses = np.stack([one.losses for one in found])
    if data.classes is not None:
        codes = data.host(data.y)[order]
        own = np.stack([one.predictions[np.arange(len(order)), codes] for one in found])
        losses = -np.log(np.maximum(own, _LEAST_PROBABILITY))
    means = np.average(losses, axis=1, weights=weights)
    excess = losses - losses[means.argmin()]
    means = np.average(excess, axis=1, weights=weights)
    variance = np.average((excess - means[:, None]) ** 2, axis=1, weights=weights)
    errors = np.sqrt(variance / weights.sum())
    return [found[c] for c in np.flatnonzero(means <= _NEAR * errors)]


def _to_probabilities(found: list[Candidate], data: TrainingData, settings: LocalSettings) -> list:
    """Turn scores of classifiers into probabilities in place; return the temperatures."""
    temperatures: list[float | None] = [None] * len(found)
    if data.classes is None:
        return temperatures
    if settings.has_temperature:
        order = found[0].order
        weights = None if data.sample_weight is None else data.host(data.sample_weight)[order]
        scores = np.stack([one.predictions for one in found]).astype(np.float64)
        temperatures = fit_temperatures(scores, data.host(data.y)[order], weights).tolist()
    for one, temperature in zip(found, temperatures, strict=True):
        scores = one.predictions.astype(np.float64)
        one.predictions[:] = probabilities(scores, settings.solver.link, temperature)
    return temperatures


def _parameters(model: Any, candidate: Candidate) -> dict:
    """Return the constructor parameters of a candidate."""
    rule = candidate.rule
    found = {"metric": candidate.metric, "degree": candidate.degree, "alpha": candidate.alpha}
    if isinstance(rule, RadiusRule):
        found["bandwidth"] = rule.bandwidth
    elif isinstance(rule, NearestRule) and not rule.loess:
        found["n_neighbors"] = int(rule.count)
    known = model.get_params(deep=False)
    return {name: value for name, value in found.items() if name in known}
