"""Fitted local models: training rows, a rule for neighbourhoods and a solver, as one object."""

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from vicinal._base import namespace, saved
from vicinal._base._compat import num_samples
from vicinal._kernels.local._line_smoother import (
    LineFits,
    LinePoints,
    LineWindow,
    smooth_line,
)
from vicinal.local._neighborhoods import NearestRule, Neighborhoods, RadiusRule, take_queries
from vicinal.local._solvers import RidgeSolver, over_queries


@saved(outside="o")
@dataclass(frozen=True)
class LocalFit:
    """A model fitted anew around every query.

    Attributes
    ----------
    data : TrainingRows or ArrayRows
        Training rows; their library decides on which engine everything runs.
    rule : NearestRule, RadiusRule or ForestRule
        How far a neighbourhood reaches.
    solver : object
        What is fitted to it.
    alpha : float
        Penalty.
    outside : array of shape (n_outputs,)
        Answer where no row is near.
    factor : array of shape (n_samples,) or None
        Factors on the weights of training rows (robust iterations, classes).
    """

    data: Any
    rule: Any
    solver: Any
    alpha: float
    outside: Any
    factor: Any = None

    def __getstate__(self) -> dict:
        """Return the parts, without what is computed from them at first use."""
        return {part.name: getattr(self, part.name) for part in fields(self)}

    # --- queries ---

    def localized(self, X) -> Iterator[tuple[slice, Any, Any]]:
        """Yield (block, design rows of the queries, their neighbourhoods)."""
        place, design = self.data.locate(X)
        localizer = self.data.localizer(self.rule, self.factor)
        for block in self.data.blocks(num_samples(X), self.rule):
            yield block, design[block, :], localizer.neighborhoods(place[block, :])

    def answers(self, X, method: str | None = None) -> Any:
        """Return predictions or class scores, (n_queries, n_outputs)."""
        solver = self.solver.asked(method)
        return self._concat([self._at(solver, *some[1:]) for some in self.localized(X)])

    def _at(self, solver, design, found) -> Any:
        """Return the answers at a block of queries; ``outside`` where nobody is near."""
        empty = found.nobody()
        if not empty.any():
            return solver.path(self.data, design, found, [self.alpha])[0]
        out = np.empty((len(empty), len(self.outside)))
        out[empty] = self.outside
        some = np.flatnonzero(~empty)
        if some.size:
            near = take_queries(found, some)
            out[some] = solver.path(self.data, design[some], near, [self.alpha])[0]
        return out

    def at(self, design) -> np.ndarray:
        """Return the answers at queries in coordinates, where search and fit share them."""
        localizer = self.data.localizer(self.rule, self.factor)
        return np.concatenate(
            [
                self._at(self.solver, design[block], localizer.neighborhoods(design[block]))
                for block in self.data.blocks(len(design), self.rule)
            ]
        )

    def slopes(self, X) -> Any:
        """Return gradients with respect to the columns of X, (n_queries, n_outputs, d)."""
        parts = [
            self.solver.slopes(self.data, design, found, self.alpha)
            for _, design, found in self.localized(X)
        ]
        return self.data.pull_back(self._concat(parts), X)

    def _concat(self, parts: list) -> Any:
        return namespace(parts[0]).concat(parts, axis=0)

    # --- training rows ---

    def left_out(self, rows=None, data=None) -> Any:
        """Return the answers to training rows, each left out of its own neighbourhood.

        ``data`` are the same rows in other coordinates: those of a metric that did not see them.
        """
        fit = self if data is None else replace(self, data=data)
        rows = np.arange(self.data.n_samples) if rows is None else rows
        blocks = fit.data.left_out([self.rule], rows, self.factor)
        return self._concat([fit._at(self.solver, *some[2:]) for some in blocks])

    def fitted(self) -> np.ndarray:
        """Return the answers to the training rows, themselves among their neighbours."""
        parts = [self._at(self.solver, *some[1:]) for some in self.on_training()]
        return np.concatenate(parts)

    def on_training(self) -> Iterator[tuple[slice, Any, Any]]:
        """Yield (block, design, neighbourhoods) of the training rows as queries."""
        data = self.data
        localizer = data.localizer(self.rule, self.factor)
        for block in data.blocks(data.n_samples, self.rule):
            yield block, data.rows[block], localizer.neighborhoods(data.index.X[block])

    # --- weights of training rows ---

    def weights(self, X) -> sparse.csr_matrix:
        """Return the smoothing weights, (n_queries, n_samples)."""
        return self._rows(X, lambda design, found: found.weights)

    def kernel(self, X) -> sparse.csr_matrix:
        """Return the equivalent kernel, (n_queries, n_samples)."""
        return self._rows(X, self.block_kernel)

    def block_kernel(self, design, found) -> np.ndarray:
        """Return l(q) of a block, flat as the neighbours are."""
        return self.solver.kernels(self.data, design, found, [self.alpha])[0]

    def _rows(self, X, values) -> sparse.csr_matrix:
        self.data.check_host("Weights of training rows")
        n = self.data.n_samples
        parts = [sparse.csr_matrix((0, n))]
        for _, design, found in self.localized(X):
            flat = values(design, found)
            shape = (found.n_queries, n)
            parts.append(sparse.csr_matrix((flat, found.indices, found.indptr), shape=shape))
        return sparse.vstack(parts, format="csr")

    def answers_and_norms(self, X) -> tuple[np.ndarray, np.ndarray]:
        """Return the answers of a linear smoother and |l(q)|^2 of each query."""
        answers, norms = [], []
        for _, design, found in self.localized(X):
            answers.append(self._at(self.solver, design, found))
            kernel = self.block_kernel(design, found)
            norms.append(squared_norms(found, kernel, self.data.sample_weight))
        return np.concatenate(answers), np.concatenate(norms)

    def joined(self, *rows) -> "LocalFit":
        """Return the model with further rows."""
        return replace(self, data=self.data.joined(*rows), factor=None)


def squared_norms(found: Neighborhoods, kernel: np.ndarray, weights) -> np.ndarray:
    """Return |l(q)|^2 = sum_i l_i^2 / s_i, the variance of a prediction in units of the noise."""
    terms = kernel**2
    if weights is not None:
        terms = terms / weights[found.indices]
    query = np.repeat(np.arange(found.n_queries), found.sizes())
    return np.bincount(query, terms, minlength=found.n_queries)


@saved()
@dataclass(frozen=True)
class GlobalFit(LocalFit):
    """One model for all queries: every row has the same weight everywhere."""

    @classmethod
    def applies(cls, rule, solver) -> bool:
        """Tell whether one fit answers all queries."""
        return isinstance(rule, RadiusRule) and rule.is_global and not solver.depends_on_origin

    @cached_property
    def _plane(self) -> tuple[Any, np.ndarray, np.ndarray]:
        """Origin, values and slopes there of the model."""
        data = self.data
        weights = np.ones(data.n_samples) if data.sample_weight is None else data.sample_weight
        weights = weights if self.factor is None else weights * self.factor
        origin = np.asarray(weights @ data.rows / weights.sum()).reshape(1, -1)
        design = sparse.csr_matrix(origin) if data.is_sparse else origin
        everybody = Neighborhoods(
            np.array([0, data.n_samples], dtype=np.int64),
            np.arange(data.n_samples, dtype=np.int64),
            weights,
            np.zeros(data.n_samples),
            np.full(1, np.inf),
        )
        level = self.solver.path(data, design, everybody, [self.alpha])[0]
        return origin, level, self.solver.slopes(data, design, everybody, self.alpha)[0]

    def answers(self, X, method: str | None = None) -> np.ndarray:
        """Return predictions or class scores, (n_queries, n_outputs)."""
        origin, level, slopes = self._plane
        design = self.data.locate(X)[1]
        return level + np.asarray(design @ slopes.T - origin @ slopes.T)

    def slopes(self, X) -> np.ndarray:
        """Return gradients with respect to the columns of X, the same for every query."""
        slopes = self._plane[2]
        slopes = np.broadcast_to(slopes, (num_samples(X), *slopes.shape))
        return self.data.pull_back(slopes, X)


@saved()
@dataclass(frozen=True)
class LineFit(LocalFit):
    """Unpenalised tricube fits along one column, through windows of sorted points."""

    @classmethod
    def applies(cls, data, rule, solver, alpha: float) -> bool:
        """Tell whether windows of sorted points give what a search and QR would."""
        return (
            type(rule) is NearestRule
            and rule.kernel == "tricube"
            and not data.is_sparse
            and data.n_columns == 1
            and data.index.X is data.rows
            and data.index.is_euclidean
            and data.sample_weight is None
            and not data.targets.are_labels
            and isinstance(solver, RidgeSolver)
            and alpha == 0.0
        )

    @cached_property
    def _sorted(self) -> LinePoints:
        """The points in order (ties by target, so that the order of rows is immaterial)."""
        x, Y = self.data.rows[:, 0], self.data.targets.columns
        order = np.lexsort((*Y.T[::-1], x))
        factor = np.ones(len(x)) if self.factor is None else self.factor[order]
        return LinePoints(x[order], np.ascontiguousarray(Y[order].T), factor)

    def on_line(self, design, *, want_norms: bool = False):
        """Return values, slopes (n_queries, n_outputs), norms (n_queries,) and where they hold."""
        x, Y, _ = self._sorted
        n_queries, rule = len(design), self.rule
        q = np.ascontiguousarray(design[:, 0])
        values = np.full((n_queries, len(Y)), np.nan)
        slopes = np.full((n_queries, len(Y)), np.nan)
        norms = np.full(n_queries, np.nan)
        solved = np.ones(n_queries, dtype=bool)
        count = min(len(x), int(rule.count))
        degree = int(self.solver.degree)
        window = LineWindow(count, rule.exceed, float(rule.stretch), rule.loess, degree)

        def run(queries):
            out = LineFits(values[queries], slopes[queries], norms[queries], solved[queries])
            smooth_line(self._sorted, q[queries], window, want_norms, out)

        over_queries(run, n_queries, self.solver.n_jobs)
        return values, slopes, norms, solved & np.isfinite(values).all(axis=1)

    def at(self, design) -> np.ndarray:
        """Return the answers at queries in coordinates."""
        return self._values(design)[0]

    def _values(self, design, *, want_norms: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """Return values and norms; the few undetermined queries go the general way."""
        values, _, norms, solved = self.on_line(design, want_norms=want_norms)
        rest = np.flatnonzero(~solved)
        if rest.size:
            localizer = self.data.localizer(self.rule, self.factor)
            for block in self.data.blocks(len(rest), self.rule):
                some = design[rest[block]]
                found = localizer.neighborhoods(some)
                kernel = self.block_kernel(some, found)
                values[rest[block]] = self.data.targets.smooth(found, kernel[None])[0]
                norms[rest[block]] = squared_norms(found, kernel, None)
        return values, norms

    def answers(self, X, method: str | None = None) -> np.ndarray:
        """Return predictions, (n_queries, n_outputs)."""
        return self.at(self.data.locate(X)[1])

    def answers_and_norms(self, X) -> tuple[np.ndarray, np.ndarray]:
        """Return the answers and |l(q)|^2 of each query."""
        return self._values(self.data.locate(X)[1], want_norms=True)

    def fitted(self) -> np.ndarray:
        """Return the answers to the training rows, themselves among their neighbours."""
        return self.at(self.data.rows)


def make_fit(data, rule, solver, alpha: float, outside, factor=None) -> LocalFit:
    """Return the object that answers queries: the quickest that gives the same answers."""
    parts = (data, rule, solver, float(alpha), outside, factor)
    if GlobalFit.applies(rule, solver):
        return GlobalFit(*parts)
    if isinstance(outside, np.ndarray) and LineFit.applies(data, rule, solver, alpha):
        return LineFit(*parts)
    return LocalFit(*parts)
