"""Solvers: what is fitted to a block of weighted neighbourhoods.

Every solver has the same methods. ``path(data, design, found, alphas)`` returns predictions at the
queries for each penalty, shape (n_alphas, n_queries, n_outputs). ``slopes(data, design, found,
alpha)`` returns the gradients of the local models in the coordinates of the design, shape
(n_queries, n_outputs, n_columns). Linear smoothers (``is_linear``) also return equivalent kernels,
``kernels``, of shape (n_alphas, nnz): the prediction is ``sum_i l_i(q) y_i``. ``data`` are the
training rows, ``design`` the rows of the queries, ``found`` their neighbourhoods; ``alphas`` are
positive, or a single 0.
"""

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from array_api_compat import device as device_of
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from vicinal import _base
from vicinal._kernels.local import _batched
from vicinal._kernels.local._classifiers import local_classifiers
from vicinal._kernels.local._polynomials import (
    pseudo_inverse_fit,
    ridge_equivalent_kernels,
    ridge_slopes,
)
from vicinal._kernels.local._smoothing import smooth_targets
from vicinal._kernels.local._workspace import (
    LOGISTIC,
    SQUARED,
    SQUARED_HINGE,
    FitObjective,
    Fits,
    Motion,
    Queries,
    n_design_columns,
)
from vicinal.local._neighborhoods import WeightedNeighborhoods, take_queries

# Queries and fits per task of a thread.
_QUERIES_PER_TASK = 256
_FITS_PER_TASK = 32
_LOSSES = {"squared_error": SQUARED, "squared_hinge": SQUARED_HINGE, "log_loss": LOGISTIC}
# Spread of neighbours, relative to their squared distance, that counts as none.
_FLAT = 1e-14
# Offsets whose squares underflow.
_TINY = 1e-140


def over_queries(function: Callable[[slice], None], n_queries: int, n_jobs: int | None) -> None:
    """Call ``function`` on slices of the queries, in threads."""
    threads = 1 if n_queries == 1 else _base.n_threads(n_jobs)
    size = max(1, min(_QUERIES_PER_TASK, -(-n_queries // threads)))
    slices = [slice(i, min(i + size, n_queries)) for i in range(0, n_queries, size)]
    _base.thread_map(function, slices, n_jobs)


def bundled(X, Q, found: WeightedNeighborhoods, some: slice, degree: int) -> Queries:
    """Bundle some queries; the flat arrays are shared."""
    indptr = found.indptr[some.start : some.stop + 1]
    return Queries(X, Q[some], indptr, found.indices, found.weights, degree)


# --- ridge ---


@_base.saved()
@dataclass(frozen=True)
class RidgeSolver:
    """Polynomials of a degree with a ridge penalty on all but the intercept.

    ``relative`` multiplies the penalty by the mean squared spread of the neighbourhood;
    ``own_alpha`` is the penalty of the estimator that this solver replaces.
    """

    degree: int = 1
    relative: bool = True
    own_alpha: float | None = None
    n_jobs: int | None = None

    name = "squared_error"
    link = "score"
    is_linear = True
    is_compiled = True

    @property
    def depends_on_origin(self) -> bool:
        """Whether a global model depends on the query at which it is centred."""
        return self.degree == 2

    def path(self, data, design, found, alphas) -> np.ndarray:
        """Return predictions of shape (n_alphas, n_queries, n_outputs)."""
        flat = self.kernels(data, design, found, alphas, skip=data.one_class(found))
        return data.smooth(found, flat)

    def kernels(self, data, design, found, alphas, skip=None) -> np.ndarray:
        """Return l(q) for each penalty, shape (n_alphas, nnz), in the order of the neighbours.

        Queries in ``skip`` get the local constant fit.
        """
        alphas = np.asarray(alphas, dtype=np.float64)
        if self.degree == 0:  # averages have no penalty
            return np.repeat(found.shares()[None], len(alphas), axis=0)
        out = np.empty((len(alphas), len(found.indices)))
        solved = np.ones(found.n_queries, dtype=bool)
        if skip is None:
            skip = np.zeros(found.n_queries, dtype=bool)
        everything = bundled(data.rows, design, found, slice(0, found.n_queries), self.degree)
        if _batched.is_small(everything, alphas, relative=self.relative):
            _batched.small_equivalent_kernels(everything, alphas, skip, out)
            return out

        def fit(some):
            queries = bundled(data.rows, design, found, some, self.degree)
            if alphas[0] > 0.0:
                shared = self.relative, skip[some], out, solved[some]
                ridge_equivalent_kernels(queries, alphas, *shared)
            else:  # unpenalised polynomials go through QR
                solved[some] = _batched.least_squares_fits(queries, None, out[0])

        over_queries(fit, found.n_queries, self.n_jobs)
        failed = np.flatnonzero(~solved & ~found.is_empty())
        if alphas[0] == 0.0:
            _warn_underdetermined(data.rows, found, failed, self.degree)
        for t in failed:
            for kernel, alpha in zip(out, alphas, strict=True):
                entries, fit_of_one = self._singular_fit(data.rows, design, found, t, alpha)
                kernel[entries] = fit_of_one[0]
        return out

    def slopes(self, data, design, found, alpha) -> np.ndarray:
        """Return gradients of shape (n_queries, n_outputs, n_columns), 0 around one class only."""
        Y = data.columns
        out = np.zeros((found.n_queries, Y.shape[1], data.n_columns))
        if self.degree == 0:
            return out
        pure = data.one_class(found)
        if pure is not None and pure.any():
            mixed = np.flatnonzero(~pure)
            if mixed.size:
                out[mixed] = self.slopes(data, design[mixed], take_queries(found, mixed), alpha)
            return out
        everything = bundled(data.rows, design, found, slice(0, found.n_queries), self.degree)
        if _batched.is_small(everything, alpha, relative=self.relative):
            _batched.small_slopes(everything, Y, alpha, out)
            return out
        solved = np.ones(found.n_queries, dtype=bool)

        def fit(some):
            queries = bundled(data.rows, design, found, some, self.degree)
            if alpha > 0.0:
                ridge_slopes(queries, Y, float(alpha), self.relative, out[some], solved[some])
            else:
                solved[some] = _batched.least_squares_fits(queries, Y, out[some])

        over_queries(fit, found.n_queries, self.n_jobs)
        for t in np.flatnonzero(~solved & ~found.is_empty()):
            entries, fit_of_one = self._singular_fit(data.rows, design, found, t, alpha)
            out[t] = (fit_of_one[1:] @ Y[found.indices[entries]]).T
        return out

    def _singular_fit(self, X, Q, found, t, alpha) -> tuple[slice, np.ndarray]:
        """Fit one query by singular values, where a system is singular to working precision.

        Returns its entries, and the rows that map their targets to prediction and slopes.
        """
        entries = slice(found.indptr[t], found.indptr[t + 1])
        offsets, weights = X[found.indices[entries]] - Q[t], found.weights[entries]
        if _is_flat(offsets, weights):
            level = weights / weights.sum()
            return entries, np.vstack([level, np.zeros((offsets.shape[1], len(level)))])
        return entries, pseudo_inverse_fit(offsets, weights, self.degree, alpha, self.relative)

    def linear_models(self, data, origins, found, alpha) -> tuple[np.ndarray, np.ndarray]:
        """Return values (n, n_outputs) and slopes (n, n_outputs, n_columns) at the origins.

        A polynomial of degree 2 is stored as its tangent plane.
        """
        slopes = self.slopes(data, origins, found, alpha)
        if self.degree == 1 and alpha > 0.0:
            # A fit with a free intercept passes through the weighted mean of its rows.
            share = found.shares()
            offset = smooth_targets(found.indptr, found.indices, share, data.rows) - origins
            level = data.smooth(found, share[None])[0]
            return level - np.einsum("tp,tcp->tc", offset, slopes), slopes
        return self.path(data, origins, found, [alpha])[0], slopes


def _is_flat(offsets: np.ndarray, weights: np.ndarray) -> bool:
    """Return whether the spread of the neighbours is negligible: their mean is predicted."""
    share = weights / weights.sum()
    scale = np.abs(offsets).max()
    if scale < _TINY:
        return True
    offsets = offsets / scale
    spread = share @ ((offsets - share @ offsets) ** 2).sum(axis=1)
    return bool(spread <= _FLAT * (share @ (offsets**2).sum(axis=1)))


def _warn_underdetermined(X, found, failed, degree) -> None:
    """Warn once when neighbourhoods hold fewer rows than the model has coefficients."""
    needed = n_design_columns(X.shape[1], degree) + 1
    short = int((found.sizes()[failed] < needed).sum())
    if short:
        warnings.warn(
            f"{short} neighbourhoods hold fewer rows than the {needed} coefficients of the local "
            "model; their minimum-norm fit is used. Raise n_neighbors or bandwidth, or set "
            "alpha > 0.",
            ConvergenceWarning,
            stacklevel=2,
        )


# --- Newton ---


@_base.saved()
@dataclass(frozen=True)
class Objective:
    """Loss and penalties of an iterative local classifier.

    ``C`` multiplies the loss; the intercept's penalty is ``rho + rho_per_weight * sum(w)``.
    """

    loss: str
    C: float = 1.0
    rho: float = 0.0
    rho_per_weight: float = 1e-8
    tol: float = 1e-9
    max_iter: int = 100

    def compiled(self, alpha: float, relative: bool) -> FitObjective:
        """Return what compiled code reads: other types of numbers would be compiled again."""
        C, rho, per_weight, tol = map(float, (self.C, self.rho, self.rho_per_weight, self.tol))
        shared = float(alpha), bool(relative), C, rho, per_weight, tol, int(self.max_iter)
        return FitObjective(_LOSSES[self.loss], *shared)


@_base.saved()
@dataclass(frozen=True)
class NewtonSolver:
    """Logistic or squared hinge models, fitted by Newton's method."""

    objective: Objective
    degree: int = 1
    relative: bool = True
    own_alpha: float | None = None
    n_jobs: int | None = None

    is_linear = False
    is_compiled = True

    @property
    def name(self) -> str:
        """Name of the loss."""
        return self.objective.loss

    @property
    def link(self) -> str:
        """How scores become probabilities: some estimators bring their own."""
        return "sigmoid" if self.name == "log_loss" and self.own_alpha is not None else "margin"

    @property
    def depends_on_origin(self) -> bool:
        """Whether a global model depends on the query at which it is centred."""
        return self.degree == 2 or self.own_alpha is not None

    def path(self, data, design, found, alphas) -> np.ndarray:
        """Return scores of shape (n_alphas, n_queries, n_classes)."""
        return np.stack(
            [self._fit(data, design, found, alpha, want_slopes=False)[0] for alpha in alphas]
        )

    def slopes(self, data, design, found, alpha) -> np.ndarray:
        """Return gradients of shape (n_queries, n_classes, n_columns)."""
        return self._fit(data, design, found, alpha, want_slopes=True)[1]

    def linear_models(self, data, origins, found, alpha) -> tuple[np.ndarray, np.ndarray]:
        """Return scores and slopes at the origins."""
        return self._fit(data, origins, found, alpha, want_slopes=True)

    def _fit(self, data, design, found, alpha, *, want_slopes: bool):
        return fit_classifiers(self, data, design, found, alpha, want_slopes=want_slopes)


def fit_classifiers(
    solver, data, design, found, alpha, *, want_slopes: bool = True, motion: Motion | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return scores (n_queries, n_classes) and slopes (n_queries, n_classes, n_columns).

    With ``motion`` its pulls are written, too.
    """
    objective = getattr(solver, "objective", Objective("squared_error"))
    compiled = objective.compiled(alpha, solver.relative)
    scores = np.full((found.n_queries, data.n_outputs), np.nan)
    slopes = np.zeros((*scores.shape, design.shape[1] if want_slopes else 0))
    converged = np.ones(found.n_queries, dtype=bool)

    def solve(some):
        queries = bundled(data.rows, design, found, some, solver.degree)
        out, moved = Fits(scores[some], slopes[some], converged[some]), motion
        if motion is not None:
            parts = motion.queries[some], motion.extra[some], motion.pulls[some]
            moved = motion._replace(queries=parts[0], extra=parts[1], pulls=parts[2])
        local_classifiers(queries, data.y, compiled, out, moved)

    over_queries(solve, found.n_queries, solver.n_jobs)
    if motion is None:
        warn_unconverged(objective, int((~converged).sum()), len(converged))
    return scores, slopes


def warn_unconverged(objective: Objective, n_failed: int, n_fits: int) -> None:
    """Warn if some of the fits stopped early."""
    if n_failed:
        warnings.warn(
            f"{n_failed} of {n_fits} local {objective.loss} fits stopped after "
            f"{objective.max_iter} iterations without converging; raise alpha or "
            "n_neighbors.",
            ConvergenceWarning,
            stacklevel=2,
        )


# --- batches on a device ---


@_base.saved()
class BatchedRidge(RidgeSolver):
    """Local averages and ridge models as batches of small systems."""

    def path(self, data, design, found, alphas) -> Any:
        """Return predictions for each penalty, (n_queries, n_outputs)."""
        xp, Y = _base.namespace(design), data.columns
        if self.degree > 0 and alphas[0] > 0.0:
            shared = (data.rows, Y, design, *found, list(alphas))
            return _batched.batched_ridge_values(*shared, relative=self.relative)
        if self.degree == 0:
            level = found.weights / xp.sum(found.weights, axis=1)[:, None]
        else:
            level = _batched.batched_least_squares(data.rows, design, *found)
        values = xp.sum(level[:, :, None] * _base.take_rows(Y, found.indices), axis=1)
        return [values] * len(alphas)

    def slopes(self, data, design, found, alpha) -> Any:
        """Return gradients of shape (n_queries, n_outputs, n_columns)."""
        Y = data.columns
        if self.degree == 0:
            shape = (design.shape[0], Y.shape[1], design.shape[1])
            return _base.namespace(design).zeros(
                shape, dtype=design.dtype, device=device_of(design)
            )
        near, weights = found
        shared = data.rows, Y, design, near, weights, alpha
        return _batched.batched_slopes(*shared, relative=self.relative)


@_base.saved()
class BatchedNewton(NewtonSolver):
    """One-against-the-rest classifiers as batches of (query, class) pairs."""

    def path(self, data, design, found, alphas) -> Any:
        """Return scores for each penalty, (n_queries, n_classes)."""
        return [self._fit(data, design, found, alpha, want_slopes=False)[0] for alpha in alphas]

    def _fit(self, data, design, found, alpha, *, want_slopes: bool):
        indices, weights = found
        rows = data.rows, data.y, data.n_outputs, design, indices, weights
        scores, slopes, n_failed = _batched.batched_classifiers(
            *rows, self.objective, alpha, relative=self.relative, want_slopes=want_slopes
        )
        warn_unconverged(self.objective, n_failed, scores.shape[0] * scores.shape[1])
        return scores, slopes


# --- any estimator ---


@_base.saved()
@dataclass(frozen=True)
class EstimatorSolver:
    """Clones of any estimator, fitted around every query.

    Attributes
    ----------
    estimator : estimator
        Cloned and fitted on the neighbours, centred at the query.
    weighted : bool
        Whether its ``fit`` takes the weights of the neighbours.
    n_jobs : int or None
        Fits at once.
    method : str
        Method of the classifier to call. A class without neighbours has probability 0 (decision
        -inf); a neighbourhood of one class needs no fit.
    """

    estimator: Any
    weighted: bool
    n_jobs: int | None = None
    method: str = "predict"

    name = "estimator"
    link = "probability"
    is_linear = False
    is_compiled = False
    depends_on_origin = True
    relative = False
    degree = 1
    own_alpha = 0.0

    def with_method(self, method: str | None) -> "EstimatorSolver":
        """Return the solver that calls ``method`` of the estimator."""
        offered = ("predict_proba", "decision_function")
        method = method or next((m for m in offered if hasattr(self.estimator, m)), "predict")
        return replace(self, method=method)

    def path(self, data, design, found, alphas) -> np.ndarray:
        """Return predictions of shape (1, n_queries, n_outputs); ``alphas`` is not used."""
        predict = self._value if data.n_classes is None else self._class_scores

        def some(first):
            values = []
            for t in range(first, min(first + _FITS_PER_TASK, found.n_queries)):
                entries = slice(found.indptr[t], found.indptr[t + 1])
                indices, weights = found.indices[entries], found.weights[entries]
                values.append(predict(data, data.rows[indices] - design[t], indices, weights))
            return values

        tasks = [(first,) for first in range(0, found.n_queries, _FITS_PER_TASK)]
        parts = _base.parallel_map(some, tasks, n_jobs=self.n_jobs, prefer="threads")
        values = [value for part in parts for value in part]
        return np.array(values, dtype=np.float64).reshape(1, found.n_queries, data.n_outputs)

    def _fitted(self, offsets, targets, weights):
        return _base.fit_weighted(
            clone(self.estimator), offsets, targets, weights if self.weighted else None
        )

    def _value(self, data, offsets, indices, weights) -> np.ndarray:
        targets = data.y[indices]
        targets = targets[:, 0] if targets.shape[1] == 1 else targets
        return np.ravel(
            self._fitted(offsets, targets, weights).predict(np.zeros((1, data.n_columns)))
        )

    def _class_scores(self, data, offsets, indices, weights) -> np.ndarray:
        labels, origin = data.y[indices], np.zeros((1, data.n_columns))
        out = np.full(data.n_outputs, 0.0 if self.method == "predict_proba" else -np.inf)
        if np.all(labels == labels[0]):
            out[labels[0]] = 1.0
            return out
        model = self._fitted(offsets, labels, weights)
        if self.method == "predict":
            out[model.predict(origin)[0]] = 1.0
            return out
        values = np.ravel(getattr(model, self.method)(origin))
        out[model.classes_] = values if len(values) > 1 else [-values[0], values[0]]
        return out


# --- sparse rows ---


@_base.saved()
@dataclass(frozen=True)
class SparseSolver:
    """Another solver on sparse rows: a dense block of the few columns that a query's rows use.

    A column that neither the neighbours nor the query use is constant over the neighbourhood: it
    has slope 0 and adds nothing to the fit. The relative penalty counts it all the same.
    """

    inner: Any

    def with_method(self, method: str | None) -> Any:
        """Return the solver that calls ``method`` of the estimator."""
        return SparseSolver(self.inner.with_method(method))

    def __getattr__(self, name: str):
        if name == "inner" or name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.inner, name)

    def path(self, data, design, found, alphas) -> np.ndarray:
        """Return predictions of shape (n_alphas, n_queries, n_outputs)."""
        out = np.empty((len(alphas), found.n_queries, data.n_outputs))
        for t, block, query, one, _, share in self._blocks(data, design, found):
            out[:, t] = self.inner.path(block, query, one, np.multiply(alphas, share))[:, 0]
        return out

    def kernels(self, data, design, found, alphas, skip=None) -> np.ndarray:
        """Return l(q) for each penalty, shape (n_alphas, nnz)."""
        out = np.empty((len(alphas), len(found.indices)))
        for t, block, query, one, _, share in self._blocks(data, design, found):
            entries = slice(found.indptr[t], found.indptr[t + 1])
            out[:, entries] = self.inner.kernels(block, query, one, np.multiply(alphas, share))
        return out

    def slopes(self, data, design, found, alpha) -> np.ndarray:
        """Return gradients as a dense array, shape (n_queries, n_outputs, n_columns)."""
        out = np.zeros((found.n_queries, data.n_outputs, data.n_columns))
        for t, block, query, one, used, share in self._blocks(data, design, found):
            out[t][:, used] = self.inner.slopes(block, query, one, float(alpha * share))[0]
        return out

    def _blocks(self, data, design, found) -> Iterator[tuple]:
        """Yield (query number, its rows, the query, neighbourhood, columns in use, their share)."""
        counted = n_design_columns(data.n_columns, self.inner.degree)
        for t in range(found.n_queries):
            entries = slice(found.indptr[t], found.indptr[t + 1])
            indices = found.indices[entries]
            rows = data.rows[indices]
            used = np.union1d(rows.indices, design[t].indices)
            if used.size == 0:
                used = np.zeros(1, dtype=np.int64)
            dense = np.ascontiguousarray(rows[:, used].toarray())
            block = replace(data, rows=dense, y=data.y[indices], sample_weight=None)
            query = np.ascontiguousarray(design[t][:, used].toarray())
            one = WeightedNeighborhoods(
                np.array([0, len(indices)], dtype=np.int64),
                np.arange(len(indices), dtype=np.int64),
                found.weights[entries],
                found.distances[entries],
                found.bandwidths[t : t + 1],
            )
            share = 1.0
            if self.inner.relative and self.inner.degree > 0:
                share = n_design_columns(len(used), self.inner.degree) / counted
            yield t, block, query, one, used, share


def at_degree(solver: Any, degree: int) -> Any:
    """Return the solver of polynomials of another degree; a black box has its own."""
    return solver if isinstance(solver, EstimatorSolver) else replace(solver, degree=degree)


def on_device(solver: Any) -> Any:
    """Return the solver of the same objective for rows on a device."""
    kind = BatchedRidge if isinstance(solver, RidgeSolver) else BatchedNewton
    return kind(**vars(solver))


# --- scores ---


def probabilities(scores, link: str, temperature: float | None) -> Any:
    """Turn scores of local classifiers into probabilities.

    Parameters
    ----------
    scores : array of shape (n_queries, n_classes)
        Scores.
    link : {"probability", "sigmoid", "score", "margin"}
        What they are: probabilities already, scores of a logistic model, fits to indicators, or
        margins of one class against the rest.
    temperature : float or None
        Of the last two, softmax(score / temperature); ``None`` cuts negative scores to 0 (margins
        go through the logistic function first) and scales rows to sum one.
    """
    if link == "probability":
        return scores
    xp = _base.namespace(scores)
    if link == "sigmoid":
        second = scores[:, 1]
        return xp.exp(_log_sigmoid(xp.stack([-second, second], axis=1)))
    if link == "score" and temperature is None:
        powers = xp.where(scores > 0.0, scores, xp.zeros_like(scores))
        return powers / xp.sum(powers, axis=1, keepdims=True)
    if link == "margin" and temperature is None:
        scores = _log_sigmoid(scores)
    else:
        scores = scores / temperature
    powers = xp.exp(scores - xp.max(scores, axis=1, keepdims=True))
    return powers / xp.sum(powers, axis=1, keepdims=True)


def _log_sigmoid(scores) -> Any:
    """Return log(1 / (1 + exp(-score))); no score is so far out that it overflows."""
    xp = _base.namespace(scores)
    negative = xp.where(scores < 0.0, scores, xp.zeros_like(scores))
    return negative - xp.log1p(xp.exp(-xp.abs(scores)))
