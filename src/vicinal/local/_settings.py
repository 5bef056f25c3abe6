"""Resolution of the parameters of local models."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from types import SimpleNamespace
from typing import Any

import numpy as np
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge, RidgeClassifier
from sklearn.svm import LinearSVC
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets

from vicinal._base import (
    TrainingData,
    class_factors,
    takes_weights,
    training_data,
)
from vicinal.local._fits import LocalFit, make_fit
from vicinal.local._neighborhoods import FOREST_ROWS, ForestRule, NearestRule, RadiusRule
from vicinal.local._rows import (
    LocalRows,
    SearchOptions,
    is_forest,
    learn_mapping,
    local_weights,
    location_mask,
    map_rows,
    search_metric,
)
from vicinal.local._solvers import (
    ClippedSolver,
    EstimatorSolver,
    NewtonSolver,
    Objective,
    RidgeSolver,
    at_degree,
    suited_to,
)

NEIGHBORS = (10, 20, 40, 80, 160, 320, 640)
ALPHAS = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
# Targets often need less shrinkage than class indicators.
REGRESSION_ALPHAS = (0.001, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
# Newton's method costs ten times a ridge solve: compare fewer candidates.
_ITERATIVE_ALPHAS = (0.01, 0.03, 0.1, 0.3, 1.0)
_ITERATIVE_NEIGHBORS = (10, 20, 40, 80, 160)
# Quadratic models have (d + 1)(d + 2) / 2 coefficients; beyond this they are not tried by "auto".
_MAX_QUADRATIC_COLUMNS = 8
# A good fixed size, and the neighbour whose median distance is the unit of bandwidths tried.
_REFERENCE_NEIGHBOR = 40
# Rows on which candidates are compared; with 700, an error of 3.5 % was estimated as 1.4 %.
MAX_ROWS = 3000
# Bandwidths tried, as multiples of the median distance to the 40th neighbour.
BANDWIDTHS = (0.25, 0.35, 0.5, 0.7, 1.0, 1.4, 2.0, 2.8)
# Most rounds of the gradient metric; half of them on small tables.
MAX_ROUNDS, SMALL = 6, 300
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
    "clip": False,
    "calibration": None,
    "class_weight": None,
    "random_state": None,
    "verbose": 0,
}


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
    metric, metric_params, located, search
        Metric, its arguments, the columns that locate a row, and how neighbours are searched.
    factor : ndarray of shape (n_samples,) or None
        Factors on the weights of training rows (classes).
    robust_iterations : int
        Refits with weights by residuals.
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
    metric_params: dict | None
    located: np.ndarray | None
    search: SearchOptions
    factor: np.ndarray | None
    robust_iterations: int
    has_temperature: bool
    random_state: Any
    verbose: int
    name: str

    @property
    def is_gradient(self) -> bool:
        """Whether the number of rounds of the gradient metric is selected."""
        return isinstance(self.metric, str) and self.metric == "gradient"

    @property
    def is_open(self) -> bool:
        """Whether something is selected."""
        if self.is_gradient or len(self.degrees) * len(self.alphas) > 1:
            return True
        if is_forest(self.metric) or not self.solver.is_compiled:
            return False
        sizes = self.n_neighbors if self.bandwidth is None else self.bandwidth
        return isinstance(sizes, (str, tuple))

    def n_metrics(self, n_samples: int) -> int:
        """Return the number of metrics to compare at most."""
        if not self.is_gradient:
            return 1
        return MAX_ROUNDS if n_samples >= SMALL else MAX_ROUNDS // 2

    def rules(self, rows: LocalRows) -> list:
        """Return the neighbourhood sizes to compare, ascending; one if the user set it."""
        if is_forest(self.metric):
            return [ForestRule(FOREST_ROWS)]
        if self.bandwidth is not None:
            radii = [self.bandwidth]
            if isinstance(self.bandwidth, str):
                radii = _bandwidths(rows, self.random_state)
            return [RadiusRule(float(h), self.kernel, self.outside) for h in radii]
        if isinstance(self.n_neighbors, tuple):
            counts = affordable_sizes(self.n_neighbors, rows.total_weight, rows.n_columns)
            return [NearestRule(float(k), self.kernel) for k in counts]
        return [self.nearest_rule(rows)]

    def nearest_rule(self, rows: LocalRows) -> NearestRule:
        """Return the rule of an explicit number or share of neighbours."""
        total_weight = rows.total_weight
        if isinstance(self.n_neighbors, Integral):
            if int(self.n_neighbors) > total_weight:
                raise ValueError(
                    f"n_neighbors={self.n_neighbors} exceeds the {total_weight:g} samples given "
                    "(counted by weight); lower n_neighbors, or use bandwidth=inf for one global "
                    "model."
                )
            return NearestRule(float(self.n_neighbors), self.kernel)
        if self.span is not None and self.span > 1.0:
            stretch = float(self.span ** (1.0 / rows.n_columns))
            return NearestRule(total_weight, self.kernel, loess=True, stretch=stretch)
        count = max(1.0, float(np.floor(total_weight * self.n_neighbors + 1e-5)))
        return NearestRule(count, self.kernel, loess=True)

    def mapped(self, data: TrainingData, metric: Any) -> LocalRows:
        """Return the rows in the coordinates of a metric, learned from them."""
        return map_rows(
            data, learn_mapping(data, metric, self.located), self.search, self.random_state
        )

    def fit(self, rows: LocalRows, rule: Any, degree: int, alpha: float) -> LocalFit:
        """Return the model of one setting."""
        outside = rows.prior()
        if self.outside == "nan":
            outside = np.full(len(outside), np.nan)
        solver = suited_to(at_degree(self.solver, degree), rows.rows)
        return make_fit(rows, rule, solver, alpha, outside, self.factor)


def resolve(estimator: Any, data: TrainingData) -> LocalSettings:
    """Return the resolved parameters of an estimator; ``_preset`` holds those a subclass fixes."""
    fixed = getattr(estimator, "_preset", {})
    p = SimpleNamespace(**(_DEFAULTS | estimator.get_params(deep=False) | fixed))
    shared: dict = {"relative": p.alpha_scale == "relative", "n_jobs": p.n_jobs}
    if data.classes is not None:
        n_classes = len(data.classes)
        solver = class_solver(p.estimator, p.loss, p.kernel, n_classes, degree=1, **shared)
        alphas: tuple = ALPHAS if solver.is_linear else _ITERATIVE_ALPHAS
    else:
        solver = regression_solver(p.estimator, p.degree, p.kernel, clip=p.clip, **shared)
        alphas = REGRESSION_ALPHAS
    if data.xp is not np:
        _check_device(p, solver, data.groups)
    if p.bandwidth is not None and p.n_neighbors != "auto":
        raise ValueError(
            f"n_neighbors={p.n_neighbors!r} and bandwidth={p.bandwidth!r} are both given; give one "
            "of them."
        )
    if solver.own_alpha is not None:
        alphas = (solver.own_alpha,)
    elif not isinstance(p.alpha, str):
        alphas = (float(p.alpha),)
    degrees: tuple = (p.degree,)
    if p.degree == "auto":
        # Devices have no quadratic models.
        try_quadratic = p.estimator is None and data.n_features <= _MAX_QUADRATIC_COLUMNS
        degrees = (1, 2) if try_quadratic and data.xp is np else (1,)
    n_neighbors = p.n_neighbors if p.span is None else min(1.0, float(p.span))
    if n_neighbors == "auto":
        n_neighbors = NEIGHBORS if solver.is_linear else _ITERATIVE_NEIGHBORS
        if not solver.is_compiled or is_forest(p.metric):
            # Comparing sizes would take too many fits of an estimator: use a good fixed value.
            n_neighbors = (_REFERENCE_NEIGHBOR,)
    located = None
    if p.location_columns is not None:
        names = getattr(estimator, "feature_names_in_", [])
        located = location_mask(p.location_columns, data.n_features, names)
    metric = search_metric(p.metric)
    params = p.metric_params if metric == p.metric else None
    return LocalSettings(
        solver,
        degrees,
        alphas,
        n_neighbors,
        p.bandwidth,
        p.span,
        p.kernel,
        p.outside,
        p.metric,
        p.metric_params,
        located,
        SearchOptions(metric, params, p.algorithm, p.n_jobs),
        _class_factors(p.class_weight, data),
        p.robust_iterations,
        p.calibration is not None and solver.link in ("score", "margin"),
        p.random_state,
        p.verbose,
        type(estimator).__name__,
    )


def _check_device(p: SimpleNamespace, solver: Any, groups: Any) -> None:
    """Refuse parameters that device arrays do not support."""
    is_named = isinstance(p.metric, str) and p.metric in _DEVICE_METRICS
    is_compiled = type(solver) in (RidgeSolver, NewtonSolver) and solver.name != "multinomial"
    unsupported = {
        "bandwidth": p.bandwidth is not None,
        "location_columns": p.location_columns is not None,
        "metric": not (is_named or hasattr(p.metric, "_linear_map")),
        "degree": p.degree == 2,
        "groups": groups is not None,
        "estimator": not (is_compiled or p.clip),
        "class_weight": p.class_weight is not None,
        "robust_iterations": p.robust_iterations > 0,
        "clip": p.clip,
    }
    named = [name for name, is_set in unsupported.items() if is_set]
    if named:
        raise ValueError(
            f"{', '.join(named)} cannot be used as given with a device array; use the default, or "
            "convert X with numpy.asarray."
        )


def _class_factors(class_weight: Any, data: TrainingData) -> np.ndarray | None:
    """Return factors on the weights of rows by their class, if any."""
    if class_weight is None:
        return None
    return class_factors(class_weight, data.classes, data.y, data.weights)[data.y]


def _bandwidths(rows: LocalRows, random_state: Any) -> list[float]:
    some = draw_rows(rows.n_samples, random_state, 500)
    m = min(rows.n_samples, _REFERENCE_NEIGHBOR + 1)
    distances, _ = rows.index.nearest(rows.index.X[some], m)
    reference = float(np.median(distances[:, -1]))
    return [factor * (reference or 1.0) for factor in BANDWIDTHS]


def draw_rows(n_samples: int, random_state, limit: int = MAX_ROWS) -> np.ndarray:
    """Return the rows on which candidates are compared: all, or a random sample of ``limit``."""
    if n_samples <= limit:
        return np.arange(n_samples)
    rng = check_random_state(random_state)
    return np.sort(rng.choice(n_samples, limit, replace=False))


def affordable_sizes(sizes: Sequence[int], total_weight: float, n_columns: int) -> list[int]:
    """Return the sizes that the number of rows and the cost of a prediction allow."""
    most = int(min(total_weight, 2**31)) - 2
    dear = max(160, int(2e6 / n_columns**2))
    return [k for k in sizes if k <= min(most, dear)] or [max(1, min(most, sizes[0]))]


# --- solvers of parameters ---


def class_solver(estimator, loss: str, kernel, n_classes: int, **settings: Any) -> Any:
    """Return the solver of a classifier's parameters: compiled where that is the same model."""
    if estimator is None:
        if loss == "squared_error":
            return RidgeSolver(**settings)
        # A class of tiny weight changes the logistic loss little: the gradient must be smaller.
        return NewtonSolver(Objective(loss, tol=1e-11 if loss == "log_loss" else 1e-9), **settings)
    exact = exact_class_solver(estimator, n_classes)
    if exact is not None:
        return replace(exact, degree=settings["degree"], n_jobs=settings["n_jobs"])
    return EstimatorSolver(estimator, check_local_estimator(estimator, kernel), settings["n_jobs"])


def regression_solver(estimator, degree, kernel, *, relative: bool, clip: bool, n_jobs) -> Any:
    """Return the solver of a regressor's parameters: compiled where that is the same model."""
    solver: Any = RidgeSolver(relative=relative, n_jobs=n_jobs)
    if estimator is not None:
        if degree not in ("auto", 1):
            raise ValueError(
                f"degree={degree!r} needs the built-in local model, but estimator= is given; use "
                "degree='auto', with PolynomialFeatures in the estimator."
            )
        own = None
        if type(estimator) is Ridge and _is_plain_ridge(estimator):
            own = float(estimator.alpha)
        elif type(estimator) is LinearRegression and estimator.fit_intercept:
            own = None if estimator.positive else 0.0
        if own is not None:
            solver = RidgeSolver(relative=False, own_alpha=own, n_jobs=n_jobs)
        else:
            solver = EstimatorSolver(estimator, check_local_estimator(estimator, kernel), n_jobs)
    return ClippedSolver(solver) if clip else solver


def _is_plain_ridge(estimator: Ridge) -> bool:
    return estimator.fit_intercept and not estimator.positive and np.ndim(estimator.alpha) == 0


def exact_class_solver(estimator, n_classes: int = 2) -> Any:
    """Return the solver of an estimator that compiled code reproduces, or ``None``.

    By exact type only: a subclass may differ. Beyond two classes ``LogisticRegression`` is one
    multinomial model, not one against the rest.
    """
    if getattr(estimator, "class_weight", None) is not None or not getattr(
        estimator, "fit_intercept", False
    ):
        return None
    if type(estimator) is RidgeClassifier and not estimator.positive:
        return RidgeSolver(relative=False, own_alpha=float(estimator.alpha))
    if type(estimator) is LinearSVC and _is_plain_svc(estimator):
        scale = 1.0 / estimator.intercept_scaling**2
        objective = Objective("squared_hinge", C=2.0 * estimator.C, rho=scale, rho_per_weight=0.0)
        return NewtonSolver(objective, relative=False, own_alpha=1.0)
    if type(estimator) is LogisticRegression and _is_plain_logistic(estimator):
        loss = "log_loss" if n_classes == 2 else "multinomial"
        objective = Objective(loss, C=estimator.C, rho_per_weight=0.0, tol=1e-11)
        return NewtonSolver(objective, relative=False, own_alpha=1.0)
    return None


def _is_plain_svc(estimator: LinearSVC) -> bool:
    is_l2 = estimator.penalty == "l2" and estimator.loss == "squared_hinge"
    return is_l2 and estimator.multi_class == "ovr"


def _is_plain_logistic(estimator: LogisticRegression) -> bool:
    params = estimator.get_params()
    return (
        params.get("penalty", "deprecated") in ("deprecated", "l2")
        and params.get("l1_ratio") in (None, 0, 0.0)
        and bool(np.isfinite(estimator.C))
        and estimator.solver != "liblinear"
    )


def check_local_estimator(estimator, kernel) -> bool:
    """Return whether the estimator takes weights; without them only equal weights make sense."""
    if takes_weights(estimator):
        return True
    if kernel == "uniform":
        return False
    raise ValueError(
        f"{type(estimator).__name__}.fit takes no sample_weight, which kernel={kernel!r} needs; "
        'use kernel="uniform", or an estimator that accepts sample_weight.'
    )


# --- training data ---


def local_data(
    estimator: Any, X: Any, y: Any, sample_weight: Any, groups: Any, task: str, *, classes=None,
    reset: bool = True, **options: Any,
) -> TrainingData:  # fmt: skip
    """Return the training data of a local model, weights counted in rows.

    ``classes`` are all labels, where these rows lack some.
    """
    options = {"accept_sparse": "csr", "ensure_min_samples": 2 if reset else 1, **options}
    options |= {"multi_output": True} if task == "regression" else {}
    options |= {"reset": reset, "arrays": True, "task": task if classes is None else None}
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
