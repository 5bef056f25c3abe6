"""Fit of a local model: training data, resolved parameters, selection, and the model stored."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import is_classifier
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge, RidgeClassifier
from sklearn.svm import LinearSVC
from sklearn.utils.multiclass import check_classification_targets

from vicinal._base import (
    Progress,
    TrainingData,
    class_factors,
    column_mask,
    takes_weights,
    training_data,
)
from vicinal._kernels.calibration._probabilities import fit_temperature
from vicinal.local._fits import InterpolatedFit, LocalFit, make_fit, reweighted
from vicinal.local._gradient_metric import GradientMetric
from vicinal.local._neighborhoods import FORESTS, ForestRule, NearestRule, RadiusRule
from vicinal.local._rows import (
    REFERENCE_NEIGHBOR,
    LocalRows,
    SearchOptions,
    comparison_rows,
    left_out_predictions,
    local_weights,
    mapped,
    metric_views,
    nearest_rule,
    search_metric,
    sees_labels,
    size_rules,
)
from vicinal.local._solvers import EstimatorSolver, NewtonSolver, Objective, RidgeSolver, at_degree

NEIGHBORS = (10, 20, 40, 80, 160, 320, 640)
ALPHAS = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
# Targets often need less shrinkage than class indicators.
REGRESSION_ALPHAS = (0.001, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
# Newton's method costs ten times a ridge solve: compare fewer candidates.
_ITERATIVE_ALPHAS = (0.01, 0.03, 0.1, 0.3, 1.0)
_ITERATIVE_NEIGHBORS = (10, 20, 40, 80, 160)
# Quadratic models have (d + 1)(d + 2) / 2 coefficients; beyond this they are not tried by "auto".
_MAX_QUADRATIC_COLUMNS = 8
# Most rounds of the gradient metric; half of them on small tables.
MAX_ROUNDS, SMALL = 6, 300
# Rounds without improvement that end a search.
_N_ITER_NO_CHANGE = 2
# Settings whose losses differ by less than this many standard errors count as equal.
_STANDARD_ERRORS = 0.5
# Metrics available on a device.
_DEVICE_METRICS = ("euclidean", "standardized", "gradient")
# Parameters that not every local estimator has.
_DEFAULTS = {
    "estimator": None,
    "loss": "squared_error",
    "degree": 1,
    "n_neighbors": "auto",
    "bandwidth": None,
    "span": None,
    "kernel": "tricube",
    "metric_params": None,
    "alpha": "auto",
    "alpha_scale": "relative",
    "robust_iterations": 0,
    "location_columns": None,
    "outside": "nearest",
    "surface": "direct",
    "cell": None,
    "calibration": None,
    "class_weight": None,
    "random_state": None,
    "verbose": 0,
}


# --- training data ---


def local_data(
    estimator: Any, X: Any, y: Any, sample_weight: Any, groups: Any, *, classes=None,
    reset: bool = True, **options: Any,
) -> TrainingData:  # fmt: skip
    """Return the training data of a local model, weights counted in rows.

    ``classes`` are all labels, where these rows lack some.
    """
    task = "classification" if is_classifier(estimator) else "regression"
    options = {"accept_sparse": "csr", "ensure_min_samples": 2 if reset else 1, **options}
    options |= {"multi_output": task == "regression", "reset": reset, "arrays": True}
    options["task"] = task if classes is None else None
    data = training_data(estimator, X, y, sample_weight, groups, **options)
    if classes is not None:
        data = _coded(data, classes)
    return local_weights(estimator, data, reset=reset)


def _coded(data: TrainingData, classes: Any) -> TrainingData:
    """Return the data with codes of given classes, among which the labels must be."""
    classes, labels = np.unique(classes), data.host(data.y)
    check_classification_targets(labels)
    codes = np.clip(np.searchsorted(classes, labels), 0, len(classes) - 1)
    unknown = np.unique(labels[classes[codes] != labels])
    if unknown.size:
        raise ValueError(
            f"y holds labels {unknown.tolist()} that are not among the classes "
            f"{classes.tolist()}; pass all of them as classes= in the first partial_fit."
        )
    return replace(data, y=data.array(codes.astype(np.int64)), classes=classes)


# --- settings ---


@dataclass(frozen=True)
class LocalSettings:
    """Resolved parameters of a local model.

    Attributes
    ----------
    solver : object
        Solver of the local models.
    degrees, alphas : tuple
        Degrees and penalties to compare; one where the user set it.
    n_neighbors : int, float or tuple of int
        Neighbours, a share of the rows, or the sizes to compare.
    bandwidth : float, "auto" or None
        Fixed radius instead.
    span : float or None
        Share of the rows as LOESS counts it: above 1 the bandwidth of all rows is enlarged.
    kernel, outside
        As the user gave them.
    metric, located, search
        Metric, the columns that locate a row, and how neighbours are searched.
    is_gradient : bool
        Whether the number of rounds of the gradient metric is selected.
    factor : ndarray of shape (n_samples,) or None
        Factors on the weights of training rows (classes).
    robust_iterations : int
        Refits with weights by residuals.
    cell : float or None
        Size of the cells of an interpolated surface.
    has_temperature : bool
        Whether scores become probabilities by a temperature.
    random_state, verbose, name
        Seed, progress and its label.
    """

    solver: Any
    degrees: tuple[int, ...]
    alphas: tuple[float, ...]
    n_neighbors: Any
    bandwidth: Any
    span: float | None
    kernel: Any
    outside: str
    metric: Any
    is_gradient: bool
    located: np.ndarray | None
    search: SearchOptions
    factor: np.ndarray | None
    robust_iterations: int
    cell: float | None
    has_temperature: bool
    random_state: Any
    verbose: int
    name: str

    @property
    def is_forest(self) -> bool:
        """Whether neighbours are rows that share leaves of a forest."""
        return isinstance(self.metric, str) and self.metric in FORESTS

    @property
    def is_open(self) -> bool:
        """Whether something is selected."""
        if self.is_gradient or len(self.degrees) * len(self.alphas) > 1:
            return True
        if self.is_forest or not self.solver.is_compiled:
            return False
        sizes = self.n_neighbors if self.bandwidth is None else self.bandwidth
        return isinstance(sizes, (str, tuple))


def resolve(estimator: Any, data: TrainingData) -> LocalSettings:
    """Return the resolved parameters of an estimator; ``_preset`` holds those a subclass fixes."""
    fixed = getattr(estimator, "_preset", {})
    p = SimpleNamespace(**(_DEFAULTS | estimator.get_params(deep=False) | fixed))
    solver = _choose_solver(p, data.classes)
    if not data.is_host:
        _check_device(p, solver, data)
    if p.bandwidth is not None and p.n_neighbors != "auto":
        raise ValueError(
            f"n_neighbors={p.n_neighbors!r} and bandwidth={p.bandwidth!r} are both given; give one "
            "of them."
        )
    alphas: tuple = REGRESSION_ALPHAS if data.classes is None else ALPHAS
    if solver.own_alpha is not None:
        alphas = (solver.own_alpha,)
    elif not isinstance(p.alpha, str):
        alphas = (float(p.alpha),)
    elif not solver.is_linear:
        alphas = _ITERATIVE_ALPHAS
    degrees: tuple = (p.degree,)
    if p.degree == "auto":
        # Devices have no quadratic models.
        try_quadratic = p.estimator is None and data.n_features <= _MAX_QUADRATIC_COLUMNS
        degrees = (1, 2) if try_quadratic and data.is_host else (1,)
    is_forest = isinstance(p.metric, str) and p.metric in FORESTS
    n_neighbors = p.n_neighbors if p.span is None else min(1.0, float(p.span))
    if n_neighbors == "auto":
        n_neighbors = NEIGHBORS if solver.is_linear else _ITERATIVE_NEIGHBORS
        if not solver.is_compiled or is_forest:
            # Comparing sizes would take too many fits of an estimator: use a good fixed value.
            n_neighbors = (REFERENCE_NEIGHBOR,)
    located, factor = None, None
    if p.location_columns is not None:
        names = getattr(estimator, "feature_names_in_", [])
        located = location_mask(p.location_columns, data.n_features, names)
    if p.class_weight is not None:
        factor = class_factors(p.class_weight, data.classes, data.y, data.weights)[data.y]
    metric, in_search = p.metric, search_metric(p.metric)
    params = p.metric_params if in_search == metric else None
    is_gradient = isinstance(metric, str) and metric == "gradient"
    if is_gradient:
        rounds = MAX_ROUNDS if len(data) >= SMALL else MAX_ROUNDS // 2
        task = "regression" if data.classes is None else "classification"
        fixed = {"task": task, "n_jobs": p.n_jobs, "random_state": 0}
        metric = GradientMetric(rounds, **fixed | (p.metric_params or {}))
    return LocalSettings(
        solver=solver,
        degrees=degrees,
        alphas=alphas,
        n_neighbors=n_neighbors,
        bandwidth=p.bandwidth,
        span=p.span,
        kernel=p.kernel,
        outside=p.outside,
        metric=metric,
        is_gradient=is_gradient,
        located=located,
        search=SearchOptions(in_search, params, p.algorithm, p.n_jobs),
        factor=factor,
        robust_iterations=p.robust_iterations,
        cell=p.cell if p.surface == "interpolate" else None,
        has_temperature=p.calibration is not None and solver.link in ("score", "margin"),
        random_state=p.random_state,
        verbose=p.verbose,
        name=type(estimator).__name__,
    )


def _choose_solver(p: Any, classes: Any) -> Any:
    """Return the solver of an estimator's parameters: compiled where that is the same model."""
    if p.estimator is None:
        relative = p.alpha_scale == "relative"
        if classes is None or p.loss == "squared_error":
            return RidgeSolver(relative=relative, n_jobs=p.n_jobs)
        # A class of tiny weight changes the logistic loss little: the gradient must be smaller.
        objective = Objective(p.loss, tol=1e-11 if p.loss == "log_loss" else 1e-9)
        return NewtonSolver(objective, relative=relative, n_jobs=p.n_jobs)
    if classes is None and p.degree not in ("auto", 1):
        raise ValueError(
            f"degree={p.degree!r} needs the built-in local model, but estimator= is given; use "
            "degree='auto', with PolynomialFeatures in the estimator."
        )
    exact = exact_solver(p.estimator, None if classes is None else len(classes))
    if exact is not None:
        return replace(exact, n_jobs=p.n_jobs)
    is_weighted = takes_weights(p.estimator)
    if not is_weighted and p.kernel != "uniform":  # without weights only equal ones make sense
        raise ValueError(
            f"{type(p.estimator).__name__}.fit takes no sample_weight, which kernel={p.kernel!r} "
            'needs; use kernel="uniform", or an estimator that accepts sample_weight.'
        )
    return EstimatorSolver(p.estimator, is_weighted, p.n_jobs)


def exact_solver(estimator, n_classes: int | None = 2) -> Any:
    """Return the solver of an estimator that compiled code reproduces, or ``None``.

    By exact type only: a subclass may differ. ``n_classes`` is ``None`` for regression.
    ``LogisticRegression`` of more than two classes is one multinomial model, not one against the
    rest.
    """
    kind = type(estimator)
    weighted = getattr(estimator, "class_weight", None) is not None
    if weighted or not getattr(estimator, "fit_intercept", False):
        return None
    if kind is (Ridge if n_classes is None else RidgeClassifier):
        is_plain = not estimator.positive and np.ndim(estimator.alpha) == 0
        return RidgeSolver(relative=False, own_alpha=float(estimator.alpha)) if is_plain else None
    if kind is LinearRegression and n_classes is None and not estimator.positive:
        return RidgeSolver(relative=False, own_alpha=0.0)
    if kind is LinearSVC:
        settings = estimator.penalty, estimator.loss, estimator.multi_class
        if settings != ("l2", "squared_hinge", "ovr"):
            return None
        scale = 1.0 / estimator.intercept_scaling**2
        objective = Objective("squared_hinge", C=2.0 * estimator.C, rho=scale, rho_per_weight=0.0)
        return NewtonSolver(objective, relative=False, own_alpha=1.0)
    if kind is LogisticRegression and n_classes == 2 and _is_plain_logistic(estimator):
        objective = Objective("log_loss", C=estimator.C, rho_per_weight=0.0, tol=1e-11)
        return NewtonSolver(objective, relative=False, own_alpha=1.0)
    return None


def _is_plain_logistic(estimator: LogisticRegression) -> bool:
    params = estimator.get_params()
    return (
        params.get("penalty", "deprecated") in ("deprecated", "l2")
        and params.get("l1_ratio") in (None, 0, 0.0)
        and bool(np.isfinite(estimator.C))
        and estimator.solver != "liblinear"
    )


def _check_device(p: SimpleNamespace, solver: Any, data: TrainingData) -> None:
    """Refuse parameters that device arrays do not support."""
    is_named = isinstance(p.metric, str) and p.metric in _DEVICE_METRICS
    unsupported = {
        "bandwidth": p.bandwidth is not None,
        "location_columns": p.location_columns is not None,
        "metric": not (is_named or hasattr(p.metric, "_linear_map")),
        "degree": p.degree == 2,
        "groups": data.groups is not None,
        "estimator": not solver.is_compiled,
        "class_weight": p.class_weight is not None,
        "robust_iterations": p.robust_iterations > 0,
    }
    named = [name for name, is_set in unsupported.items() if is_set]
    if named:
        raise ValueError(
            f"{', '.join(named)} cannot be used as given with a device array; use the default, or "
            "convert X with numpy.asarray."
        )


def location_mask(columns, n_features: int, names) -> np.ndarray:
    """Return which columns locate a row, from numbers, names or a mask."""
    mask = column_mask(columns, n_features, names, "location_columns")
    if not mask.any() or mask.all():
        raise ValueError(
            f"location_columns={columns!r} must name at least one and not all of the {n_features} "
            "columns of X."
        )
    return mask


# --- selection ---


class Compared(NamedTuple):
    """Left-out predictions of all sizes and penalties, under one metric and degree."""

    metric: Any
    rows: LocalRows | None  # in its coordinates; None where they were learned in folds
    degree: int
    settings: list[tuple[Any, float]]  # rule and penalty of each candidate
    order: np.ndarray  # the rows predicted
    weights: np.ndarray  # how often each of them counts
    predictions: np.ndarray  # (n_candidates, n_rows, n_outputs)
    losses: np.ndarray  # (n_candidates, n_rows)


def comparisons(
    data: TrainingData, settings: LocalSettings, sample=None, folds=None, entries=None,
    dtype=np.float64,
) -> Iterator[Compared]:  # fmt: skip
    """Yield left-out predictions until two rounds of the metric in a row gain nothing.

    Of a random sample of the rows, or of ``sample``, whose rows of each fold are ``entries``.
    """
    loss, weights = loss_of(data), data.host(data.weights)
    sample = comparison_rows(len(data), settings.random_state) if sample is None else sample
    best, n_waited = np.inf, 0
    for metric, views in metric_views(data, settings, settings.metric, sample, folds, entries):
        rules, least = size_rules(settings, views[0].rows), np.inf
        pairs = [(rule, float(alpha)) for rule in rules for alpha in settings.alphas]
        order = np.concatenate([view.sample for view in views])
        rows = None if sees_labels(metric) else views[0].rows
        for degree in settings.degrees:
            found = left_out_predictions(views, rules, degree, settings.alphas, settings, dtype)
            found = found.reshape(-1, *found.shape[2:])
            losses = loss(found, order)
            least = min(least, np.average(losses, axis=1, weights=weights[order]).min())
            yield Compared(metric, rows, degree, pairs, order, weights[order], found, losses)
        best, n_waited = min(least, best), 0 if least < best else n_waited + 1
        if n_waited >= _N_ITER_NO_CHANGE:
            return


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


class Selected(NamedTuple):
    """The setting selected, its rows in coordinates, and what it was compared with.

    ``scores`` are the left-out predictions of the rows ``order`` under it, if some were needed.
    """

    rows: Any
    metric: Any
    rule: Any
    degree: int
    alpha: float
    candidates: Any = ()
    scores: Any = None
    order: Any = None


def select(data: TrainingData, settings: LocalSettings) -> Selected:
    """Select what the user left unset, by leaving rows out."""
    if settings.is_open or settings.has_temperature:
        return _compare(data, settings)
    rows = mapped(data, settings, settings.metric)
    rule = size_rules(settings, rows)[0]
    return Selected(rows, settings.metric, rule, settings.degrees[0], settings.alphas[0])


def _compare(data: TrainingData, settings: LocalSettings) -> Selected:
    """Return the setting selected by left-out losses, with its scores."""
    candidates: list[Candidate] = []
    leading: Any = None
    n_steps = (settings.metric.n_rounds if settings.is_gradient else 1) * len(settings.degrees)
    label = f"{settings.name} leave-one-out"
    with Progress(n_steps, label, verbose=settings.verbose) as shown:
        for one in comparisons(data, settings):
            found = [
                Candidate(one.metric, one.degree, rule, alpha, losses, one.weights)
                for (rule, alpha), losses in zip(one.settings, one.losses, strict=True)
            ]
            least = min(c.loss for c in found)
            if not candidates or least < min(c.loss for c in candidates):
                leading = one, found
            candidates += found
            shown.advance(note=f"least loss {least:.4g}")
    best = best_candidate(candidates)
    one, found = leading  # the best candidate is among those of the least loss
    scores = next(
        own for setting, own in zip(found, one.predictions, strict=True) if setting is best
    )
    rows = mapped(data, settings, best.metric) if one.rows is None else one.rows
    fixed = (best.metric, best.rule, best.degree, best.alpha)
    return Selected(rows, *fixed, candidates if settings.is_open else (), scores, one.order)


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


def temperature_of(chosen: Selected, data: TrainingData, settings: LocalSettings) -> float | None:
    """Fit the temperature to scores of rows that their models, and metrics, did not see."""
    if not settings.has_temperature:
        return None
    order = chosen.order
    weights = None if data.sample_weight is None else data.host(data.sample_weight)[order]
    return fit_temperature(chosen.scores, data.host(data.y)[order], weights)


# --- the model ---


def fitted_model(
    settings: LocalSettings, rows: LocalRows, rule: Any, degree: int, alpha: float
) -> LocalFit:
    """Return the model of one setting."""
    outside = rows.prior()
    if settings.outside == "nan":
        outside = np.full(len(outside), np.nan)
    solver = rows.suited(at_degree(settings.solver, degree))
    model = make_fit(rows, rule, solver, alpha, outside, settings.factor)
    if settings.cell is not None:
        model = InterpolatedFit.of(model, settings.cell)
    return reweighted(model, settings.robust_iterations)


def store(estimator: Any, chosen: Selected, settings: LocalSettings) -> None:
    """Store the model of a setting in an estimator, with the attributes that users read."""
    rows, metric, rule, degree, alpha, candidates, *_ = chosen
    estimator._model = fitted_model(settings, rows, rule, degree, alpha)
    learned = rows.mapping.coordinates.learned
    estimator.metric_ = metric if learned is None else learned
    estimator.alpha_ = float(alpha)
    estimator.degree_ = degree
    estimator.n_neighbors_ = int(rule.count) if isinstance(rule, NearestRule) else None
    estimator.bandwidth_ = float(rule.bandwidth) if isinstance(rule, RadiusRule) else None
    if candidates:
        estimator.selection_ = selection_table(candidates)
        estimator.loo_score_ = best_candidate(candidates).loss


def add_rows(estimator: Any, data: TrainingData) -> None:
    """Add rows to a fitted model; what was selected stays as it is."""
    rows, rule = estimator._model.data.joined(data), estimator._model.rule
    settings = resolve(estimator, replace(data, y=rows.y, sample_weight=rows.weights))
    if estimator.bandwidth is None and isinstance(estimator.n_neighbors, float):
        rule = nearest_rule(settings, rows)
        estimator.n_neighbors_ = int(rule.count)
    estimator._held_out_cache = None
    estimator._model = fitted_model(settings, rows, rule, estimator.degree_, estimator.alpha_)
