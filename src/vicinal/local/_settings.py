"""Parameters of a local model with the values of "auto" and of the defaults."""

from dataclasses import dataclass, replace
from numbers import Integral
from types import SimpleNamespace
from typing import Any

import numpy as np
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge, RidgeClassifier
from sklearn.svm import LinearSVC

from vicinal._base import TrainingData, class_factors, column_mask, takes_weights
from vicinal._base._tables import sampled_rows
from vicinal.local._gradient_metric import GradientMetric
from vicinal.local._neighborhoods import FOREST_ROWS, ForestRule, NearestRule, RadiusRule
from vicinal.local._rows import LocalRows, is_forest, rows_class, search_metric
from vicinal.local._solvers import EstimatorSolver, NewtonSolver, Objective, RidgeSolver
from vicinal.neighbors import NeighborSearch

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
# A good fixed size, and the neighbour whose median distance is the unit of bandwidths tried.
REFERENCE_NEIGHBOR = 40
# Bandwidths tried, as multiples of the median distance to the 40th neighbour.
BANDWIDTHS = (0.25, 0.35, 0.5, 0.7, 1.0, 1.4, 2.0, 2.8)
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
    "calibration": None,
    "class_weight": None,
    "random_state": None,
    "verbose": 0,
}


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
        Metric, the columns that locate a row, and the search for neighbours in its coordinates.
    is_gradient : bool
        Whether the number of rounds of the gradient metric is selected.
    factor : ndarray of shape (n_samples,) or None
        Factors on the weights of training rows (classes).
    robust_iterations : int
        Refits with weights by residuals.
    interpolate : bool
        Whether predictions are interpolated between fits.
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
    search: NeighborSearch
    factor: np.ndarray | None
    robust_iterations: int
    interpolate: bool
    has_temperature: bool
    random_state: Any
    verbose: int
    name: str

    @property
    def is_open(self) -> bool:
        """Whether something is selected."""
        if self.is_gradient or len(self.degrees) * len(self.alphas) > 1:
            return True
        if is_forest(self.metric) or not self.solver.is_compiled:
            return False
        sizes = self.n_neighbors if self.bandwidth is None else self.bandwidth
        return isinstance(sizes, (str, tuple))


def resolve(estimator: Any, data: TrainingData) -> LocalSettings:
    """Return the resolved parameters of an estimator; ``_preset`` holds those a subclass fixes."""
    fixed = getattr(estimator, "_preset", {})
    p = SimpleNamespace(**(_DEFAULTS | estimator.get_params(deep=False) | fixed))
    solver = _choose_solver(p, data.classes)
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
        try_quadratic = p.estimator is None and data.n_features <= _MAX_QUADRATIC_COLUMNS
        degrees = rows_class(data).degrees if try_quadratic else (1,)
    n_neighbors = p.n_neighbors if p.span is None else min(1.0, float(p.span))
    if n_neighbors == "auto":
        n_neighbors = NEIGHBORS if solver.is_linear else _ITERATIVE_NEIGHBORS
        if not solver.is_compiled or is_forest(p.metric):
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
        search=NeighborSearch(
            metric=in_search, metric_params=params, algorithm=p.algorithm, n_jobs=p.n_jobs
        ),
        factor=factor,
        robust_iterations=p.robust_iterations,
        interpolate=p.surface == "interpolate",
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
        data.check_on_host(
            f"{', '.join(named)} cannot be used as given with a device array; use the default"
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


# --- sizes of neighbourhoods ---


def size_rules(settings: LocalSettings, rows: LocalRows) -> list:
    """Return the neighbourhood sizes to compare, ascending; one if the user set it."""
    if is_forest(settings.metric):
        return [ForestRule(FOREST_ROWS)]
    if settings.bandwidth is None:
        if not isinstance(settings.n_neighbors, tuple):
            return [nearest_rule(settings, rows)]
        # What the number of rows and the cost of a prediction allow.
        sizes, most = settings.n_neighbors, int(min(rows.total_weight, 2**31)) - 2
        dear = max(160, int(2e6 / rows.n_columns**2))
        counts = [k for k in sizes if k <= min(most, dear)] or [max(1, min(most, sizes[0]))]
        return [NearestRule(float(k), settings.kernel) for k in counts]
    radii = [settings.bandwidth]
    if isinstance(settings.bandwidth, str):
        radii = _bandwidths(rows, settings.random_state)
    return [RadiusRule(float(h), settings.kernel, settings.outside) for h in radii]


def nearest_rule(settings: LocalSettings, rows: LocalRows) -> NearestRule:
    """Return the rule of an explicit number or share of neighbours."""
    total_weight, count = rows.total_weight, settings.n_neighbors
    if isinstance(count, Integral):
        if int(count) > total_weight:
            raise ValueError(
                f"n_neighbors={count} exceeds the {total_weight:g} samples given (counted by "
                "weight); lower n_neighbors, or use bandwidth=inf for one global model."
            )
        return NearestRule(float(count), settings.kernel)
    if settings.span is not None and settings.span > 1.0:
        stretch = float(settings.span ** (1.0 / rows.n_columns))
        return NearestRule(total_weight, settings.kernel, loess=True, stretch=stretch)
    count = max(1.0, float(np.floor(total_weight * count + 1e-5)))
    return NearestRule(count, settings.kernel, loess=True)


def _bandwidths(rows: LocalRows, random_state: Any) -> list[float]:
    some = sampled_rows(rows.n_samples, 500, random_state)
    m = min(rows.n_samples, REFERENCE_NEIGHBOR + 1)
    distances, _ = rows.index.nearest(rows.index.X[some], m)
    reference = float(np.median(distances[:, -1]))
    return [factor * (reference or 1.0) for factor in BANDWIDTHS]
