"""Coordinates of the queries, oriented scores, and known rows and points of the surface."""

import copy

import numpy as np

from vicinal._base import saved
from vicinal._kernels.linear._covariance import standard_scale
from vicinal._kernels.surface._nearest_point import mixed_distance
from vicinal.neighbors import NeighborSearch
from vicinal.surface._oracles import Model

METRICS = ("euclidean", "standardized", "mad", "mahalanobis")


def metric_matrix(metric, X: np.ndarray, numeric: np.ndarray) -> np.ndarray:
    """Return what multiplies the columns: a vector, or M of ``(x - z)' M (x - z)``.

    A vector holds factors on the columns, one for columns that are not ``numeric``; a matrix is
    symmetric and positive definite.
    """
    weights = _metric_weights(metric, X)
    if numeric.all():
        return weights
    if weights.ndim == 2:
        raise ValueError(
            "A matrix metric needs columns of numbers, but some hold categories; use a metric with "
            "one weight per column."
        )
    return np.where(numeric, weights, 1.0)


def _metric_weights(metric, X: np.ndarray) -> np.ndarray:
    d = X.shape[1]
    if metric is None or (isinstance(metric, str) and metric == "euclidean"):
        return np.ones(d)
    if isinstance(metric, str):
        _, scale = standard_scale(X, None)
        if metric == "standardized":
            return 1.0 / scale
        if metric == "mad":
            # 1.4826 makes it the standard deviation of normal columns; a column that is mostly one
            # value has none and takes its standard deviation.
            mad = 1.4826 * np.median(np.abs(X - np.median(X, axis=0)), axis=0)
            return 1.0 / np.where(mad > 0.0, mad, scale)
        if metric == "mahalanobis":
            covariance = np.atleast_2d(np.cov(X / scale, rowvar=False, bias=True))
            # A small multiple of the identity keeps the matrix of dependent columns invertible.
            covariance = covariance + 1e-6 * np.eye(d)
            return np.linalg.inv(covariance) / np.outer(scale, scale)
        raise ValueError(f"metric={metric!r} is not one of {list(METRICS)} or an array.")
    matrix = np.asarray(metric, dtype=np.float64)
    if matrix.shape == (d,) and np.all(np.isfinite(matrix)) and matrix.min() > 0.0:
        return np.sqrt(matrix)
    if matrix.shape == (d, d) and np.allclose(matrix, matrix.T):
        if np.linalg.eigvalsh(matrix).min() > 0.0:
            return matrix
    raise ValueError(
        f"metric of shape {matrix.shape} must hold {d} positive weights, or a symmetric positive "
        f"definite matrix of shape {(d, d)}."
    )


class Chart:
    """The free columns of some queries in coordinates with Euclidean distance.

    Parameters
    ----------
    base : ndarray of shape (n_queries, n_features)
        Queries in their own columns; columns that are not free keep these values.
    weights : ndarray of shape (n_features,) or (n_features, n_features)
        What ``metric_matrix`` returned.
    free : ndarray of bool of shape (n_features,), default=None
        Columns that may change; ``None`` for all.
    dtype : dtype, default=None
        Precision to which points are rounded, except for values that are those of the query;
        ``None`` leaves them as they are.
    """

    def __init__(self, base, weights, free=None, dtype=None):
        self.base = base
        self.free = np.ones(base.shape[1], dtype=bool) if free is None else free
        self.all_free, self.dtype = bool(self.free.all()), dtype
        free = self.free
        if weights.ndim == 1:
            self.forward = weights[free]
            self.backward = 1.0 / self.forward
        else:
            self.forward = np.linalg.cholesky(weights[np.ix_(free, free)])
            self.backward = np.linalg.inv(self.forward)
        self.is_diagonal = self.forward.ndim == 1
        self.Z = self.coordinates(base)

    def take(self, rows) -> "Chart":
        """Return the chart of some queries."""
        part = copy.copy(self)
        part.base, part.Z = self.base[rows], self.Z[rows]
        return part

    def coordinates(self, X) -> np.ndarray:
        """Return the coordinates of rows."""
        X = X if self.all_free else X[:, self.free]
        return X * self.forward if self.is_diagonal else X @ self.forward

    def columns(self, Z, rows) -> np.ndarray:
        """Return the rows at coordinates ``Z`` of the queries ``rows``."""
        values = Z * self.backward if self.is_diagonal else Z @ self.backward
        if self.dtype is not None:
            if self.is_diagonal:
                values = np.where(Z == self.Z[rows], self.base[rows][:, self.free], values)
            values = values.astype(self.dtype).astype(np.float64)
        if self.all_free:
            return values
        X = self.base[rows].copy()
        X[:, self.free] = values
        return X

    def gradients(self, G) -> np.ndarray:
        """Return gradients with respect to coordinates, from those with respect to columns."""
        G = G if self.all_free else G[..., self.free]
        return G * self.backward if self.is_diagonal else G @ self.backward.T

    def covectors(self, G) -> np.ndarray:
        """Return gradients with respect to columns, from those with respect to coordinates."""
        values = G * self.forward if self.is_diagonal else G @ self.forward.T
        if self.all_free:
            return values
        full = np.zeros((len(G), len(self.free)))
        full[:, self.free] = values
        return full


class Problem:
    """A batch of queries, and the labels wanted for them.

    Parameters
    ----------
    model : Model
        The classifier.
    chart : Chart
        Coordinates of the search.
    own : ndarray of shape (n_queries,)
        Codes predicted at the queries.
    target : int or ndarray of shape (n_queries,), default=-1
        Codes to reach, -1 for any other than the own one.
    density : callable, default=None
        Whether rows are where known rows are, which is wanted too.
    limits : tuple of array, default=(-inf, inf)
        Lowest and highest coordinates of points, of shape (n_queries, n_coordinates).
    """

    def __init__(
        self, model: Model, chart: Chart, own, target=-1, density=None, limits=(-np.inf, np.inf)
    ):
        self.model = model
        self.chart = chart
        self.own = own
        self.target = np.broadcast_to(target, own.shape)
        self.density = density
        self.Z = chart.Z
        self.low, self.high = (np.broadcast_to(limit, self.Z.shape) for limit in limits)
        self.n_evaluations = np.zeros(len(own), dtype=np.int64)

    @property
    def is_binary(self) -> bool:
        """Whether there are two classes, and so one score."""
        return len(self.model.classes) == 2

    @property
    def has_slopes(self) -> bool:
        """Whether slopes cost no more than values."""
        return self.model.kind == "gradient"

    def reached(self, codes, rows) -> np.ndarray:
        """Return whether codes are wanted ones."""
        target = self.target[rows]
        return np.where(target < 0, codes != self.own[rows], codes == target)

    def flipped(self, Z, rows) -> np.ndarray:
        """Return whether points have a wanted label, and lie where rows are dense if wanted."""
        np.add.at(self.n_evaluations, rows, 1)
        X = self.chart.columns(Z, rows)
        hit = self.reached(self.model.codes(X), rows)
        if self.density is not None and hit.any():
            hit[hit] = self.density(X[hit])
        return hit

    def evaluate(self, Z, rows, gradient: bool, rivals=None):
        """Return the score oriented to be positive on the query's side, and its gradient.

        ``rivals`` names one other class per point to compare with; -1 or ``None`` is the best one.
        """
        np.add.at(self.n_evaluations, rows, 1)
        values, slopes = self.model.scores(self.chart.columns(Z, rows), gradient)
        if gradient:
            slopes = self.chart.gradients(slopes)
        if self.is_binary:
            side = np.where(self.own[rows] == 1, 1.0, -1.0)
            return side * values, None if slopes is None else side[:, None] * slopes
        plus, minus = self._compared(values, rows, rivals)
        at = np.arange(len(values))
        return (
            values[at, plus] - values[at, minus],
            None if slopes is None else slopes[at, plus] - slopes[at, minus],
        )

    def _compared(self, values, rows, rivals):
        """Return the two classes whose scores are compared at each point."""
        own, target = self.own[rows], self.target[rows]
        others = values.copy()
        others[np.arange(len(values)), np.where(target < 0, own, target)] = -np.inf
        best = others.argmax(axis=1)
        plus, minus = np.where(target < 0, own, best), np.where(target < 0, best, target)
        if rivals is None:
            return plus, minus
        return np.where(rivals < 0, plus, own), np.where(rivals < 0, minus, rivals)

    def rivals_at(self, Z, rows) -> np.ndarray:
        """Return the runner-up class at points."""
        values, _ = self.model.scores(self.chart.columns(Z, rows), False)
        values[np.arange(len(values)), self.own[rows]] = -np.inf
        return values.argmax(axis=1)

    def take(self, rows) -> "Problem":
        """Return the problem of some queries."""
        chart, limits = self.chart.take(rows), (self.low[rows], self.high[rows])
        return Problem(self.model, chart, self.own[rows], self.target[rows], self.density, limits)

    def cut(self, Z, rows) -> np.ndarray:
        """Return points cut to the limits of their queries."""
        return np.clip(Z, self.low[rows], self.high[rows])


@saved(rows="n d", codes="n", numeric="d")
class ReferenceRows:
    """Training rows with their predicted codes, in the coordinates of one chart.

    Parameters
    ----------
    rows : ndarray of shape (n_samples, n_coordinates)
        Training rows.
    codes : ndarray of shape (n_samples,)
        Their predicted codes.
    numeric : ndarray of bool of shape (n_coordinates,)
        Coordinates that hold numbers; the others hold categories.
    """

    def __init__(self, rows, codes, numeric):
        self.rows = rows
        self.codes = codes
        self.numeric = numeric
        self._searches: dict = {}

    def __getstate__(self):
        return {**self.__dict__, "_searches": {}}

    def _search(self, key: int):
        """Return the search among rows of other codes than ``key``, or of code -2 - ``key``."""
        if key not in self._searches:
            which = np.flatnonzero(self.codes != key if key >= 0 else self.codes == -2 - key)
            search = None
            if which.size and self.numeric.any():
                search = NeighborSearch(n_jobs=1).fit(
                    np.ascontiguousarray(self.rows[which][:, self.numeric])
                )
            self._searches[key] = (which, search)
        return self._searches[key]

    def opposites(self, Z, own, target, k: int) -> np.ndarray:
        """Return the ``k`` nearest rows of a wanted label, -1 where there are fewer."""
        out = np.full((len(Z), k), -1, dtype=np.int64)
        keys = np.where(target < 0, own, -2 - target)
        for key in np.unique(keys):
            some = np.flatnonzero(keys == key)
            which, search = self._search(key)
            if not which.size:
                continue
            count = min(k, len(which))
            if search is None:
                out[some, :count] = which[:count]
            elif self.numeric.all():
                found = search.kneighbors(Z[some], count, return_distance=False)
                out[some, :count] = which[found]
            else:
                out[some, :count] = which[self._nearest_mixed(Z[some], which, search, count)]
        return out

    def _nearest_mixed(self, Z, which, search, count):
        """Rank a longer list of numeric neighbours by the distance that counts categories."""
        longer = min(len(which), max(20 * count, 200))
        query = np.ascontiguousarray(Z[:, self.numeric])
        found = search.kneighbors(query, longer, return_distance=False)
        rows = self.rows[which[found]]
        distance = mixed_distance(rows, Z[:, None], self.numeric)
        order = np.argsort(distance, axis=1, kind="stable")[:, :count]
        return np.take_along_axis(found, order, axis=1)


@saved(inner="m d", outer="m d", points="m d", sides="m 2")
class SurfacePool:
    """Points of the surface found in ``fit``, with the codes on their two sides."""

    def __init__(self, inner, outer, points, sides):
        self.inner = inner
        self.outer = outer
        self.points = points
        self.sides = sides
        self._searches: dict = {}

    def __len__(self):
        return len(self.points)

    def thinned(self, cell: float) -> "SurfacePool":
        """Return the first point of each cell of a lattice."""
        lattice = np.column_stack([np.round(self.points / cell), self.sides])
        kept = np.sort(np.unique(lattice, axis=0, return_index=True)[1])
        return SurfacePool(*(a[kept] for a in (self.inner, self.outer, self.points, self.sides)))

    def __getstate__(self):
        return {**self.__dict__, "_searches": {}}

    def _search(self, code: int):
        if code not in self._searches:
            which = np.flatnonzero((self.sides == code).any(axis=1))
            search, spacing = None, 0.0
            if which.size:
                search = NeighborSearch(n_jobs=1).fit(self.points[which])
                if which.size > 1:
                    spacing = float(np.median(search.kneighbors(None, 1)[0]))
            self._searches[code] = (which, search, spacing)
        return self._searches[code]

    def nearest(self, problem: Problem, rows, k: int):
        """Yield the ``k`` nearest points on the border that queries seek, for every border.

        These are: which of ``rows`` seek it, numbers and distances of their points, and the
        typical distance between neighbouring points of that border.
        """
        key = np.where(problem.target < 0, problem.own, problem.target)[rows]
        for code in np.unique(key):
            which, search, spacing = self._search(code)
            if search is not None:
                some = np.flatnonzero(key == code)
                distances, found = search.kneighbors(problem.Z[rows[some]], min(k, len(which)))
                yield some, which[found], distances, spacing
